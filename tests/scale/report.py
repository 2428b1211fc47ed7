"""The scale report: what was measured against the aims, as a page, as data, and as the tables of the page on sizing."""

from __future__ import annotations

from pathlib import Path

import msgspec
from bench.page import Check, Page, Section, milliseconds

from hookline.bench import machine
from tests.scale import sizing
from tests.scale.crowd import Crowd, Stretch
from tests.scale.workers import Phase, Work

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "docs" / "reports" / "scale.json"
PAGE = ROOT / "docs" / "reports" / "scale.md"
SIZING = ROOT / "docs" / "explanation" / "sizing.md"

GROWTH_MAX = 1.10
RATIO_MIN = 0.5
POLL_SECONDS_MAX = 1.0
P99_SHARE = 0.20
P99_SECONDS = 0.010
"""What the healthy p99 may always rise by: below this it is the machine that one measures."""

PROSE = """\
How the work grows with workers and destinations, on three brokers of Kafka and a PostgreSQL server that share the
machine with all that is measured. Load, receivers and their ledgers are outside the service. What follows from it is in
[Sizing](../explanation/sizing.md)."""
WORK_PROSE = """\
Microseconds of processor time per event of all processes of a kind; calls of 100 events of 10,000 people, eight
partitions. The workers stand still while events are collected; then each delivers what has gathered in its partitions
while the others stand still, so that a worker among four has the same part of the machine as one alone. *At once* is
what `deliver` takes when all work at the same time: more processes than cores share caches, and each pays for that."""


class Report(msgspec.Struct):
    """Everything that was measured; what was not is empty."""

    work: list[Work] = []
    crowd: Crowd | None = None

    def page(self) -> Page:
        """The report as a page."""
        sections = [
            *([_work_section(self.work)] if self.work else []),
            *(_crowd_sections(self.crowd) if self.crowd else []),
        ]
        checks = [*(_work_checks(self.work) if self.work else []), *(_crowd_checks(self.crowd) if self.crowd else [])]
        return Page(
            title="Scale report", prose=PROSE, command="make scale", sections=tuple(sections), checks=tuple(checks)
        )


class _Stored(msgspec.Struct):
    machine: dict[str, object]
    report: Report


def read() -> Report:
    """The report as it was written last."""
    return msgspec.json.decode(REPORT.read_bytes(), type=_Stored).report


def write(report: Report) -> Page:
    """Write the report, as a page and as data, and once it is whole the tables of the page about sizes."""
    page = report.page()
    page.write(PAGE)
    stored = msgspec.json.encode(_Stored(machine.describe(), report))
    REPORT.write_bytes(msgspec.json.format(stored) + b"\n")
    if report.work and report.crowd is not None:
        SIZING.write_text(sizing.written(SIZING.read_text(), report.work, report.crowd))
    return page


def _work_section(work: list[Work]) -> Section:
    return Section(
        title="Work per event",
        prose=WORK_PROSE,
        columns=("installation", "collect", "deliver", "each worker", "at once", "brokers", "PostgreSQL", "control"),
        rows=tuple(_work_row(each) for each in work),
    )


def _work_row(work: Work) -> tuple[str, ...]:
    both = (work.collected, work.delivering)
    return (
        _name(work),
        f"{work.collected.microseconds('collect'):.1f}",
        f"{work.delivering.microseconds('deliver'):.1f}",
        ", ".join(f"{_own(work, number):.1f}" for number in range(len(work.delivered))),
        f"{work.at_once.microseconds('deliver'):.1f}",
        f"{sum(phase.microseconds('broker') for phase in both):.1f}",
        f"{sum(phase.microseconds('postgres') for phase in both):.1f}",
        f"{sum(phase.microseconds('control') for phase in both):.1f}",
    )


def _own(work: Work, number: int) -> float:
    return work.delivered[number].microseconds("deliver")


def _name(work: Work) -> str:
    return f"{work.workers} worker{'s'[: work.workers > 1]}" if work.workers else "embedded"


