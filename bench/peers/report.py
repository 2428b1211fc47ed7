"""The peers report: the page, its data, and the tables of the README and the comparison, made of the same data."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench.page import Page, Section, made_here
from bench.peers.measure import KILLED_EVENTS, KILLED_PER_SECOND, PACE_PER_SECOND, Figures
from bench.peers.services import EVENT_BYTES, Convoy, Hookline, Outpost, Svix

TITLES = {peer.name: peer.title for peer in (Hookline, Svix, Outpost, Convoy)}
SERVICES = {peer.name: peer.services for peer in (Hookline, Svix, Outpost, Convoy)}
BUSY_CORES_MAX = 0.2
"""Of what others use before a round: above this the page says that the machine was not quiet."""
README_HEAD = (
    "On one machine",
    "accepted/s",
    "delivered/s",
    "CPU s per 1,000",
    "p50 / p99",
    "`kill -9`: lost / sent twice",
)
COMPARISON_TITLE = "## Measured by us, on one machine"


class Measured(msgspec.Struct, kw_only=True):
    """The medians of one service over its rounds, and the worst of what a kill did."""

    version: str
    built: str
    median: Figures
    lost: int
    twice: tuple[int, int]
    straggler_seconds: tuple[float, float]


class Summary(msgspec.Struct, kw_only=True):
    """All that the report says in figures."""

    made: str
    rounds: int
    seconds: float
    flush_microseconds: float
    busy_cores: float
    peers: dict[str, Measured]


def summarise(
    found: Mapping[str, Sequence[Figures]],
    built: Mapping[str, str],
    *,
    seconds: float,
    busy_cores: float,
    flush_seconds: float,
) -> Summary:
    """Return the medians of rounds."""
    return Summary(
        made=made_here(),
        rounds=max(len(rounds) for rounds in found.values()),
        seconds=seconds,
        flush_microseconds=flush_seconds * 1e6,
        busy_cores=busy_cores,
        peers={name: _measured(rounds, built.get(name, "")) for name, rounds in found.items()},
    )


def _measured(rounds: Sequence[Figures], built: str) -> Measured:
    each = [msgspec.structs.asdict(figures) for figures in rounds]
    median = {
        name: value if isinstance(value, str) or value is None else statistics.median(one[name] for one in each)
        for name, value in each[0].items()
    }
    twice, late = [one.killed_twice for one in rounds], [one.straggler_seconds for one in rounds]
    return Measured(
        version=rounds[0].version,
        built=built,
        median=msgspec.convert(median, Figures, strict=False),
        lost=max(one.killed_lost for one in rounds),
        twice=(min(twice), max(twice)),
        straggler_seconds=(min(late), max(late)),
    )


def write(summary: Summary, file: Path, root: Path) -> None:
    """Write the page, its data beside it, and the tables in the README and the comparison."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page(summary).markdown())
    content = msgspec.json.format(msgspec.json.encode(summary), indent=2)
    file.with_suffix(".json").write_bytes(content + b"\n")
    readme, comparison = root / "README.md", root / "docs" / "explanation" / "comparison.md"
    readme.write_text(replaced(readme.read_text(), _first_line(readme_table(summary)), readme_table(summary)))
    comparison.write_text(compared(comparison.read_text(), summary))


def replaced(text: str, head: str, table: str) -> str:
    """Return the text with another table in the place of the one that begins with this line."""
    pattern = re.compile(rf"^{re.escape(head)}\n(?:\|.*\n)*", re.MULTILINE)
    if not pattern.search(text):
        raise RuntimeError(f"no table begins with {head!r}")
    return pattern.sub(lambda _: table, text, count=1)


def compared(text: str, summary: Summary) -> str:
    """Return the comparison with these figures in its section."""
    before, title, rest = text.partition(COMPARISON_TITLE)
    old = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    if not title or old is None:
        raise RuntimeError(f"the comparison has no table under {COMPARISON_TITLE!r}")
    return before + title + rest[: old.start()] + comparison_table(summary) + rest[old.end() :]


def readme_table(summary: Summary) -> str:
    """Return the README's table: a line for each service."""
    rows = [
        (
            f"{TITLES[name]}",
            f"{found.median.accepted_per_second:,.0f}",
            f"{found.median.delivered_per_second:,.0f}",
            _significant(found.median.cpu_seconds_per_thousand),
            _latency(found.median),
            f"{found.lost} / {_span(found.twice)}",
        )
        for name, found in summary.peers.items()
    ]
    return _table(README_HEAD, rows)


def comparison_table(summary: Summary) -> str:
    """Return the comparison's table: a column for each service."""
    columns, rows = lines(summary)
    return _table(columns, rows)


