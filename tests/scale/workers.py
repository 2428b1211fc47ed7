"""How much work an event is: embedded, and on Kafka and PostgreSQL with one, two and four ``deliver`` workers.

Speed says little where everything shares two cores, so processor time is counted. In rounds: the workers stand still
while events are collected, then each delivers what has gathered of its partitions while the others stand still: so a
worker among four has the same part of the machine as one alone.
"""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from hookline.bench import machine
from hookline.bench.machine import wait_until
from hookline.bench.rig import Rig, rig
from tests.scale.fleet import Fleet, Site
from tests.scale.usage import Statements, cpu_seconds, difference, statements_of

WORKERS = (1, 2, 4)
PARTITIONS = 8
PEOPLE = 10_000
BATCH = 100
CONNECTIONS = 32
SPARE = 10 * BATCH
"""Numbers that a run may use beyond what it was asked for."""
SESSION = "60s"
"""No worker is taken for dead while it stands still."""
SAVED_SECONDS = 2.0
"""Until what was delivered is in the tables, and PostgreSQL tells of it."""
DELIVER_SECONDS = 60.0
"""How long nothing may arrive."""


T = TypeVar("T")


class Phase(msgspec.Struct, frozen=True):
    """So many events collected, or delivered, and the processor seconds of each process meanwhile."""

    events: int
    seconds: float
    cpu: dict[str, float]

    def microseconds(self, *kinds: str) -> float:
        """Processor time per event of all processes of these kinds (``deliver`` stands for ``deliver 1`` and on)."""
        return sum(used for name, used in self.cpu.items() if name.split()[0] in kinds) / self.events * 1e6

    def plus(self, other: Phase) -> Phase:
        """Both together."""
        cpu = {name: self.cpu.get(name, 0.0) + used for name, used in other.cpu.items()}
        return Phase(self.events + other.events, self.seconds + other.seconds, cpu)


class Kept(msgspec.Struct, frozen=True):
    """What brokers and PostgreSQL have of the events: bytes of one copy, what was asked, connections, size."""

    journal_bytes: int
    statements: Statements
    database_bytes: int
    database_rows: int
    connections: int

    def since(self, before: Kept) -> Kept:
        """What was added since an earlier look; the connections are those of now."""
        return Kept(
            self.journal_bytes - before.journal_bytes,
            self.statements.since(before.statements),
            self.database_bytes - before.database_bytes,
            self.database_rows - before.database_rows,
            self.connections,
        )


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """One installation at work; ``workers`` 0 is the embedded one."""

    workers: int
    collected: Phase
    delivered: tuple[Phase, ...]
    """By worker, each while the others stand still."""
    at_once: Phase
    """The same with all workers at it."""
    memory_bytes: dict[str, int]
    kept: Kept | None
    lost: int
    duplicates: int
    refused: int

    @property
    def delivering(self) -> Phase:
        """What all workers delivered, one after the other."""
        return _together(self.delivered)


class Installation(Protocol):
    """What a round needs to know."""

    rig: Rig

    def processes(self) -> dict[str, int]:
        """Process ids of everything that is counted, by name."""
        ...

    def workers(self) -> dict[str, int]:
        """Those of the workers."""
        ...

    def ends(self) -> dict[str, int]:
        """How many events each worker's partitions have had."""
        ...


class Embedded:
    """One machine's service, with a local journal and SQLite."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    def processes(self) -> dict[str, int]:
        """The roles."""
        roles = self.rig.service.processes()
        return {role: roles[role] for role in ("collect", "deliver", "control")}

    def workers(self) -> dict[str, int]:
        """There is one."""
        return {"deliver": self.rig.service.processes()["deliver"]}

    def ends(self) -> dict[str, int]:
        """The journal's end."""
        return {"deliver": self.rig.service.events_accepted()}


