"""Gather what the processes of this installation report: workers, partitions, and how far each is."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from hookline.api.services import Services, part
from hookline.database.connection import Connection
from hookline.database.installation import LOCAL
from hookline.database.location import location_of
from hookline.database.parts import held
from hookline.database.read_only import ReadOnly
from hookline.deliver.cluster.worker_state import WorkerState, decode
from hookline.events.timestamps import iso
from hookline.features.fleet.metrics import OwnMetrics, RoleMetrics
from hookline.features.fleet.whole import WholeMachine
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalAway, Reader
from hookline.settings import Settings
from hookline.telemetry.metrics import PROCESS_STARTED
from hookline.whole_file import write_whole

ALIVE_SECONDS = 10.0
"""A worker whose row has not changed for so long is gone; it writes it every two seconds."""
BELIEVED_MS = 60_000
"""A row seen for the first time is believed if it is not older, by clocks that may differ."""
KEPT_SECONDS = 1.0
"""What was looked up is shown again for so long, however many ask."""
BROKER_SECONDS = 1.0
BROKER_REST_SECONDS = 5.0
"""How long to wait for brokers to say where a partition ends, and how long they are left alone if they did not."""
HERE = "here"
"""The name of the one worker where there are no others."""


class FleetWorker(msgspec.Struct, frozen=True, rename="camel"):
    """One deliver process: ``worker`` is its host and process id, ``alive`` whether it still says that it is there."""

    worker: str
    alive: bool
    since: str
    last_seen_at: str
    partitions: Sequence[int]
    behind: int | None
    """Events of its partitions that it has not read yet; null while brokers do not tell."""


class FleetPartition(msgspec.Struct, frozen=True, rename="camel"):
    """One partition: ``worker`` is null while nobody delivers it."""

    partition: int
    worker: str | None
    since: str | None
    next_offset: int
    end: int | None
    behind: int | None


class Fleet(msgspec.Struct, frozen=True):
    """All of it; ``shared`` is whether there may be more workers than one."""

    shared: bool
    workers: Sequence[FleetWorker]
    partitions: Sequence[FleetPartition]

    @property
    def unowned(self) -> list[FleetPartition]:
        """Return the partitions that nobody delivers."""
        return [each for each in self.partitions if each.worker is None]


class FleetLog:
    """Looks it up; waits for the database and for brokers, so not on an event loop. Any thread may ask."""

    def __init__(self, settings: Settings, metrics: RoleMetrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._metrics = metrics
        self._clock = clock
        self.is_shared = settings.is_shared
        """Whether there may be more workers than one."""
        self._database = ReadOnly(location_of(settings, "deliver"))
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._changed: dict[str, tuple[int, float]] = {}
        """By worker: its last row's time, and when that was first seen here."""
        self.open_breakers: frozenset[str] = frozenset()
        """The destinations whose breaker is open at some worker, as of the last look; none where there is only one."""
        self._looked = -KEPT_SECONDS
        self._kept: Fleet | None = None

    def look(self) -> Fleet:
        """Everything as it is now; raise DatabaseAway and the journal's errors but for brokers that are away."""
        with self._lock:
            if self._kept is None or self._clock() - self._looked >= KEPT_SECONDS:
                self._kept = self._look()
                self._looked = self._clock()
            return self._kept

    def close(self) -> None:
        """Let go of the database and of connections; idempotent."""
        with self._lock:
            self._database.close()
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _look(self) -> Fleet:
        connection = self._database.open()
        places: dict[int, int] = {}
        if connection is not None:
            places = dict(connection.execute("SELECT partition, next_offset FROM checkpoints").fetchall())
        there = self._there()
        partitions = range(max(self._settings.journal.partitions, len(there)))
        if self.is_shared and connection is not None:
            workers, owners = self._workers(connection)
        else:
            workers, owners = self._the_one(partitions)
        ends = self._ends(there)
        shown = [_partition(each, owners.get(each), places.get(each, 0), ends.get(each)) for each in partitions]
        return Fleet(self.is_shared, [_with_lag(worker, shown) for worker in workers], shown)

    def _workers(self, connection: Connection) -> tuple[list[FleetWorker], dict[int, tuple[str, str]]]:
        rows = connection.execute("SELECT worker, started_at, seen_at, state FROM workers ORDER BY worker").fetchall()
        owned = connection.execute("SELECT partition, epoch, since FROM owned").fetchall()
        epochs = {partition: epoch for partition, epoch, _ in owned}
        since = {partition: iso(at) for partition, _, at in owned}
        workers: list[FleetWorker] = []
        owners: dict[int, tuple[str, str]] = {}
        open_breakers: set[str] = set()
        for worker, started_ms, seen_ms, text in rows:
            is_alive = self._is_alive(worker, seen_ms)
            state = decode(text) if is_alive else WorkerState()
            mine = sorted(int(each) for each, epoch in state.epochs.items() if epochs.get(int(each)) == epoch)
            open_breakers.update(state.open_breakers)
            owners.update({each: (worker, since[each]) for each in mine})
            workers.append(FleetWorker(worker, is_alive, iso(started_ms), iso(seen_ms), mine, None))
        self.open_breakers = frozenset(open_breakers)
        self._changed = {row[0]: self._changed[row[0]] for row in rows}
        return workers, owners

    def _is_alive(self, worker: str, seen_ms: int) -> bool:
        now = self._clock()
        known = self._changed.get(worker)
        if known is None:
            is_believed = abs(time.time() * 1000 - seen_ms) <= BELIEVED_MS
            known = self._changed[worker] = (seen_ms, now if is_believed else now - ALIVE_SECONDS)
        elif known[0] != seen_ms:
            known = self._changed[worker] = (seen_ms, now)
        return now - known[1] < ALIVE_SECONDS

    def _the_one(self, partitions: range) -> tuple[list[FleetWorker], dict[int, tuple[str, str]]]:
        report = self._metrics.reports().get("deliver")
        if report is None:
            return [], {}
        since = iso(int(report.number(PROCESS_STARTED) * 1000))
        mine = list(partitions) if report.fresh else []
        seen = iso(int(report.at_seconds * 1000))
        return [FleetWorker(HERE, report.fresh, since, seen, mine, None)], dict.fromkeys(mine, (HERE, since))

    def _there(self) -> range:
        """Return the partitions that the journal has, as far as it can be asked."""
        folder = self._settings.data_path / "journal"
        if self._reader is None:
            if not folder.is_dir():
                return range(0)
            self._reader = open_reader(folder)
            self._reader.limit_wait(BROKER_SECONDS, BROKER_REST_SECONDS)
        try:
            return self._reader.partitions()
        except JournalAway:
            return range(0)

    def _ends(self, partitions: range) -> Mapping[int, int]:
        try:
            return {each: self._reader.end(each) for each in partitions} if self._reader is not None else {}
        except JournalAway:
            return {}


