"""Plan replays: how many events, and which where single ones are meant, counted in a thread of its own.

Reads journal and outcomes in steps of a fraction of a second, so that several go on beside each other in one thread,
and a long one shows how far it is. Nothing is changed.

A step of each in turn; what a replay comes to is written into the store, what a dry run comes to is kept in memory.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event

import msgspec

from hookline.connections.model import Destination, Offsets
from hookline.database.location import DatabaseLocation, location_of
from hookline.events.timestamps import iso
from hookline.features.dead_letters.service import Past, dead_letter_places
from hookline.features.destinations.service import DestinationPast
from hookline.index import lookup
from hookline.journal.opening import open_reader
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record, fingerprint
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.results import Results
from hookline.replays.model import Replay, ReplayRequest
from hookline.replays.offset_set import RUNS_MAX, OffsetSet
from hookline.replays.predicate import event_name, predicate_of
from hookline.replays.store import ReplayStore
from hookline.settings import Settings
from hookline.telemetry.log import logger

SAMPLE_MAX = 5
STEP_SECONDS = 0.05
LOOKUPS_MAX = 64
"""Up to so many messageIds (times sources) are looked up in the index; more are found by reading the stretch."""


class SampleEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One of the events that would be sent."""

    message_id: str
    source: str
    type: str
    event: str | None
    user_id: str
    received_at: str


class Planning:
    """The count of one request, ``[starts, ends)`` of each partition. Make and use it in one thread."""

    def __init__(
        self,
        data_path: Path,
        deliver: DatabaseLocation,
        request: ReplayRequest,
        destination: Destination,
        starts: Offsets,
        ends: Offsets,
        past: Past,
    ) -> None:
        """``past`` is asked where it is about dead letters."""
        self.count = 0
        self.sample: list[SampleEvent] = []
        self.scanned = 0
        self.of = sum(ends[partition] - starts[partition] for partition in ends)
        """Events to be looked at."""
        self.positions: dict[int, OffsetSet] | None = None
        """The events found, where single ones are meant and they are few enough to name."""
        self._data_path = data_path
        self._deliver = deliver
        self._request = request
        self._destination = destination
        self._starts, self._ends = starts, ends
        self._past = past
        self._ids = None if request.message_ids is None else frozenset(request.message_ids)
        self._sends = predicate_of(request, destination)
        self._step_ends = 0.0

    def steps(self) -> Iterator[None]:
        """Do the work, pausing after each step."""
        journal, deliver = open_reader(self._data_path / "journal"), DeliverReader(self._deliver)
        results = Results(self._data_path, deliver)
        try:
            if self._request.by_positions:
                self.positions = {}
            wanted = self._request.dead_letter_filter()
            if wanted is not None:
                found = yield from dead_letter_places(
                    deliver, results, journal, wanted, self._destination, self._past, self._due
                )
                yield from self._look_at(journal, found)
            elif self._ids is not None and len(self._ids) * len(self._sources()) <= LOOKUPS_MAX:
                yield from self._look_at(journal, self._look_up(journal))
            else:
                for partition in self._ends:
                    yield from self._read(journal, results, partition)
        finally:
            results.close()
            deliver.close()
            journal.close()

    def _sources(self) -> tuple[str, ...]:
        return self._destination.sources if self._request.source is None else (self._request.source,)

    def _look_up(self, journal: Reader) -> dict[int, set[int]]:
        """Return the first event of each messageId: a later one of the same id is a repeat."""
        found: dict[int, set[int]] = {partition: set() for partition in self._ends}
        for source in self._sources():
            for message_id in self._ids or ():
                for partition, offsets in found.items():
                    wanted = fingerprint(source, message_id)
                    kept = lookup.find(journal, self._data_path / "index", partition, wanted)
                    good = (offset for offset in kept if _is_good(journal.get(partition, offset)))
                    offsets.update(first for first in [next(good, None)] if first is not None)
        return found

    def _look_at(self, journal: Reader, found: dict[int, set[int]]) -> Iterator[None]:
        self.of, self.scanned = sum(map(len, found.values())), 0
        for partition, offsets in found.items():
            for offset in sorted(offsets):
                self.scanned += 1
                if self._starts.get(partition, 0) <= offset < self._ends.get(partition, 0):
                    record = journal.get(partition, offset)
                    if record is not None:
                        self._take(record, partition, offset)
                if self._due():
                    yield

    def _read(self, journal: Reader, results: Results, partition: int) -> Iterator[None]:
        offset, end = self._starts[partition], self._ends[partition]
        bucket, repeats = -1, set[int]()
        for group in read_on(journal, partition, offset, end):
            for at, record in enumerate(group.records, group.first_offset):
                if at >> BUCKET_SHIFT != bucket:
                    bucket = at >> BUCKET_SHIFT
                    repeats = {each for each in repeats if each >= at} | results.repeats(partition, bucket)
                if at < end and at not in repeats:
                    self._take(record, partition, at)
            self.scanned += min(group.next_offset, end) - group.first_offset
            if self._due():
                yield

    def _take(self, record: Record, partition: int, offset: int) -> None:
        if (self._ids is not None and record.message_id not in self._ids) or not self._sends(record):
            return
        self.count += 1
        if len(self.sample) < SAMPLE_MAX:
            self.sample.append(_sample(record))
        if self.positions is not None:
            positions = self.positions.setdefault(partition, OffsetSet())
            positions.add(offset, offset + 1)
            if positions.runs > RUNS_MAX and self._request.dead_letter_filter() is None and self._ids is None:
                self.positions = None  # so many that the whole stretch is read again instead

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._step_ends:
            return False
        self._step_ends = now + STEP_SECONDS
        return True


