"""The deliver role: opens what the engine needs, keeps its beat, and stops it without losing a position."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hookline.beats import Bell, next_beat
from hookline.connections.model import Snapshot
from hookline.connections.state import Feed
from hookline.database.location import Schema, location_of
from hookline.database.open import ensure
from hookline.database.read_only import Unread
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, DatabaseUnreadable
from hookline.database.steady_clock import KEEP_SECONDS, Clock, SystemClock, steady_clock_of
from hookline.deliver.checkpointer import Checkpointer
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.erasures import Erasures
from hookline.deliver.lanes.lane_set import LaneSet
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.read.losses import RETENTION_PASSED, Loss, record_loss
from hookline.deliver.recovery import Recovery
from hookline.deliver.replays import Replays
from hookline.deliver.reports import Reports
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.retry.scheduler import Retries
from hookline.deliver.send.client_certificate import ClientCertificate
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.port import Sender, Sink
from hookline.deliver.send.proxy import proxy_of
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.deliver.store.writer import DeliverStore
from hookline.deliver.work import Counters
from hookline.freed_memory import give_back
from hookline.index.duplicates import Duplicates
from hookline.journal.damaged import Short, note_if_given_again, report_behind
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import JournalAway, Lookups, Reader
from hookline.journal.reading import CHANGES, RECORDS, at_hand, listen_for_wakes, take_wakes
from hookline.limits import LIMITS, Limits
from hookline.outcomes.progress import ProgressRing, RingKeeper
from hookline.privacy.shared_erased import ErasureFeed
from hookline.replays.store import ReplayFeed
from hookline.settings import Settings
from hookline.telemetry.log import logger
from hookline.telemetry.traces import traces_of

if TYPE_CHECKING:
    from hookline.deliver.cluster.late_rows import LateRows
    from hookline.deliver.cluster.worker import Worker

BEAT_SECONDS = 0.05
LOAD_SECONDS = 0.1
SATURATED_SHARE = 0.9
"""Of a core: with so much used, the event loop has hardly waited for anybody."""
SAVE_SECONDS = 0.1
CONNECTIONS_SECONDS = 0.25
REST_SECONDS = 1.0
"""From one look at rest to the next, where control tells of its changes: then it is only for what was not told."""
PUBLISH_SECONDS = 1.0
RETENTION_SECONDS = 30.0
DRAIN_SECONDS = 6.0
"""A request in flight ends within the 5 s of its exchange."""
REST_AFTER_SECONDS = 0.5
"""With nothing to do for so long there are only the beats that look whether there is. Between events that come one
after the other it is not worth going to rest."""
GET_UP_SECONDS = 0.01
"""From the first event after a rest until beats are quick again: what they look at would hold up its request."""
SPARE_AFTER_SECONDS = 5.0
"""With nothing in flight for so long, memory that only makes look-ups quicker is given back."""


class DeliverRole:
    """Everything of one deliver process. Clock, network, turns and journal are seams for simulation; ``lookups`` is one
    for a journal that is elsewhere, and retry rows come late with it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        network: Callable[[Sink, Settings], Sender] | None = None,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        journal: Reader | None = None,
        lookups: Lookups | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        data = settings.data_path
        location = location_of(settings, "deliver")
        ensure(location, "deliver")
        self.settings = settings
        backend = journal_in(data / FOLDER)
        self.journal: Reader = journal or backend.reader()
        self._fence = Fence(settings.deliver.session_timeout) if settings.is_shared else None
        self.store = DeliverStore(location, self._fence)
        self.feed = Feed(location_of(settings, "control"))
        clock = clock or SystemClock(steady_clock_of(settings))
        self._keep_time = clock.steady.keep if isinstance(clock, SystemClock) else None
        self._loop = None if call_soon else asyncio.get_running_loop()
        call_soon = call_soon or asyncio.get_running_loop().call_soon
        ring = ProgressRing(data / "progress.ring", limits)
        self._ring_keeper = RingKeeper(ring)
        schedule = RetrySchedule(settings.deliver, limits=limits)
        self.engine = Dispatcher(clock, schedule, ring, Counters(), call_soon, limits)
        self.engine.fence = self._fence
        self.tracing = traces_of(settings, "deliver")
        self.sender = (network or partial(_network, limits=limits))(self._sink(), settings)
        self._readers = at_hand(journal) if journal is not None else backend.loop_readers(self.journal, self._arrived)
        self.lookups: Lookups = lookups or self._readers.lookups
        self.feeder = Feeder(self.engine, self.lookups, call_soon)
        self._follower = self._readers.follower
        self.engine.keep_record = self._readers.keep
        self.lane_set = LaneSet(self.engine, self.feeder, self.sender, settings, is_traced=self.tracing is not None)
        late_rows = self._late_rows() if isinstance(location, Schema) or lookups is not None else None
        rows = late_rows or self.store.rows
        self.retries = Retries(self.engine, self.feeder, self.store, rows, self.lookups, self.journal)
        self.replay_feed = ReplayFeed(location_of(settings, "control"))
        self.replays = Replays(
            self.engine,
            self.feeder,
            self.lane_set,
            self.store,
            self.replay_feed,
            is_shared=self._fence is not None,
        )
        self.checkpointer = Checkpointer(self.engine, self.feeder, self.replays, self.store, late_rows)
        self.erasure_feed = ErasureFeed(location_of(settings, "privacy"))
        self.worker = self._worker(self._fence) if self._fence is not None else None
        self.erasures = self._erasures()
        self.reports = Reports(self.engine, self.feeder, self.replays, self.sender, self.tracing, data / "run")
        self._unread = Unread("connections")
        self._recovery: Recovery | None = None
        """What brought the lanes back, until the connections of now are followed."""
        self._then: Snapshot | None = None
        """The connections of the last checkpoint, until they are taken up."""
        self._unfollowed: Snapshot | None = None
        """The connections while not everything has followed them yet."""
        self._rests_until = 0.0
        self._bell = Bell()
        """Rings when there is something to follow."""
        self._is_notified = self._loop is not None and settings.database.is_local
        self._can_follow = False
        self._busy = asyncio.Event()
        """Not set at rest: nothing is under way. Who begins something sets it."""
        self._busy.set()
        self._gets_up = False
        self._idle_since = self._unused_since = clock.monotonic()
        self._is_spare = False
        """Whether that memory is given back."""
        self._load_at = (0.0, 0.0)
        self._forgotten: dict[int, int] = {}
        self._short: dict[int, Short] = {}
        """Partitions that ended before their positions at the start; as one of many workers, who takes them looks."""
        self._written = 0
        """Results up to the last time that freed memory was given back."""
        self._log = logger()

    def saved_positions(self) -> dict[int, int]:
        """Return up to where each partition of a local journal was routed when that was last saved."""
        if self.worker is not None:
            return {}
        saved = {
            partition: self.store.reader.checkpoint(partition) for partition in range(self.settings.journal.partitions)
        }
        return {partition: each.next_offset for partition, each in saved.items() if each is not None}

    async def wait_for_connections(self, stop: asyncio.Event) -> None:
        """Return once the connections of the last checkpoint, and replays, can be read, or at ``stop``: without them
        nobody knows where to go on. As one of many workers this is waited for with each partition."""
        saved = [self.store.reader.checkpoint(partition) for partition in range(self.settings.journal.partitions)]
        version = next((each.version for each in reversed(saved) if each is not None), 0)
        while self.worker is None and version and not stop.is_set():
            try:
                self._then = self.feed.at(version)
                self.replays.look()
                break
            except DatabaseAway as away:
                if isinstance(away, DatabaseUnreadable):
                    self._unread.begin(away)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), CONNECTIONS_SECONDS)

    def recover(self) -> None:
        """Take every partition and lane up where the last checkpoint, and the progress ring, left them. As one of many
        workers, take up those that the group assigns, when it does."""
        if self.worker is not None:
            self.follow_connections()
            self.journal.limit_wait()
            self.worker.start()
            return
        now_ms = self.engine.clock.steady_ms()
        self.store.bring_near(now_ms, now_ms + int(self.engine.schedule.window_ms))
        version = 0
        for partition in range(self.settings.journal.partitions):
            saved = self.store.reader.checkpoint(partition)
            start, end = self.journal.start(partition), self.journal.end(partition)
            position = saved.next_offset if saved else start
            version = saved.version if saved else version
            index = self.settings.data_path / "index" / str(partition)
            duplicates = Duplicates(
                index,
                self.journal,
                partition,
                window_seconds=self.settings.dedup.window,
                bytes_max=self.settings.dedup.bytes,
            )
            duplicates.read_up_to(position)
            duplicates.read_by(self.lookups)
            self._follower.follow(partition, end)
            self.feeder.shared[partition] = SharedReader(partition, self._follower, duplicates, position)
            if position > end:
                report_behind(partition, end, position)
                self._short[partition] = Short(end, position, now_ms)
        self._restore(version)
        self._follower.begin()
        self.journal.limit_wait()
        # What changed meanwhile comes first: nothing more is sent to a destination that was disabled.
        self.follow_connections()
        for lane in list(self.engine.lanes.values()):
            self.feeder.room(lane)
            self.engine.dispatch(lane)

    def _late_rows(self) -> LateRows:
        from hookline.deliver.cluster.late_rows import LateRows

        return LateRows(self.engine)

    def _erasures(self) -> Erasures:
        parts = self.engine, self.feeder, self.retries, self.store, self.erasure_feed
        if self.worker is None or self._fence is None:
            return Erasures(*parts)
        from hookline.deliver.cluster.shared_erasures import SharedErasures

        return SharedErasures(*parts, self._fence, self.worker.shelf, self.settings.data_path)

    def _worker(self, fence: Fence) -> Worker:
        from hookline.deliver.cluster.takeover import PartitionTakeover
        from hookline.deliver.cluster.worker import Worker

        parts = self.engine, self.feeder, self.lane_set, self.replays
        recovery = Recovery(*parts, self.store, self.journal)
        recovery.read_ring()
        self._follower.begin()
        return Worker(
            self.settings,
            fence,
            self.engine,
            self.feeder,
            self.checkpointer,
            PartitionTakeover(*parts, recovery),
            self._follower,
            self.lookups,
            self.follow_connections,
        )

    def _restore(self, version: int) -> None:
        snapshot, self._then = self._then or self.feed.at(version), None
        parts = self.engine, self.feeder, self.lane_set, self.replays
        self._recovery = Recovery(*parts, self.store, self.journal)
        self._recovery.restore(snapshot)
        self.checkpointer.version = version

    def _sink(self) -> Sink:
        if self.tracing is None:
            return self.engine
        from hookline.deliver.traced import TracedSink

        return TracedSink(self.engine, self.tracing)

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until told to stop, then let what is in flight end and save the positions."""
        if self._loop is not None:  # a simulated power cut takes what it likes of the ring
            self._ring_keeper.start()
        wake = listen_for_wakes(self.settings.socket_path("deliver.wake"))
        loop = asyncio.get_running_loop()
        loop.add_reader(wake, self._woken, wake)
        beats = [
            loop.create_task(self._while_busy(BEAT_SECONDS, self.beat)),
            loop.create_task(self._look_around()),
            loop.create_task(self._every(PUBLISH_SECONDS, self._publish)),
            loop.create_task(self._every(RETENTION_SECONDS, self._retain)),
            loop.create_task(self._while_busy(SAVE_SECONDS, self.checkpointer.tick)),
        ]
        if self._loop is not None:  # in a simulation the time that the processor takes is no part of what happens
            beats.append(loop.create_task(self._while_busy(LOAD_SECONDS, self._look_at_load)))
        if self._keep_time is not None:
            beats.append(loop.create_task(self._every(KEEP_SECONDS, self._keep_time)))
        stopped = loop.create_task(stop.wait())
        done, _ = await asyncio.wait([*beats, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stopped}:
            task.result()  # a beat ends only by an error: raise it, so that the role exits and comes back
        await asyncio.gather(self._drain(), self.lane_set.sinks.finish())
        loop.remove_reader(wake)
        wake.close()
        for task in beats:
            task.cancel()
        await asyncio.gather(*beats, return_exceptions=True)
        await self.checkpointer.save()
        self.close()

    def close(self) -> None:
        """Let go of files and connections."""
        if self.worker is not None:
            self.worker.close()
        self.checkpointer.close()
        self.sender.close()
        self.lane_set.sinks.close()
        if self.tracing is not None:
            self.tracing.close()
        for shared in self.feeder.shared.values():
            shared.duplicates.close()
        self.store.close()
        self.feed.close()
        self.replay_feed.close()
        self.erasure_feed.close()
        self._ring_keeper.stop()
        self.engine.ring.close()
        self._readers.close()
        self.journal.close()

    async def _drain(self) -> None:
        self.engine.stopping = True
        loop = asyncio.get_running_loop()
        end = loop.time() + DRAIN_SECONDS
        while self.engine.in_flight and loop.time() < end:
            await asyncio.sleep(BEAT_SECONDS)
            self.sender.sweep(self.settings.deliver.timeout)

    # beats

    async def _every(self, seconds: float, beat: Any) -> None:
        while True:
            result = beat()
            if asyncio.iscoroutine(result):
                await result
            await next_beat(seconds)

    async def _while_busy(self, seconds: float, beat: Any) -> None:
        while True:
            await self._busy.wait()
            await asyncio.sleep(seconds)
            result = beat()
            if asyncio.iscoroutine(result):
                await result

    def _woken(self, wake: socket.socket) -> None:
        found = take_wakes(wake)
        if RECORDS in found:
            self._go_on()
        if CHANGES in found:
            self._bell.ring()

    def _arrived(self) -> None:
        """More of a journal on Kafka is there; called on the follower's thread."""
        assert self._loop is not None, "only a simulation, which has its own journal, brings its own turns"
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        self.feeder.wake()
        if self.is_at_rest and not self._gets_up:
            self._gets_up = True
            asyncio.get_running_loop().call_later(GET_UP_SECONDS, self._get_up)

    def _get_up(self) -> None:
        self._gets_up = False
        self._get_busy()
        self._bell.ring()

    def _get_busy(self) -> None:
        self._idle_since = self.engine.clock.monotonic()
        self._busy.set()

    async def _look_around(self) -> None:
        """Follow the connections; at rest, look also for what nobody tells of."""
        while True:
            self.follow_connections()
            if self.is_at_rest:
                self.beat()
            rests = self.is_at_rest and self._is_notified and self._can_follow
            await self._bell.rest(REST_SECONDS if rests else CONNECTIONS_SECONDS)

    @property
    def is_at_rest(self) -> bool:
        """Return whether nothing is under way: beats are few then."""
        return not self._busy.is_set()

    def beat(self) -> None:
        """Do what is due by the clock: requests that take too long, retries, a look at the journal's end."""
        if self.worker is not None:
            self.worker.check()
        if self.feeder.failure is not None:
            raise self.feeder.failure
        self.sender.sweep(self.settings.deliver.timeout)
        self.engine.failures.log_timeouts()
        self.retries.tick()
        self.replays.tick(self.checkpointer.committing)
        self.engine.wake_paced()
        self.lane_set.look_at_draining()
        if not self.engine.in_flight:
            self.engine.offer_slots()
        is_used = self.engine.in_flight > 0
        for shared in self.feeder.shared.values():
            is_used |= shared.duplicates.work()
            if shared.is_behind:
                self.feeder.wake()
        if self.feeder.catch_up.try_again():
            self.feeder.wake()
        if self._short:
            self._look_at_short()
        now = self.engine.clock.monotonic()
        self._spare_memory(now, is_used)
        if is_used or self._has_work():
            self._get_busy()
        elif now - self._idle_since >= REST_AFTER_SECONDS:
            self._busy.clear()

    def _look_at_short(self) -> None:
        for partition, short in list(self._short.items()):
            if self.feeder.shared[partition].end >= short.next_offset:
                with contextlib.suppress(JournalAway):  # it is noted in a later beat
                    note_if_given_again(self.settings.data_path / FOLDER, self.lookups, partition, short)
                    del self._short[partition]

    def _spare_memory(self, now: float, is_used: bool) -> None:
        if is_used:
            self._unused_since, self._is_spare = now, False
        elif not self._is_spare and now - self._unused_since >= SPARE_AFTER_SECONDS:
            self._is_spare = True
            for shared in self.feeder.shared.values():
                shared.duplicates.rest()

    def _has_work(self) -> bool:
        """Return whether anything is under way or waits for its time, so that beats have to be quick. One of many
        processes always has: it watches the others."""
        return (
            self.worker is not None
            or self.engine.has_work
            or self.feeder.has_work
            or self.lane_set.has_draining
            or bool(self.replays.lanes)
            or self.checkpointer.has_work
        )

    async def _publish(self) -> None:
        await self.reports.publish(self.is_at_rest)

    def _look_at_load(self) -> None:
        now, used = time.monotonic(), time.thread_time()
        before, self._load_at = self._load_at, (now, used)
        self.engine.is_saturated = used - before[1] > SATURATED_SHARE * (now - before[0])

    def follow_connections(self) -> None:
        """Bring the lanes in line with the connections and replays, if those changed."""
        began = time.monotonic()
        if began < self._rests_until:
            return
        try:
            self._can_follow = False
            self._follow()
            self._can_follow = True
            self._unread.end()
        except DatabaseUnreadable as error:  # what was in force stays so
            self._unread.begin(error)
        except DatabaseAway:  # said once, by ``outages``
            ended = time.monotonic()
            self._rests_until = ended + LOCKED_REST * (ended - began)

    def _follow(self) -> None:
        snapshot = self._unfollowed = self.feed.poll() or self._unfollowed
        if snapshot is not None and self._recovery is not None:
            # Before lanes are ended here: what was recovered of those is about to be saved.
            self._recovery.save_unseen(self.feed, self.checkpointer.version, snapshot)
            self._recovery = None
        if snapshot is not None and snapshot.version != self.checkpointer.version:
            self.lane_set.apply(snapshot)
            self.checkpointer.version = snapshot.version
        self.replays.follow(snapshot)
        if snapshot is not None:
            self.lane_set.delivered.clear()
        self._unfollowed = None
        self.erasures.follow()

    async def _retain(self) -> None:
        for shared in list(self.feeder.shared.values()):
            start = self.lookups.start(shared.partition)
            shared.duplicates.retain()
            if start > self._forgotten.get(shared.partition, 0):
                await self._note_lost(shared.partition, start)
                await self.checkpointer.forget_below(shared.partition, start)
                self._forgotten[shared.partition] = start
        await self.checkpointer.forget_replays()
        if self.engine.ring.written != self._written:
            self._written = self.engine.ring.written
            give_back()

    async def _note_lost(self, partition: int, start: int) -> None:
        """Put on the record what retention took from lanes that stand still, without waiting until they go on."""
        self.feeder.catch_up.pass_over(partition, start)
        for number, first in (await self.checkpointer.retries_below(partition, start)).items():
            lane = self.engine.lanes.get(number)
            if lane is not None:
                record_loss(self.engine, lane, partition, first, Loss(start, "expired_by_retention", RETENTION_PASSED))


def _network(sink: Sink, settings: Settings, limits: Limits) -> Sender:
    resolver = Resolver(Guard(settings.deliver.allow_networks), limits=limits)
    new_tls = partial(tls_context, settings.deliver.ca_file)
    parts = sink, resolver, new_tls(), settings.deliver.connection_age
    return Pools(*parts, lambda pair: ClientCertificate(pair, settings, new_tls), proxy_of(settings))