def _partition(number: int, owner: tuple[str, str] | None, next_offset: int, end: int | None) -> FleetPartition:
    worker, since = owner or (None, None)
    behind = None if end is None else max(0, end - next_offset)
    return FleetPartition(number, worker, since, next_offset, end, behind)


def _with_lag(worker: FleetWorker, partitions: Sequence[FleetPartition]) -> FleetWorker:
    lags = [each.behind for each in partitions if each.worker == worker.worker]
    behind = None if None in lags else sum(each for each in lags if each is not None)
    return msgspec.structs.replace(worker, behind=behind)


FILE = "machine"
ALONE = 1
"""Where nobody shares the database."""
_NUMBERS = range(2, 1 << 31)


def machine_of(settings: Settings) -> int:
    """Return the number; kept in the data folder, so that it stays over restarts and other names of the machine."""
    if settings.database.url == LOCAL:
        return ALONE
    path = settings.data_path / FILE
    try:
        return _read(path)
    except FileNotFoundError:
        with held(path.parent):
            if not path.exists():  # else made by another process of this folder meanwhile
                write_whole(path, b"%d\n" % secrets.choice(_NUMBERS))
        return _read(path)


def _read(path: Path) -> int:
    return int(path.read_text())


@part
def own_metrics(services: Services) -> OwnMetrics:
    """Return the metrics of control itself."""
    return OwnMetrics()


@part
def role_metrics(services: Services) -> RoleMetrics:
    """Return what the roles of this machine report."""
    return RoleMetrics(services.settings.data_path)


@part
def whole_machine(services: Services) -> WholeMachine:
    """Return whether all roles of this machine work."""
    return WholeMachine(services.settings.data_path, role_metrics(services))


@part
def fleet_log(services: Services) -> FleetLog:
    """Return what all machines report."""
    return FleetLog(services.settings, role_metrics(services))