def embedded(events: int, rounds: int) -> Work:
    """The work of one machine's service."""
    with rig(events_max=_numbers(events, rounds)) as bench:
        return _measure(Embedded(bench), 0, events, rounds)


def on_kafka(site: Site, workers: int, events: int, rounds: int) -> Work:
    """The same with a topic and PostgreSQL, and so many workers."""
    settings = {"deliver.session-timeout": SESSION}
    with site.fleet(workers, PARTITIONS, events_max=_numbers(events, rounds), settings=settings) as fleet:
        return _measure(fleet, workers, events, rounds)


def _numbers(events: int, rounds: int) -> int:
    return events * (rounds + 2) + SPARE


def _measure(installation: Installation, workers: int, events: int, rounds: int) -> Work:
    bench = installation.rig
    bench.start_receiver()
    _round(installation, events)  # brokers compile what they do often
    fleet = installation if isinstance(installation, Fleet) else None
    before = _kept(fleet) if fleet else None
    made = [_round(installation, events) for _ in range(rounds)]
    after = _kept(fleet) if fleet else None
    at_once, refused = _round_at_once(installation, events)
    seen = bench.delivered(BATCH)
    return Work(
        workers=workers,
        collected=_together([each.collected for each in made]),
        delivered=tuple(_together(parts) for parts in zip(*(each.delivered for each in made), strict=True)),
        at_once=at_once,
        memory_bytes={name: machine.memory_of(pid).rss for name, pid in installation.processes().items()},
        kept=after.since(before) if after and before else None,
        lost=seen.lost,
        duplicates=seen.duplicates,
        refused=refused + sum(each.refused for each in made),
    )


class _Round(NamedTuple):
    collected: Phase
    delivered: list[Phase]
    refused: int


def _round(installation: Installation, events: int) -> _Round:
    """Collect while nothing is delivered, then have one worker after the other deliver what is its own."""
    bench, counted, workers = installation.rig, installation.processes(), installation.workers()
    before, received, delivered = installation.ends(), bench.received(), []
    with _standing_still(workers.values()):
        refused, collected = _phase(counted, events, lambda: _collect(bench, events))
        after = installation.ends()
        for name, pid in workers.items():
            share = after[name] - before[name]
            received += share
            os.kill(pid, signal.SIGCONT)
            delivered.append(_phase(counted, share, functools.partial(_wait_for, bench, received))[1])
            os.kill(pid, signal.SIGSTOP)
    return _Round(collected, delivered, refused)


def _round_at_once(installation: Installation, events: int) -> tuple[Phase, int]:
    bench, workers = installation.rig, installation.workers()
    expected = bench.received() + events
    with _standing_still(workers.values()):
        refused = _collect(bench, events)
    _, delivered = _phase(installation.processes(), events, lambda: _wait_for(bench, expected))
    return delivered, refused


def _wait_for(bench: Rig, expected: int) -> None:
    wait_until(lambda: bench.received() >= expected, DELIVER_SECONDS, f"{expected} events", progress=bench.received)


def _collect(bench: Rig, events: int) -> int:
    result = bench.load(connections=CONNECTIONS, seconds=600, batch=BATCH, events_max=events, people=PEOPLE)
    return result.refused


def _phase(counted: Mapping[str, int], events: int, do: Callable[[], T]) -> tuple[T, Phase]:
    before, began = cpu_seconds(counted), time.monotonic()
    result = do()
    return result, Phase(events, time.monotonic() - began, difference(cpu_seconds(counted), before))


def _together(phases: Iterable[Phase]) -> Phase:
    total = Phase(0, 0.0, {})
    for phase in phases:
        total = total.plus(phase)
    return total


@contextmanager
def _standing_still(pids: Collection[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def _kept(fleet: Fleet) -> Kept:
    time.sleep(SAVED_SECONDS)
    size, rows, connections = fleet.database_size()
    return Kept(fleet.journal_bytes(), statements_of(fleet.site.server), size, rows, connections)
