"""What an outage of one receiver would do: the real delivery code on simulated hours, in seconds.

Too many events are made fewer, not skipped: one simulated event then stands for ``scale`` real ones and takes
``scale`` times as long at the receiver, so that as many requests are under way as would be.

The steady journal stands where a partition's files stand; retention by age and by bytes drops events from the front as
there.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from hookline.connections.edits import Put
from hookline.connections.model import Destination, Source
from hookline.connections.store import Store
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.role import DeliverRole
from hookline.journal.local.segment import GROUP_RECORDS
from hookline.journal.port import Group, OffsetExpired
from hookline.journal.record import FORMAT_VERSION, Record
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.reader import DeliverReader
from hookline.settings import Retention, Seconds, Settings
from hookline.simulation.scheduler import (
    Answer,
    Call,
    Request,
    Scheduler,
    SimulatedClock,
    SimulatedLoop,
    SimulatedPools,
)
from hookline.telemetry.log import silenced

BODY = b'{"type":"track","event":"Order Completed","userId":"u1","properties":{"total":12.5}}'
TIMESTAMP = "2026-11-20T07:00:00.000Z"


class SteadyJournal:
    """One partition with ``rate`` events a second; each stands for ``weight`` real ones of ``event_bytes``."""

    def __init__(
        self, clock: SimulatedClock, source: str, rate: float, retention: Retention, event_bytes: int, weight: float
    ) -> None:
        self._clock = clock
        self._source = source
        self._rate = rate
        self._began = clock.seconds
        self._began_ms = clock.now_ms()
        self._kept_seconds = retention.events
        self._kept_events = int(retention.bytes / (event_bytes * weight))

    def partitions(self) -> range:
        """Return one partition."""
        return range(1)

    def start(self, partition: int) -> int:
        """Return the oldest offset that retention has left."""
        by_age = int((self._clock.seconds - self._began - self._kept_seconds) * self._rate)
        return max(0, by_age, self.end(partition) - self._kept_events)

    def end(self, partition: int) -> int:
        """Return what has arrived by now."""
        return int((self._clock.seconds - self._began) * self._rate)

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield groups from ``offset`` to the end as it is now."""
        start, end = self.start(partition), self.end(partition)
        if offset < start:
            raise OffsetExpired(start)
        if offset > end:
            raise ValueError(f"offset {offset} is past the end of the journal, {end}")
        return self._groups(offset, end)

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not kept."""
        return self._record(offset) if self.start(partition) <= offset < self.end(partition) else None

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the kept records at these offsets, ascending, each with its offset."""
        found = ((offset, self.get(partition, offset)) for offset in sorted(offsets))
        return ((offset, record) for offset, record in found if record is not None)

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the one offset with this fingerprint."""
        offset = int.from_bytes(fingerprint, "big")
        if start <= offset < end:
            yield offset

    def limit_wait(self, wait_seconds: float = 0.0, rest_seconds: float = 0.0) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def _groups(self, offset: int, end: int) -> Iterator[Group]:
        while offset < end:
            if offset < self.start(0):
                raise OffsetExpired(self.start(0))
            count = min(GROUP_RECORDS, end - offset)
            records = [self._record(each) for each in range(offset, offset + count)]
            yield Group(offset, records, count * len(BODY))
            offset += count

    def _record(self, offset: int) -> Record:
        return Record(
            FORMAT_VERSION,
            False,
            self._began_ms + int(offset * 1000 / self._rate),
            self._source,
            "track",
            f"e{offset}",
            offset.to_bytes(16, "big"),
            "",
            TIMESTAMP,
            "sdk",
            BODY,
        )


EVENTS_MAX = 150_000
"""Simulated events of one simulation, about: beyond, one stands for several."""
LATENCY_SECONDS_MAX = 30.0
"""A simulated request may take as long as this, which bounds the scale."""
SAMPLE_SECONDS = 1.0
QUIET_SAMPLE_SECONDS = 2.0
COMMIT_SECONDS = 0.005
LAZY_COMMIT_SECONDS = 1.0
"""Checkpoints take as long as this where nothing has failed for a while: fewer of them, the same result."""
RECENT_SECONDS = 5.0
RECOVERY_SECONDS_MIN = 2 * 3600.0
RECOVERY_OUTAGES_MAX = 6
"""Given up after as many times the outage: it will not recover."""
ATTEMPTS_SHOWN_MAX = 200
SAMPLES_MAX = 240
SOURCE = "simulated"
SHARED_MEMORY = Path("/dev/shm")
FREE_BYTES_MIN = 256 * 1024 * 1024


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """``failure`` is what the receiver answers meanwhile: a status, or an outcome without one."""

    destination: Destination
    settings: Settings
    rate: float
    outage_seconds: float
    after_seconds: float
    latency_seconds: float
    failure: int | Outcome
    retry_after_seconds: int | None = None
    event_bytes: int = 1_000
    seed: int = 1


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """One attempt for the first event that met the outage; ``at_seconds`` counts from the outage's start."""

    number: int
    at_seconds: float
    result: str
    probe: bool


