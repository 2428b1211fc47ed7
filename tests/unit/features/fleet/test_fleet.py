"""Who delivers which partition, over all machines, and the notice where nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.open import ensure
from hookline.deliver.cluster.fence import raise_epoch
from hookline.deliver.cluster.heartbeat import Heartbeat, WorkerState
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import ALIVE_SECONDS, KEPT_SECONDS, Fleet, FleetLog
from hookline.features.notices.conditions.journal import Partitions
from hookline.journal.local.appender import LocalAppender
from hookline.journal.port import partition_of
from hookline.settings import Database, Journal, Settings
from hookline.telemetry.metrics import publish
from tests.postgres import PostgresServer
from tests.unit.control.running import record
from tests.unit.features.notices.conditions.moments import NOW_MS, moment, report

PARTITIONS = 2
EVENTS = 5
UNOWNED_SECONDS = 60.0


class Worker:
    """A deliver process as the database shows it."""

    def __init__(self, location: DatabaseLocation, rows: Connection, name: str) -> None:
        self.epochs: dict[int, int] = {}
        self._rows = rows
        self._name = name
        self.open_breakers: list[str] = []
        self._heartbeat = Heartbeat(location, name, self)

    def take(self, *partitions: int) -> None:
        """Become the owner of partitions, and say so."""
        for partition in partitions:
            self.epochs[partition] = raise_epoch(self._rows, partition, self._name, 0)
        self.beat()

    def beat(self) -> None:
        """Say that it is there."""
        before = self._rows.execute("SELECT max(seen_at) FROM workers").fetchone()[0]
        while self._rows.execute("SELECT max(seen_at) FROM workers").fetchone()[0] == before:
            self._heartbeat.beat(self._rows)

    def report(self) -> WorkerState:
        """What it says of itself (``heartbeat.Party``)."""
        return WorkerState({str(partition): epoch for partition, epoch in self.epochs.items()}, self.open_breakers)

    def agree(self, mine: WorkerState, others: object, owned: object) -> WorkerState:
        """Go by nobody."""
        return mine

    def agreed(self) -> float:
        """Do nothing."""
        return 0.0

    def leave(self) -> None:
        """End as one does that was told to."""
        self._heartbeat.leave(self._rows)


class Clock:
    """Seconds that a test lets pass."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def settings(tmp_path: Path, postgres: PostgresServer) -> Iterator[Settings]:
    """An installation that many workers share, with events in each partition of its journal."""
    _fill(tmp_path)
    with postgres.database("hookline_template") as url:
        yield Settings(
            data_dir=str(tmp_path),
            journal=Journal(url="kafka://127.0.0.1:1/events", partitions=PARTITIONS),
            database=Database(url=url),
        )


@pytest.fixture
def rows(settings: Settings) -> Iterator[Connection]:
    """Deliver's database."""
    place = location_of(settings, "deliver")
    ensure(place, "deliver")
    connection = connect(place)
    yield connection
    connection.close()


@pytest.fixture
def clock() -> Clock:
    """The time."""
    return Clock()


@pytest.fixture
def fleet(settings: Settings, clock: Clock) -> Iterator[FleetLog]:
    """What is tested."""
    log = FleetLog(settings, RoleMetrics(settings.data_path), clock)
    yield log
    log.close()


def owners(fleet: Fleet) -> list[str | None]:
    """The worker of each partition."""
    return [each.worker for each in fleet.partitions]


def test_each_partition_has_its_worker_and_its_lag(settings: Settings, rows: Connection, fleet: FleetLog) -> None:
    """Two workers and what they hold; how far each partition is behind is from where its place was saved."""
    first, second = (Worker(location_of(settings, "deliver"), rows, name) for name in ("a:1", "b:1"))
    first.take(0)
    second.take(1)
    rows.execute("INSERT INTO checkpoints (partition, next_offset, version, blob) VALUES (1, 3, 1, ?)", (b"",))
    found = fleet.look()
    assert owners(found) == ["a:1", "b:1"]
    assert [each.behind for each in found.partitions] == [EVENTS, EVENTS - 3]
    assert [(each.worker, each.alive, each.partitions, each.behind) for each in found.workers] == [
        ("a:1", True, [0], EVENTS),
        ("b:1", True, [1], EVENTS - 3),
    ]


def test_a_partition_that_was_taken_by_another_is_its(settings: Settings, rows: Connection, fleet: FleetLog) -> None:
    """The one that has not noticed still says that it has it: the higher number tells."""
    first, second = (Worker(location_of(settings, "deliver"), rows, name) for name in ("a:1", "b:1"))
    first.take(0, 1)
    second.take(1)
    first.beat()
    assert owners(fleet.look()) == ["a:1", "b:1"]


