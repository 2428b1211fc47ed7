"""Gather what the processes of this installation report: workers, partitions, and whether every role works
(``/readyz?all``).

A role works while it reports, and reports no trouble. One that stands by for another machine's works too. Which roles
there ought to be is the supervisor's to say; of roles started alone, those count that have once reported here.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hookline.api.services import Services, part
from hookline.database.home import held
from hookline.database.installation import LOCAL
from hookline.database.location import location_of
from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.heartbeat import WorkerState, decode
from hookline.events.timestamps import iso
from hookline.features.fleet.metrics import OwnMetrics, RoleMetrics, RoleReport
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalAway, JournalError, Reader
from hookline.outcomes.reader import DeliverReader
from hookline.roles import SUPERVISOR_FD, wanted
from hookline.settings import Settings
from hookline.telemetry.metrics import PROCESS_ID, PROCESS_STANDING_BY, PROCESS_STARTED, PROCESS_TROUBLES
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
    """One deliver process. ``worker`` is its host, a random part and its process id; ``alive`` says whether it still
    reports."""

    worker: str
    alive: bool
    since: str
    last_seen_at: str
    partitions: Sequence[int]
    behind: int | None
    """Events of its partitions that it has not read yet; null while brokers do not tell."""


class FleetPartition(msgspec.Struct, frozen=True, rename="camel"):
    """One partition. ``worker`` is null while no worker delivers it."""

    partition: int
    worker: str | None
    since: str | None
    next_offset: int
    end: int | None
    behind: int | None


class Fleet(msgspec.Struct, frozen=True):
    """All workers and partitions. ``shared`` says whether there can be several workers."""

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
        self._deliver = DeliverReader(location_of(settings, "deliver"))
        self._reader: Reader | None = None
        self._lock = threading.Lock()
        self._changed: dict[str, tuple[int, float]] = {}
        """By worker: its last row's time, and when that was first seen here."""
        self._open_breakers: frozenset[str] | None = None
        self._looked = -KEPT_SECONDS
        self._kept: Fleet | None = None

    def look(self) -> Fleet:
        """Everything as it is now; raise DatabaseAway and the journal's errors but for brokers that are away."""
        with self._lock:
            if self._kept is None or self._clock() - self._looked >= KEPT_SECONDS:
                self._kept = self._look()
                self._looked = self._clock()
            return self._kept

    @property
    def open_breakers(self) -> frozenset[str] | None:
        """Return the destinations whose breaker is open at some worker, as of the last look, or the first one, which is
        made now; None where no worker says so, as where there is only one, or while none can be asked."""
        if self.is_shared and self._kept is None:
            with suppress(sqlite.Error, JournalError, OSError):
                self.look()
        return self._open_breakers

    def close(self) -> None:
        """Let go of the database and of connections; idempotent."""
        with self._lock:
            self._deliver.close()
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _look(self) -> Fleet:
        places = self._deliver.next_offsets()
        there = self._there()
        partitions = range(max(self._settings.journal.partitions, len(there)))
        if self.is_shared and self._deliver.exists:
            workers, owners = self._workers()
        else:
            workers, owners = self._the_one(partitions)
        ends = self._ends(there)
        shown = [_partition(each, owners.get(each), places.get(each, 0), ends.get(each)) for each in partitions]
        return Fleet(self.is_shared, [_with_lag(worker, shown) for worker in workers], shown)

    def _workers(self) -> tuple[list[FleetWorker], dict[int, tuple[str, str]]]:
        rows = self._deliver.workers()
        owned = self._deliver.owned()
        epochs = {each.partition: each.epoch for each in owned}
        since = {each.partition: iso(each.since_ms) for each in owned}
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
        self._open_breakers = frozenset(open_breakers) if any(worker.alive for worker in workers) else None
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


REPORT_SECONDS_MAX = 10.0
"""A report that is older says nothing: roles write one every two seconds at least, and profiles after each batch."""
WHOLE_KEPT_SECONDS = 0.5
"""What was found is answered again for so long, however many ask."""
WORKING = "working"
STANDING_BY = "standing_by"
NOT_REPORTING = "not_reporting"


def asks_for_all(query: bytes) -> bool:
    """Return whether the query of ``/readyz`` asks for the whole machine."""
    return any(part.partition(b"=")[0] == b"all" for part in query.split(b"&"))


class Whole(msgspec.Struct, frozen=True):
    """``status`` is ``ready`` or ``not_ready``; ``roles`` says of each that it works, stands by, or what keeps it."""

    status: str
    roles: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Return whether every role works."""
        return self.status == "ready"


class WholeMachine:
    """Looks at the reports of the roles in a data folder."""

    def __init__(
        self,
        data_path: Path,
        metrics: RoleMetrics,
        is_supervised: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``is_supervised`` is by default whether this process is."""
        self._folder = str(data_path)
        self._metrics = metrics
        self._is_supervised = SUPERVISOR_FD in os.environ if is_supervised is None else is_supervised
        self._clock = clock
        self._kept: tuple[float, Mapping[str, str]] | None = None

    def roles(self) -> tuple[str, ...]:
        """Return the roles that a supervisor runs here; none where each is started by itself."""
        return wanted(self._folder) if self._is_supervised else ()

    def look(self, own: str) -> Whole:
        """Return how the roles are; ``own`` is what control, which asks, says of itself."""
        now = time.monotonic()
        if self._kept is None or now - self._kept[0] >= WHOLE_KEPT_SECONDS:
            reports = self._metrics.reports()
            names = dict.fromkeys((*self.roles(), *reports))
            self._kept = now, {name: self._state(reports.get(name)) for name in names}
        roles = {**self._kept[1], "control": own}
        is_ready = all(state in (WORKING, STANDING_BY) for state in roles.values())
        return Whole("ready" if is_ready else "not_ready", roles)

    def _state(self, report: RoleReport | None) -> str:
        if report is None or abs(self._clock() - report.at_seconds) > REPORT_SECONDS_MAX or self._has_ended(report):
            return NOT_REPORTING
        troubles = report.values.get(PROCESS_TROUBLES)
        if isinstance(troubles, list) and troubles:
            return str(troubles[0])
        return STANDING_BY if report.number(PROCESS_STANDING_BY) else WORKING

    def _has_ended(self, report: RoleReport) -> bool:
        """Return whether the process that wrote it is gone, as between two starts of a role that ends again and
        again."""
        if not self._is_supervised:
            return False  # it may be in a container of its own, where its number means nothing here
        try:
            os.kill(int(report.number(PROCESS_ID)) or os.getpid(), 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False