class Sample(msgspec.Struct, frozen=True, rename="camel"):
    """Say how things stand at a moment, counted from the outage's start."""

    at_seconds: float
    backlog: int
    retry_rows: int


class Report(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Hold what the outage did. Times are seconds; None where it did not come to that."""

    scale: int
    rate_per_second: float
    outage_seconds: float
    attempts: tuple[Attempt, ...]
    attempts_of_all: int
    """Requests that met the outage."""
    breaker_opened_seconds: float | None
    peak_backlog: int
    peak_backlog_at_seconds: float
    peak_retry_rows: int
    noticed_after_seconds: float | None
    """From the receiver's return to the first success."""
    recovered_after_seconds: float | None
    """From the receiver's return to an empty backlog."""
    recovery_rate_per_second: float | None
    delivered: int
    expired: int
    expired_by_retention: int
    failed: int
    samples: tuple[Sample, ...]


def simulate(outage: Outage, look_up: Callable[[], None] = lambda: None) -> Report:
    """Live through the outage and the recovery; ``look_up`` is called at each sample, and ends it by raising."""
    with temporary_folder() as folder, silenced():
        simulation = Simulation(outage, folder)
        try:
            return simulation.run(look_up)
        finally:
            simulation.close()


class Simulation:
    """One deliver role with one destination."""

    def __init__(self, outage: Outage, folder: Path) -> None:
        self._outage = outage
        self._clock = SimulatedClock()
        self._scheduler = Scheduler(self._clock)
        self._rng = random.Random(outage.seed)
        self._scale = scale_of(outage)
        self._begins = self._clock.seconds + outage.after_seconds
        self._ends = self._begins + outage.outage_seconds
        self._first: str | None = None
        self._met = 0
        self._attempts: list[Attempt] = []
        self._samples: list[Sample] = []
        self._opened: float | None = None
        self._noticed: float | None = None
        self._failed_at = -RECENT_SECONDS
        deliver = msgspec.structs.replace(
            outage.settings.deliver,
            # The receiver's own time decides what times out (``sent``); with it scaled, the sender's limit is, too.
            timeout=Seconds(outage.settings.deliver.timeout * (self._scale + 1)),
        )
        self._settings = msgspec.structs.replace(outage.settings, data_dir=str(folder), deliver=deliver)
        (folder / "run").mkdir()
        self._journal = SteadyJournal(
            self._clock,
            SOURCE,
            outage.rate / self._scale,
            outage.settings.retention,
            outage.event_bytes,
            self._scale,
        )
        self._connect(folder)
        self._loop = SimulatedLoop(self._scheduler, self._work, self._raise)
        self._error: BaseException | str | None = None
        self._role: DeliverRole | None = None

    def run(self, look_up: Callable[[], None]) -> Report:
        """Run until the backlog is gone, or hopeless."""
        self._scheduler.soon(Call(self._loop, self._start))
        give_up = self._ends + max(RECOVERY_SECONDS_MIN, RECOVERY_OUTAGES_MAX * self._outage.outage_seconds)
        recovered = None
        while self._clock.seconds < give_up and recovered is None:
            self._scheduler.run_for(self._scheduler.coarse_seconds or SAMPLE_SECONDS)
            if self._error is not None:
                raise RuntimeError(f"the simulated role failed: {self._error!r}")
            look_up()
            self._sample()
            if self._clock.seconds > self._ends and self._is_well():
                recovered = self._clock.seconds - self._ends
        self._scheduler.coarse_seconds = 0.0
        self._scheduler.run_for(3 * LAZY_COMMIT_SECONDS)  # what is decided gets into the database
        return self._report(recovered)

    def close(self) -> None:
        """Let go of files."""
        self._loop.die()
        if self._role is not None:
            self._role.close()

    def _connect(self, folder: Path) -> None:
        store = Store(folder / "control.db", now_ms=self._clock.now_ms, steady_ms=self._clock.steady_ms)
        destination = msgspec.structs.replace(self._outage.destination, sources=(SOURCE,), enabled=True)
        store.change([Put(Source(id=SOURCE, name=SOURCE)), Put(destination)], "simulation", None, lambda: {0: 0})
        store.close()

    def _start(self) -> None:
        loop = self._loop
        role = self._role = DeliverRole(
            self._settings,
            self._clock,
            lambda sink, settings: SimulatedPools(sink, loop, self, self._scale),
            loop.call_soon,
            self._journal,
        )
        role.engine.schedule = RetrySchedule(self._settings.deliver, self._rng)
        role.recover()
        loop.run(role.run(asyncio.Event()))

    @property
    def _lane(self) -> Lane:
        assert self._role is not None
        return next(iter(self._role.engine.lanes.values()))

    # the receiver

    def sent(self, request: Request) -> Answer:
        """Decide what becomes of a request that leaves (``scheduler.Traffic``)."""
        self._scheduler.coarse_seconds = 0.0
        request.probe = self._lane.breaker.allowance == 0
        timeout = self._outage.settings.deliver.timeout
        if not self._begins <= self._clock.seconds < self._ends:
            if self._outage.latency_seconds >= timeout:
                return Answer(timeout, Outcome.TIMED_OUT)
            return Answer(self._outage.latency_seconds * self._scale, 200, None, True)
        failure, wait = self._outage.failure, self._outage.retry_after_seconds
        if self._first is None:
            self._first = request.message_id
        self._met += 1
        seconds = timeout if failure is Outcome.TIMED_OUT else min(self._outage.latency_seconds, timeout)
        return Answer(seconds, failure, None if wait is None else str(wait).encode())

    def answered(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        """Learn that the sender has taken an answer in (``scheduler.Traffic``)."""
        succeeded = isinstance(result, int) and 200 <= result < 300
        if not succeeded:
            self._failed_at = self._clock.seconds
        elif self._noticed is None and self._clock.seconds >= self._ends:
            self._noticed = self._clock.seconds - self._ends
        if request.message_id == self._first and request.url == 0 and len(self._attempts) < ATTEMPTS_SHOWN_MAX:
            at = request.sent_at - self._begins
            self._attempts.append(Attempt(len(self._attempts) + 1, round(at, 3), str(result), request.probe))

    def _work(self, work: Callable[[], object], future: asyncio.Future[Any]) -> None:
        """Do what the checkpoint's thread does."""
        is_recent = self._clock.seconds - self._failed_at < RECENT_SECONDS
        seconds = COMMIT_SECONDS if is_recent else LAZY_COMMIT_SECONDS
        self._scheduler.at(self._clock.seconds + seconds, Call(self._loop, lambda: future.set_result(work())))

    def _raise(self, error: BaseException | str) -> None:
        self._error = error

    # what is seen

    def _sample(self) -> None:
        assert self._role is not None
        lane, counters = self._lane, self._role.engine.counters
        if lane.breaker.state == "open" and self._opened is None:
            self._opened = self._clock.seconds - self._begins
        backlog = self._journal.end(0) - counters.delivered - counters.dead_lettered
        self._samples.append(
            Sample(round(self._clock.seconds - self._begins, 1), max(0, backlog) * self._scale, lane.retry_count)
        )
        quiet = lane.breaker.state == "open" and not lane.in_flight
        self._scheduler.coarse_seconds = QUIET_SAMPLE_SECONDS if quiet else 0.0

    def _is_well(self) -> bool:
        lane = self._lane
        attached = all(cursor.attached for cursor in lane.cursors.values())
        return attached and lane.breaker.state == "closed" and lane.retry_count == 0 and len(lane.queue) < 64

    def _report(self, recovered: float | None) -> Report:
        assert self._role is not None
        peak = max(self._samples, key=lambda sample: sample.backlog)
        statuses = self._statuses()
        noticed = self._noticed
        rate = None
        if recovered is not None and noticed is not None and recovered > noticed:
            at_return = next(s.backlog for s in self._samples if s.at_seconds >= self._outage.outage_seconds + noticed)
            rate = self._outage.rate + at_return / (recovered - noticed)
        return Report(
            scale=self._scale,
            rate_per_second=self._outage.rate,
            outage_seconds=self._outage.outage_seconds,
            attempts=tuple(self._attempts),
            attempts_of_all=self._met,
            breaker_opened_seconds=_rounded(self._opened),
            peak_backlog=peak.backlog,
            peak_backlog_at_seconds=peak.at_seconds,
            peak_retry_rows=max(sample.retry_rows for sample in self._samples),
            noticed_after_seconds=_rounded(noticed),
            recovered_after_seconds=_rounded(recovered),
            recovery_rate_per_second=_rounded(rate),
            delivered=self._role.engine.counters.delivered * self._scale,
            expired=statuses.get("expired", 0),
            expired_by_retention=statuses.get("expired_by_retention", 0) * self._scale,
            failed=statuses.get("failed", 0),
            samples=_thinned(self._samples),
        )

    def _statuses(self) -> dict[str, int]:
        """Return what was not delivered, by status."""
        with closing(DeliverReader(self._settings.data_path / "deliver.db")) as reader:
            return reader.not_delivered()


def scale_of(outage: Outage) -> int:
    """Return how many real events a simulated one stands for."""
    events = outage.rate * (outage.after_seconds + 2 * outage.outage_seconds)
    most = max(1, int(LATENCY_SECONDS_MAX / max(outage.latency_seconds, 0.001)))
    return max(1, min(most, -(-int(events) // EVENTS_MAX)))


def _thinned(samples: list[Sample]) -> tuple[Sample, ...]:
    """At most SAMPLES_MAX: of each stretch the one with the largest backlog."""
    step = -(-len(samples) // SAMPLES_MAX)
    stretches = [samples[at : at + step] for at in range(0, len(samples), step)]
    return tuple(max(stretch, key=lambda sample: sample.backlog) for stretch in stretches)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hookline-", dir=_parent()) as folder:
        yield Path(folder)


def _parent() -> str | None:
    if not SHARED_MEMORY.is_dir() or not os.access(SHARED_MEMORY, os.W_OK):
        return None
    status = os.statvfs(SHARED_MEMORY)
    return str(SHARED_MEMORY) if status.f_bavail * status.f_frsize >= FREE_BYTES_MIN else None