def test_a_worker_that_is_silent_or_has_left_owns_nothing(
    settings: Settings, rows: Connection, fleet: FleetLog, clock: Clock
) -> None:
    """Killed, it is shown as gone; told to end, it is not shown any more."""
    first, second = (Worker(location_of(settings, "deliver"), rows, name) for name in ("a:1", "b:1"))
    first.take(0)
    second.take(1)
    fleet.look()
    second.leave()
    clock.seconds = ALIVE_SECONDS - KEPT_SECONDS
    found = fleet.look()
    assert owners(found) == ["a:1", None]
    assert [each.worker for each in found.workers] == ["a:1"]
    clock.seconds = ALIVE_SECONDS + KEPT_SECONDS
    found = fleet.look()
    assert owners(found) == [None, None]
    assert [(each.worker, each.alive) for each in found.workers] == [("a:1", False)]
    first.beat()
    clock.seconds += KEPT_SECONDS
    assert owners(fleet.look()) == ["a:1", None]


def test_a_breaker_that_is_open_at_any_worker_is_open(
    settings: Settings, rows: Connection, fleet: FleetLog, clock: Clock
) -> None:
    """As notices and pages see it, also where no worker is on control's machine; one that is gone says nothing more."""
    first, second = (Worker(location_of(settings, "deliver"), rows, name) for name in ("a:1", "b:1"))
    first.take(0)
    second.open_breakers = ["crm", "gone"]
    second.take(1)
    assert fleet.open_breakers == {"crm", "gone"}, "the first who asks is not answered that there are none"
    for reports in (None, report("deliver"), report("deliver", fresh=False)):
        seen = moment(reports, "crm", open_elsewhere=fleet.open_breakers)
        assert seen.open_breakers == frozenset({"crm"})
    clock.seconds = ALIVE_SECONDS + KEPT_SECONDS
    fleet.look()
    assert fleet.open_breakers is None
    assert moment(None, "crm", open_elsewhere=fleet.open_breakers).open_breakers is None


def test_a_notice_tells_of_partitions_that_nobody_has_for_too_long(
    settings: Settings, rows: Connection, fleet: FleetLog, clock: Clock
) -> None:
    """Not at once, not where nothing waits, and no longer than it lasts."""
    condition = Partitions(fleet, "events", UNOWNED_SECONDS)
    worker = Worker(location_of(settings, "deliver"), rows, "a:1")
    rows.execute("INSERT INTO checkpoints (partition, next_offset, version, blob) VALUES (1, ?, 1, ?)", (EVENTS, b""))

    def look(after_seconds: float) -> list[tuple[str, str]]:
        clock.seconds += KEPT_SECONDS
        now_ms = NOW_MS + int(after_seconds * 1000)
        return [
            (each.detail, "weak" if each.weak else "strong") for each in condition.findings(moment(now_ms=now_ms)) or ()
        ]

    assert look(0) == [("", "weak")], "one that was open before control started stays so"
    assert look(UNOWNED_SECONDS - 1) == [("", "weak")]
    assert look(UNOWNED_SECONDS) == [("partition 0", "strong")]
    assert look(1) == [("", "weak")], "the clock was set back a little"
    assert look(-2 * UNOWNED_SECONDS) == [("partition 0", "strong")], "and by far"
    worker.take(0)
    assert look(UNOWNED_SECONDS + 1) == []
    worker.leave()
    assert look(UNOWNED_SECONDS + 2) == [("", "weak")]


def test_alone_deliver_has_all_partitions_while_it_reports(tmp_path: Path) -> None:
    """One process on one machine: the same picture, from what it says once a second."""
    _fill(tmp_path)
    ensure(tmp_path / "deliver.db", "deliver")
    clock = Clock()
    log = FleetLog(
        Settings(data_dir=str(tmp_path), journal=Journal(partitions=PARTITIONS)), RoleMetrics(tmp_path), clock
    )
    try:
        assert owners(log.look()) == [None, None]
        (tmp_path / "run").mkdir()
        publish(tmp_path / "run", "deliver", {})
        clock.seconds = KEPT_SECONDS
        found = log.look()
    finally:
        log.close()
    assert not found.shared
    assert owners(found) == ["here", "here"]
    assert [(each.alive, each.behind) for each in found.workers] == [(True, PARTITIONS * EVENTS)]


def _fill(folder: Path) -> None:
    async def append() -> None:
        appender = LocalAppender(
            folder / "journal", PARTITIONS, retention_seconds=1e9, retention_bytes=2**40, segment_bytes=65_536
        )
        for partition in range(PARTITIONS):
            user = next(f"u{n}" for n in range(100) if partition_of(f"u{n}", PARTITIONS) == partition)
            await appender.append([record(f"m{partition}-{number}", userId=user) for number in range(EVENTS)])
        await appender.close()

    asyncio.run(append())
