"""The arithmetic of docs/explanation/sizing.md: from what was measured to how many processes a load needs.

The page's tables are made here, between its marks, and a test holds the page against the report.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.scale.crowd import Crowd
from tests.scale.workers import PARTITIONS, Work

EVENTS_PER_SECOND = 1_000_000
DESTINATIONS_PER_EVENT = 2
DESTINATIONS = 10_000
BUSY = 0.5
"""The part of a core that a process is to have at most, so that a peak or a neighbour's end can be borne."""
COPIES = 3
SAVES_PER_SECOND = 10
KEPT_DAYS = 7
_BLOCK = r"(<!-- {name} -->\n).*?(<!-- end -->)"


class Costs(NamedTuple):
    """Per event, as measured with one worker; CPU in µs."""

    collect: float
    deliver: float
    brokers: float
    postgres: float
    journal_bytes: float
    database_bytes: float
    wal_bytes: float
    save_seconds: float
    """What a worker's save takes PostgreSQL, with nobody in its way."""


def costs(work: Work) -> Costs:
    """What an event costs on Kafka and PostgreSQL."""
    assert work.kept is not None, "of an installation on Kafka"
    events = work.collected.events
    asked = work.kept.statements
    return Costs(
        collect=work.collected.microseconds("collect"),
        deliver=work.delivering.microseconds("deliver"),
        brokers=work.collected.microseconds("broker") + work.delivering.microseconds("broker"),
        postgres=work.collected.microseconds("postgres") + work.delivering.microseconds("postgres"),
        journal_bytes=work.kept.journal_bytes / COPIES / events,
        database_bytes=work.kept.database_bytes / events,
        wal_bytes=asked.wal_bytes / events,
        save_seconds=asked.save_seconds / asked.saves,
    )


def measured(work: list[Work], crowd: Crowd) -> str:
    """What one event, and one process, takes."""
    one, most = work[1], work[-1]
    cost = costs(one)
    assert one.kept is not None
    assert most.kept is not None
    per_worker = (most.kept.connections - one.kept.connections) / (most.workers - one.workers)
    asked = one.kept.statements
    rows = [
        ("`collect`, an event in a call of 100", f"{cost.collect:.1f} µs of CPU"),
        ("`deliver`, a delivery", f"{cost.deliver:.1f} µs of CPU"),
        ("three brokers together, an event in and out", f"{cost.brokers:.1f} µs of CPU"),
        ("PostgreSQL, an event", f"{cost.postgres:.2f} µs of CPU"),
        ("journal, an event, each copy", f"{cost.journal_bytes:.0f} bytes (LZ4; the events are very similar)"),
        (
            "PostgreSQL, an event",
            f"{cost.database_bytes:.1f} bytes of tables, {cost.wal_bytes:.1f} of its log,"
            f" {asked.statements / one.collected.events:.4f} statements, no rows",
        ),
        ("PostgreSQL, a transaction that writes", f"{cost.save_seconds * 1000:.2f} ms"),
        (
            "connections to PostgreSQL",
            f"{one.kept.connections} of all roles with one worker, {per_worker:.1f} for each additional worker",
        ),
        ("memory of `collect`", _mb(one.memory_bytes["collect"])),
        (
            f"memory of `deliver` catching up in {_listed(PARTITIONS // each.workers for each in work[1:])} partitions",
            _listed(_mb(max(_of(each.memory_bytes))) for each in work[1:]),
        ),
        (f"memory of `deliver` with {crowd.destinations:,} destinations", _mb(max(_of(crowd.memory_bytes)))),
        (f"memory of `control` with {crowd.destinations:,} destinations", _mb(crowd.memory_bytes["control"])),
    ]
    return _table(("what", "measured"), rows)


def example(work: list[Work]) -> str:
    """What the load of the example needs."""
    cost = costs(work[1])
    deliveries = EVENTS_PER_SECOND * DESTINATIONS_PER_EVENT
    collects = math.ceil(EVENTS_PER_SECOND * cost.collect / 1e6 / BUSY)
    delivers = math.ceil(deliveries * cost.deliver / 1e6 / BUSY)
    brokers = math.ceil(EVENTS_PER_SECOND * cost.brokers / 1e6 / BUSY)
    inbound = EVENTS_PER_SECOND * cost.journal_bytes
    stored = inbound * COPIES * KEPT_DAYS * 86_400
    saves = delivers * SAVES_PER_SECOND
    rows = [
        ("`collect` processes", f"1,000,000 × {cost.collect:.1f} µs ÷ {BUSY}", f"{collects}"),
        ("`deliver` processes", f"2,000,000 × {cost.deliver:.1f} µs ÷ {BUSY}", f"{delivers}"),
        ("partitions", "two for each `deliver`", f"{2 * delivers}"),
        ("cores of brokers", f"1,000,000 × {cost.brokers:.1f} µs ÷ {BUSY}", f"{brokers}"),
        (
            "brokers' network",
            f"1,000,000 × {cost.journal_bytes:.0f} bytes, once in, twice between them, once out",
            f"{inbound / 1e6:.0f} + {2 * inbound / 1e6:.0f} + {inbound / 1e6:.0f} MB/s",
        ),
        (
            f"brokers' disk for {KEPT_DAYS} days",
            f"{inbound / 1e6:.0f} MB/s × {COPIES} copies",
            f"{stored / 1e12:.0f} TB",
        ),
        (
            "PostgreSQL, CPU",
            f"2,000,000 × {cost.postgres:.2f} µs",
            f"{deliveries * cost.postgres / 1e6:.1f} cores",
        ),
        (
            "PostgreSQL, its log",
            f"2,000,000 × {cost.wal_bytes:.1f} bytes",
            f"{deliveries * cost.wal_bytes / 1e6:.0f} MB/s",
        ),
        (
            "PostgreSQL, sequential saves",
            f"{delivers} × {SAVES_PER_SECOND} × {cost.save_seconds * 1000:.2f} ms",
            f"{saves * cost.save_seconds:.2f} s of each second",
        ),
    ]
    return _table(("what", "formula", "needed"), rows)


def written(page: str, work: list[Work], crowd: Crowd) -> str:
    """The page with its tables as they follow from a report."""
    for name, table in (("measured", measured(work, crowd)), ("example", example(work))):
        page, found = re.subn(_BLOCK.format(name=name), rf"\g<1>{table}\g<2>", page, flags=re.DOTALL)
        assert found == 1, f"the page has one place for what is {name}"
    return page


def _of(memory_bytes: dict[str, int]) -> list[int]:
    return [size for name, size in memory_bytes.items() if name.startswith("deliver")]


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