def lines(summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the report's table: its head, and a line for each figure."""
    peers = summary.peers
    medians = [found.median for found in peers.values()]

    def line(name: str, values: Sequence[str]) -> tuple[str, ...]:
        return name, *values

    way = {"hookline": "calls of 100", "outpost": "RabbitMQ"}
    fast = [
        f"{m.fast_accepted_per_second:,.0f} ({way[name]})" if m.fast_accepted_per_second else "–"
        for name, m in zip(peers, medians, strict=True)
    ]
    rows = [
        line("accepted per second, one event per request", [f"{m.accepted_per_second:,.0f}" for m in medians]),
        line("accepted per second, fastest way in", fast),
        line("delivered per second, end to end", [f"{m.delivered_per_second:,.0f}" for m in medians]),
        line(
            "the same, fastest way in",
            [f"{m.fast_delivered_per_second:,.0f}" if m.fast_delivered_per_second else "–" for m in medians],
        ),
        line("CPU seconds per 1,000 delivered", [_significant(m.cpu_seconds_per_thousand) for m in medians]),
        line(f"p50 / p99 at {PACE_PER_SECOND:g} events per second", [_latency(m) for m in medians]),
        line(
            "memory idle / after load, stores included",
            [f"{m.idle_bytes / 2**20:,.0f} / {m.loaded_bytes / 2**20:,.0f} MiB" for m in medians],
        ),
        line("time from start to ready", [f"{m.start_seconds:.2f} s" for m in medians]),
        line("services to run", [str(len(SERVICES[name])) for name in peers]),
        line(
            f"`kill -9` within {KILLED_EVENTS:,} events: lost / sent twice",
            [f"{found.lost} / {_span(found.twice)}" for found in peers.values()],
        ),
        line("last event delivered after the kill", [_seconds(found.straggler_seconds) for found in peers.values()]),
    ]
    return ("", *(TITLES[name] for name in peers)), rows


def page(summary: Summary) -> Page:
    """Return the report."""
    columns, rows = lines(summary)
    return Page(
        title="Peers report",
        prose=PROSE,
        command="python -m bench peers --svix PROGRAM --outpost PROGRAM --convoy PROGRAM --write docs/reports/peers.md",
        made=summary.made,
        sections=(
            Section(title="Figures", prose=_circumstances(summary), columns=columns, rows=tuple(rows)),
            Section(
                title="Versions",
                prose=_absent(summary),
                columns=("service", "version, as it says", "built of"),
                rows=tuple((TITLES[name], found.version, found.built or "–") for name, found in summary.peers.items()),
            ),
            Section(title="How it is measured", prose=METHOD),
            Section(title="Settings", prose=SETTINGS_PROSE, columns=("service", "setting", "why"), rows=SETTINGS),
            Section(title="What is unfair", prose=UNFAIR),
            Section(title="The programs", prose=PROGRAMS),
        ),
        checks=(),
    )


def _circumstances(summary: Summary) -> str:
    said = (
        f"Medians of {summary.rounds} rounds in rotation; loads of {summary.seconds:g} s; of a kill, the least and the "
        f"most. A write of 4 KiB with `fdatasync` took {summary.flush_microseconds:,.0f} µs on this disk."
    )
    if summary.busy_cores > BUSY_CORES_MAX:
        said += (
            f" **The machine was not quiet**: before a round, others used up to {summary.busy_cores:.1f} of its cores. "
            "These figures say nothing but that the bench works."
        )
    return said


def _absent(summary: Summary) -> str:
    absent = [title for name, title in TITLES.items() if name not in summary.peers]
    if not absent:
        return ""
    return f"Not measured here, because no program was given: {', '.join(absent)}."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    align = ("---",) * len(head)
    separator = f"|{'|'.join(align)}|"
    return "\n".join([_line(head), separator, *(_line(row) for row in rows)]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |".replace("|  |", "| |", 1)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _latency(figures: Figures) -> str:
    return f"{_significant(figures.p50_seconds * 1000)} / {_significant(figures.p99_seconds * 1000)} ms"


def _significant(value: float) -> str:
    """Return two digits that say something, and no more than three decimals."""
    for floor, places in ((10, 0), (1, 1), (0.1, 2)):
        if value >= floor:
            return f"{value:,.{places}f}"
    return f"{value:.3f}"


def _span(values: tuple[int, int]) -> str:
    return f"{values[0]}" if values[0] == values[1] else f"{values[0]}–{values[1]}"


def _seconds(values: tuple[float, float]) -> str:
    low, high = (f"{value:.1f}" for value in values)
    return f"{low} s" if low == high else f"{low}–{high} s"


PROSE = """\
Hookline compared with services that send webhooks and that you can run yourself: Svix, Outpost and Convoy, as far as
their programs were given. They ran one after the other on one machine, each with the stores that its makers recommend
for production. We make Hookline, so the settings are chosen in the peers' favour, and what is unfair is
listed [below](#what-is-unfair)."""

METHOD = f"""\
One application, tenant or source has one endpoint, and each event is {EVENT_BYTES} bytes. Stores are Debian's
PostgreSQL 15, Redis and RabbitMQ, in a temporary folder, and flush to disk: PostgreSQL at each commit, Redis each
second, RabbitMQ before it confirms. A service starts anew with empty stores for each round.

- **Accepted, delivered**: wrk sends over 64 connections, and nginx answers 200 as the receiver and counts.
  *Delivered* is from the first call until the last delivery, so it counts a backlog too. The fastest way in is a call
  of a hundred events at Hookline and persistent messages in its RabbitMQ queue, confirmed, at Outpost. The others
  take one event in a request.
- **CPU**: user and system time of all processes of the service and its stores, while these events were accepted and
  delivered and one second after. Load and receiver are not in it.
- **p50, p99**: from sending the call to the arrival at the receiver, at {PACE_PER_SECOND:g} events a second, on one
  clock.
- **Memory**: proportional set size of all processes of the service and its stores, two seconds after the start and
  after the load.
- **Start**: from starting the program with its stores running and its schema in place until its health check answers.
- **Kill**: {KILLED_EVENTS:,} events at up to {KILLED_PER_SECOND:,.0f} a second. In the middle all processes of the
  service get `kill -9` and it is started again; its stores stay. *Lost* are events that were accepted and did not
  arrive within 150 s, *sent twice* those that arrived more than once. The last event is counted from the moment when
  the service is ready again."""

SETTINGS_PROSE = "What is not the default. `bench/peers/services.py` and `bench/peers/stores.py` have them all."

SETTINGS = (
    ("all", "PostgreSQL: `shared_buffers` 512 MB, `max_wal_size` 4 GB", "checkpoints seldom fall into a measurement"),
    ("all", "Redis: append-only file, flushed each second", "flushing always would slow the peers down"),
    (
        "Svix",
        "queue in Redis, cache in memory",
        "a crash loses the queue in memory; its makers advise this cache for one instance",
    ),
    ("Svix", "40 connections to PostgreSQL", "two cores have no use for the default, 100"),
    ("Outpost", "`PUBLISH_`, `DELIVERY_` and `LOG_MAX_CONCURRENCY` 100", "the default is 1"),
    ("Outpost", "log batches of at most 1 s", "deliveries are recorded sooner, so that a kill repeats fewer"),
    ("Outpost", "one process instead of three", "less memory, fewer hops"),
    ("Convoy", "rate limits of 1,000,000, consumer pool of 100", "its limits are not what is measured"),
    ("Convoy", "events go to the agent, deliveries too", "as its makers run it in production"),
    ("peers", "quietest log, no telemetry, no retention", "work that nobody asked for"),
    ("Hookline", "none", "the default, one process group without stores"),
)

UNFAIR = """\
In the peers' favour:

- Load and receiver share the two cores with the service. This takes most from Hookline, because it is limited by the
  processor and the others wait for their stores.
- Redis flushes each second only, and the peers' stores live through the kill. Hookline's journal is in its own
  processes, which are all killed.
- Their schemas exist before the start is timed, and their stores run. Hookline's start includes both.

In Hookline's favour:

- We know its settings better than theirs. Their makers may know better ones.
- A flush takes microseconds on this disk. On a disk where it takes milliseconds every figure changes, and those of a
  service that flushes more often per event change more.
- Peers are made to run on several machines, with stores that are shared or managed elsewhere. Here they get two cores
  for all.
- Peers do work that Hookline does not do: tenants or applications with a portal, event types with schemas, queues and
  object storage as destinations, and tables of all attempts that can be searched with SQL. Hookline does work that
  they do not do, such as checking an SDK's call and dropping repeats for 24 hours, but that is the smaller part.
- Hookline's figures are those of its default, SQLite and a local journal. With Kafka and PostgreSQL it takes more
  ([sizing](../explanation/sizing.md)).
- One receiver that answers at once is the simplest case. [Isolation](isolation.md) has receivers that are not well,
  for Hookline only."""

PROGRAMS = """\
The programs are given by path and are not part of this repository. Build them as their makers describe it:
[Svix](https://github.com/svix/svix-webhooks/tree/main/server#readme) (`svix-server`),
[Outpost](https://github.com/hookdeck/outpost#readme) (`outpost-server`, with `outpost` beside it, which prepares the
stores), [Convoy](https://github.com/frain-dev/convoy#readme) (`convoy`). Debian has the stores and tools: `apt-get
install postgresql redis-server rabbitmq-server nginx wrk`. `--svix-commit` and the like name what was built, for the
table of versions. A peer without a program is left out. A run that is ended goes on with the round that is missing."""