def _sample(record: Record) -> SampleEvent:
    return SampleEvent(
        record.message_id,
        record.source,
        record.type,
        event_name(record) or None,
        record.user_key,
        iso(record.received_at),
    )


def _is_good(record: Record | None) -> bool:
    return record is not None and record.rejection is None and not record.erased


DRY_RUNS_KEPT = 100
RETRY_SECONDS = 30.0
"""A count that failed is tried again after this."""


class DryRun:
    """A request that was only counted; ``state`` is ``counting``, ``counted`` or ``failed``."""

    def __init__(self, id: str, request: ReplayRequest, planning: Planning) -> None:
        self.id = id
        self.request = request
        self.planning = planning
        self.state = "counting"
        self.at_ms = time.time_ns() // 1_000_000
        self.finished = Event()


def past_of(past: DestinationPast, destination: str) -> Past:
    """Return what is known of a destination's lanes."""
    replays = (lane for lane, replay in past.lanes(destination).items() if replay is not None)
    return Past(frozenset(replays), past.streams(destination))


class Planner:
    """Dry runs and counts under way. Its methods may be called from any thread."""

    def __init__(self, settings: Settings, store: ReplayStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._store = store
        self._past = DestinationPast(location_of(settings, "control"))
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replay-planner")
        self._dry_runs: OrderedDict[str, DryRun] = OrderedDict()
        self._numbers = count(1)
        self._counting: dict[int, Planning] = {}
        self._failed: dict[int, float] = {}
        self._closed = False

    def dry_run(self, request: ReplayRequest, destination: Destination, starts: Offsets, ends: Offsets) -> DryRun:
        """Begin to count what a request comes to."""
        planning = self._planning(request, destination, starts, ends)
        made = DryRun(f"dry-{next(self._numbers)}", request, planning)
        self._dry_runs[made.id] = made
        while len(self._dry_runs) > DRY_RUNS_KEPT:
            self._dry_runs.popitem(last=False)

        def finish(error: Exception | None) -> None:
            made.state = "counted" if error is None else "failed"
            made.finished.set()

        # A dry run that nobody can ask for any more is given up.
        self._go(planning.steps(), finish, lambda: made.id in self._dry_runs)
        return made

    def dry_run_of(self, id: str) -> DryRun | None:
        """Return a dry run of the last hundred."""
        return self._dry_runs.get(id)

    def forget(
        self,
        ids: Collection[str],
        message_ids: Collection[str] = (),
        is_named: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """Keep no dry run that names one of these people or messages, or has found events of them; nor one of events
        with a name of which ``is_named`` says so."""
        for id, run in list(self._dry_runs.items()):
            sample = list(run.planning.sample)
            users = {run.request.user_id, *(each.user_id for each in sample)}
            names = {run.request.event, *(each.event for each in sample)}
            if (
                not users.isdisjoint(ids)
                or not set(run.request.message_ids or ()).isdisjoint(message_ids)
                or any(is_named(each) for each in names if each is not None)
            ):
                self._dry_runs.pop(id, None)

    def plan(self, replay: Replay, destination: Destination) -> None:
        """Begin to count a replay, and to find its events where single ones are meant, unless that is under way."""
        lane = replay.lane
        if lane in self._counting or self._clock() - self._failed.get(lane, -RETRY_SECONDS) < RETRY_SECONDS:
            return
        planning = self._planning(replay.request, destination, replay.starts, replay.ends)
        self._counting[lane] = planning

        def finish(error: Exception | None) -> None:
            if error is not None:
                self._failed[lane] = self._clock()
            elif planning.positions is not None:
                self._store.prepare(lane, planning.positions)
            else:
                self._store.plan(lane, planning.count)
            self._counting.pop(lane, None)

        self._go(planning.steps(), finish, lambda: True)

    def planning_of(self, lane: int) -> Planning | None:
        """Return how far the count of a replay is; None when it is not being counted."""
        return self._counting.get(lane)

    def close(self) -> None:
        """Stop counting; idempotent."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._past.close()

    def _planning(self, request: ReplayRequest, destination: Destination, starts: Offsets, ends: Offsets) -> Planning:
        deliver = location_of(self._settings, "deliver")
        past = Past()
        if request.dead_letter_filter() is not None:
            past = past_of(self._past, destination.id)
        return Planning(self._settings.data_path, deliver, request, destination, starts, ends, past)

    def _go(
        self, steps: Iterator[None], finish: Callable[[Exception | None], None], is_wanted: Callable[[], bool]
    ) -> None:
        def step() -> None:
            if self._closed or not is_wanted():
                return
            try:
                next(steps)
            except StopIteration:
                self._finish(finish, None)
            except Exception as error:  # noqa: BLE001 - one count that fails must not end the thread's others
                logger().error("replay_count_failed", exc_info=error)
                self._finish(finish, error)
            else:
                self._submit(step)

        self._submit(step)

    def _finish(self, finish: Callable[[Exception | None], None], error: Exception | None) -> None:
        try:
            finish(error)
        except Exception as failure:  # noqa: BLE001 - as above; the count is made again later
            logger().error("replay_count_not_saved", exc_info=failure)
            if error is None:
                finish(failure)

    def _submit(self, step: Callable[[], None]) -> None:
        try:
            self._thread.submit(step)
        except RuntimeError:  # it is being closed
            self._closed = True