def _work_checks(work: list[Work]) -> list[Check]:
    embedded, one, *more = work
    first = one.delivering.microseconds("deliver")
    checks = [
        Check(
            name=f"work of `deliver` per event, {_name(each)} to one",
            aim=f"≤ {GROWTH_MAX:.2f}",
            measured=f"{each.delivering.microseconds('deliver') / first:.2f}",
            passed=each.delivering.microseconds("deliver") / first <= GROWTH_MAX,
        )
        for each in more
    ]
    ratio = _both(embedded) / _both(one)
    checks.append(
        Check(
            name="events per core on Kafka and PostgreSQL to embedded, `collect` and `deliver` together",
            aim=f"≥ {RATIO_MIN:.2f}",
            measured=f"{ratio:.2f} (`collect` {_ratio(embedded.collected, one.collected, 'collect')}, `deliver`"
            f" {_ratio(embedded.delivering, one.delivering, 'deliver')})",
            passed=ratio >= RATIO_MIN,
        )
    )
    for name in ("lost", "duplicates", "refused"):
        checks.append(_none(f"workers: {name}", sum(getattr(each, name) for each in work)))
    return checks


def _both(work: Work) -> float:
    return work.collected.microseconds("collect") + work.delivering.microseconds("deliver")


def _ratio(embedded: Phase, scaled: Phase, kind: str) -> str:
    return f"{embedded.microseconds(kind) / scaled.microseconds(kind):.2f}"


def _crowd_sections(crowd: Crowd) -> list[Section]:
    looks = tuple((f"`GET {path}`, slowest of five", _seconds(taken)) for path, taken in crowd.looks_seconds.items())
    roles = [name for name in sorted(crowd.memory_bytes) if name.split()[0] in ("collect", "control", "deliver")]
    memory = ", ".join(f"{name} {crowd.memory_bytes[name] / 1e6:.0f} MB" for name in roles)
    idle = ", ".join(f"{name} {share:.1%}" for name, share in sorted(crowd.idle_cpu.items()))
    return [
        Section(
            title=f"{crowd.destinations:,} destinations, {crowd.dead} of them dead",
            prose=(
                f"{crowd.workers} workers. Each healthy destination has a source and an address of its own; each dead"
                f" one gets the events of {(crowd.destinations - crowd.dead) // crowd.dead} sources, so each event goes"
                " to one that is well and one that is not. A third of the dead refuse connections, a third never"
                " answer, a third answer 500. Latency is from the answer to the caller until the event is at the"
                " healthy one."
            ),
            columns=("healthy destinations", "events/s", "p50", "p99", "longest", "statements/s", "transactions/s"),
            rows=(_stretch("alone", crowd.alone), _stretch("beside the dead", crowd.beside)),
        ),
        Section(
            title="Changes and looks",
            prose=f"Resident memory at the end: {memory}. Without events, of a core: {idle}.",
            columns=("what", "time"),
            rows=(
                (f"`hookline apply` of {crowd.destinations:,} new destinations", _seconds(crowd.apply_seconds)),
                ("until it is in force in every partition", _seconds(crowd.apply_in_force_seconds)),
                ("one destination changed by the API", _seconds(crowd.change_seconds)),
                ("until it is in force in every partition", _seconds(crowd.change_in_force_seconds)),
                *looks,
            ),
        ),
    ]


def _stretch(name: str, stretch: Stretch) -> tuple[str, ...]:
    return (
        name,
        f"{stretch.events / stretch.seconds:,.0f}",
        milliseconds(stretch.p50),
        milliseconds(stretch.p99),
        milliseconds(stretch.longest),
        f"{stretch.statements / stretch.seconds:,.0f}",
        f"{stretch.transactions / stretch.seconds:,.0f}",
    )


def _crowd_checks(crowd: Crowd) -> list[Check]:
    limit = max(crowd.alone.p99 * (1 + P99_SHARE), crowd.alone.p99 + P99_SECONDS)
    slowest = max(crowd.looks_seconds.values())
    return [
        Check(
            name="p99 of the healthy beside the dead",
            aim=f"≤ {milliseconds(limit)} (+ {P99_SHARE:.0%} or + 10 ms)",
            measured=f"{milliseconds(crowd.beside.p99)} ({crowd.beside.p99 / crowd.alone.p99:.2f} of alone)",
            passed=crowd.beside.events > 0 and crowd.beside.p99 <= limit,
        ),
        _none("missing at the healthy", crowd.alone.missing + crowd.beside.missing),
        _none("twice at the healthy", crowd.duplicates),
        _none("refused by Hookline", crowd.alone.refused + crowd.beside.refused),
        Check(
            name="slowest page or list",
            aim=f"≤ {POLL_SECONDS_MAX:.0f} s",
            measured=_seconds(slowest),
            passed=slowest <= POLL_SECONDS_MAX,
        ),
    ]


def _none(name: str, count: int) -> Check:
    return Check(name=name, aim="0", measured=f"{count:,}", passed=not count)


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
