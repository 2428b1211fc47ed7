"""Saves where every lane stands, about ten times a second, in one transaction with retries and outcomes.

The state is gathered on the event loop in one go, so that it is of one moment, and committed in a thread. If a commit
fails (the disk is full), the same batch is tried again before anything newer; meanwhile the progress ring fills and
sending stops: nothing is forgotten and memory stays bounded.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from hookline.database.sqlite import DatabaseAway
from hookline.database.sqlite import engine as sqlite
from hookline.deliver.cluster.fence import Fenced
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.read.feeder import DAY_MS, Feeder
from hookline.deliver.replays import Replays
from hookline.deliver.store.batch import Batch, BlockRow, CheckpointRow, LaneRow
from hookline.deliver.store.writer import DeliverStore
from hookline.outcomes import positions
from hookline.outcomes.progress import BUCKET_SHIFT, DUPLICATE_TAG, ENTRY_BYTES, OFFSET_MASK, POSITION_SHIFT
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.deliver.cluster.late_rows import LateRows

SYNC_SECONDS = 0.25
"""How far a power cut may set back retries, failures and positions. What was delivered is also in the progress ring,
which is synchronised more often."""


class Checkpointer:
    """Gathers and commits checkpoints."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        replays: Replays,
        store: DeliverStore,
        late_rows: LateRows | None = None,
    ) -> None:
        self.version = 0
        """The connections version in force."""
        self._engine = engine
        self._feeder = feeder
        self._replays = replays
        self._store = store
        self._late_rows = late_rows
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._saved: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        """By partition: the offset that was saved."""
        self.on_fenced: Callable[[frozenset[int]], None] = lambda partitions: None
        """Called when others turn out to own partitions."""
        self._turn = asyncio.Lock()
        self.committing: Batch | None = None
        """What is being saved, until it is."""
        self._commit_done: asyncio.Future[None] | None = None
        self._ring_written = 0
        self._log = logger()
        self._failing = False
        self._unsynced = False
        self._synced_seconds = 0.0

    @property
    def has_work(self) -> bool:
        """Return whether there is something to save, or to synchronise."""
        return self.committing is not None or self._unsynced or self._is_dirty()

    @property
    def is_synced(self) -> bool:
        """Return whether a power cut takes nothing back of what was committed."""
        return not self._unsynced

    async def tick(self) -> None:
        """Save if anything changed; return when it is saved or has failed."""
        async with self._turn:
            await self._tick()

    async def save(self) -> bool:
        """Save everything as it is now; return whether it is saved."""
        await self.tick()
        if self.committing is None:
            await self.tick()
        return self.committing is None

    def take(self, partition: int, offset: int) -> None:
        """A partition was taken up at this position."""
        self._saved[partition] = self.positions[partition] = offset

    def leave(self, partition: int) -> None:
        """A partition was given up, or lost."""
        self._saved.pop(partition, None)
        self.positions.pop(partition, None)

    async def _tick(self) -> None:
        if self.committing is None:
            if not (self._is_dirty() or self._must_sync()):
                return
            self.committing = self._gather()
        batch = self.committing
        if self._commit_done is None:
            self._commit_done = asyncio.get_running_loop().run_in_executor(self._thread, self._commit, batch)
        try:
            # Shielded: a caller that is cancelled must not leave a commit behind that is then made twice.
            await asyncio.shield(self._commit_done)
        except Fenced as fenced:
            self._commit_done = None
            self._lose(batch, fenced.partitions)
            return
        except sqlite.Error as error:
            self._commit_done = None
            if not self._failing:
                needed = error.next_step if isinstance(error, DatabaseAway) else "See the log of the system."
                self._log.error("checkpoint_failed", error=str(error), next_step=f"{needed} It is tried again.")
            self._failing = True
            return
        self._failing = False
        self.committing = self._commit_done = None
        self._committed(batch)

    async def forget_below(self, partition: int, offset: int) -> None:
        """Drop outcomes of events that the journal no longer keeps; what fails is tried with the next retention."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._store.forget_below, partition, offset)
        except sqlite.Error as error:
            self._log.warning("outcomes_not_dropped", error=str(error))

    async def retries_below(self, partition: int, offset: int) -> dict[int, int]:
        """Return the first retry row below an offset, by lane; none where that cannot be read now."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._store.retries_below, partition, offset)
        except sqlite.Error:
            return {}

    async def forget_replays(self) -> None:
        """Drop the counts of replays that control no longer keeps."""
        forgotten = self._replays.forgotten
        if not forgotten:
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._store.forget_replays, forgotten)
        except sqlite.Error as error:
            self._log.warning("replays_not_dropped", error=str(error))
        else:
            self._replays.forget(forgotten)

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()

    def _lose(self, batch: Batch, partitions: frozenset[int]) -> None:
        """Others own what the batch is about in part: the rest is saved in the next turn."""
        fence = self._engine.fence
        epochs = fence.epochs if fence is not None else {}
        lost = frozenset(each for each in partitions if epochs.get(each) == batch.epochs.get(each))
        batch.leave_out(partitions.__contains__)
        if lost:
            self.on_fenced(lost)

    def _commit(self, batch: Batch) -> None:
        crash_point("deliver.before_checkpoint")
        self._store.commit(batch)
        if batch.erasures:
            batch.log_emptied = self._store.empty_log()
        self._unsynced = True
        crash_point("deliver.after_checkpoint")
        if batch.looks or batch.counts:
            with contextlib.suppress(sqlite.Error):  # the batch is written; whoever asked asks again
                self._store.look(batch)
        if self._must_sync():
            self._sync()

    def _must_sync(self) -> bool:
        return self._unsynced and self._engine.clock.monotonic() - self._synced_seconds >= SYNC_SECONDS

    def _sync(self) -> None:
        """Bound what a power cut takes back, and so what is sent again after it; off the event loop."""
        self._synced_seconds = self._engine.clock.monotonic()
        with contextlib.suppress(OSError):  # the next one may succeed, and what is at stake are repeats
            self._store.sync()
            self._unsynced = False

    def _is_dirty(self) -> bool:
        engine = self._engine
        return bool(
            engine.ring.uncheckpointed
            or engine.open_lanes
            or engine.recount
            or (self._late_rows is not None and self._late_rows.wanted)
            or not engine.batch.empty
            or any(self._saved.get(s.partition) != s.next_offset for s in self._feeder.shared.values())
        )

    def _gather(self) -> Batch:
        engine = self._engine
        batch, engine.batch = engine.batch, Batch()
        self._ring_written = engine.ring.written
        results = engine.ring.since_checkpoint()
        self._add_blocks(batch, results, engine.clock.now_ms())
        engine.ended = {number: lane for number, lane in engine.ended.items() if lane.in_flight}
        batch.today = engine.clock.steady_ms() // DAY_MS
        self._replays.gather(batch, results)
        if self._late_rows is not None:
            self._late_rows.ask(batch)
        batch.counts = {lane.number for lane in engine.recount}
        for shared in self._feeder.shared.values():
            self._add_positions(batch, shared)
        if engine.fence is not None:
            batch.epochs = dict(engine.fence.epochs)
            # What was in flight when a partition went is its new owner's to find out.
            batch.leave_out(lambda partition: partition not in batch.epochs)
        engine.open_lanes = {lane for lane in engine.open_lanes if lane.busy and not lane.closed}
        return batch

    def _add_positions(self, batch: Batch, shared: SharedReader) -> None:
        partition, open_positions = shared.partition, {}
        for lane in self._engine.open_lanes:
            if lane.closed:
                continue
            undone = positions.to_ranges(lane.undone(partition))
            if lane.cursors[partition].attached and not lane.backfills and lane.catch_up_rate is None:
                if undone:
                    open_positions[lane.number] = undone
                if partition in lane.rows:
                    lane.note_row(partition, False)
                    batch.lanes_gone.add((lane.number, partition))
            else:
                lane.note_row(partition, True)
                batch.lanes[lane.number, partition] = _lane_row(lane, shared, undone)
        blob = positions.encode(positions.SavedPositions(open_positions))
        batch.checkpoints.append(CheckpointRow(partition, shared.next_offset, self.version, blob))
        self._saved[partition] = shared.next_offset

    def _add_blocks(self, batch: Batch, entries: bytes, now_ms: int) -> None:
        """One block of results per bucket of offsets; nearly always there is just one."""
        if not entries:
            return
        found = memoryview(entries).cast("Q")[:: ENTRY_BYTES // 8].tolist()
        first, last = min(found), max(found)
        if first >> BUCKET_SHIFT == last >> BUCKET_SHIFT:
            self._add_block(batch, _block(first, last, now_ms, entries))
            return
        buckets: dict[int, list[int]] = {}
        for index, position in enumerate(found):
            buckets.setdefault(position >> BUCKET_SHIFT, []).append(index)
        for indexes in buckets.values():
            block = b"".join([entries[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES] for at in indexes])
            positions_in = [found[at] for at in indexes]
            self._add_block(batch, _block(min(positions_in), max(positions_in), now_ms, block))

    def _add_block(self, batch: Batch, block: BlockRow) -> None:
        batch.blocks.append(block)
        engine = self._engine
        for number, count in engine.lane_counts.add_results(block.entries).items():
            lane = engine.lanes.get(number) or engine.ended.get(number)
            if lane is not None and not lane.is_replay:
                key = (lane.destination.id, block.partition)
                batch.delivered[key] = batch.delivered.get(key, 0) + count

    def _committed(self, batch: Batch) -> None:
        engine = self._engine
        engine.ring.checkpointed = self._ring_written
        engine.counters.checkpoints += 1
        for saved in batch.checkpoints:
            if saved.partition in self.positions:
                self.positions[saved.partition] = saved.next_offset
        for (_, source, _), (events, filtered) in batch.usage.items():
            engine.counters.events[source] += events
            engine.counters.filtered[source] += filtered
            of_slot = engine.counters.usage.setdefault(source, [0, 0])
            of_slot[0] += events
            of_slot[1] += filtered
        if self._late_rows is not None:
            self._late_rows.take(batch)
        for number, partition, offset in [*batch.retries, *batch.settled]:
            key = (number, partition, offset)
            lane = engine.lanes.get(number)
            if lane is not None and key not in engine.batch.retries and key not in engine.batch.settled:
                lane.row_saved(partition << POSITION_SHIFT | offset)
        for row in batch.retries.values():
            lane = engine.lanes.get(row.lane)
            if lane is not None:  # it may have been due already, and was not found before it was saved
                lane.row_due(row.due_ms)
        to_come = engine.batch.rewritten if engine.stale else set()
        engine.stale = {lane for lane in engine.stale if lane.number in to_come}
        for due_ms, _, number, _ in batch.reordered:
            lane = engine.lanes.get(number)
            if lane is not None:  # until it was saved, what waited for its turn was not due
                lane.row_due(due_ms)
        for action in batch.actions:
            lane = engine.lanes.get(action.tried_lane) if action.tried_lane is not None else None
            if lane is not None:
                lane.look_at_rows(0)
                lane.try_now()  # with an open breaker it is a wish for a probe
        to_requeue = {requeue.lane for requeue in engine.batch.requeues}
        for number, count in batch.requeued.items():
            lane = engine.lanes.get(number)
            if lane is not None:
                lane.requeue(number in to_requeue)
            if lane is not None and count:
                engine.lane_counts.of(number).not_delivered -= count
                lane.count_rows(lane.retry_count + count)
                lane.reorder_rows()
                lane.look_at_rows(engine.clock.steady_ms())
                engine.retrying.add(lane)
        self._recount(batch)
        engine.checkpointed()

    def _recount(self, batch: Batch) -> None:
        """Take how many rows lanes have left, as soon as no change to them is under way."""
        engine = self._engine
        if not batch.counted or (engine.fence is not None and engine.fence.epochs != batch.epochs):
            return  # partitions came or went since: it is counted again
        changing = {number for number, _, _ in [*engine.batch.retries, *engine.batch.settled]}
        for lane in [each for each in engine.recount if each.number in batch.counted]:
            strange = any(position >> POSITION_SHIFT not in self._feeder.shared for position in lane.in_flight)
            if not strange and lane.number not in changing and not lane.requeueing:
                lane.count_rows(batch.counted[lane.number])
                engine.recount.discard(lane)


def _block(first: int, last: int, now_ms: int, entries: bytes) -> BlockRow:
    times = memoryview(entries).cast("Q")[1 :: ENTRY_BYTES // 8]
    newest_ms = max(times)
    if newest_ms > now_ms:  # the clock was set back; or it is no time, but the position of a repeat
        tags = memoryview(entries).cast("I")[4 :: ENTRY_BYTES // 4].tolist()
        newest_ms = max([at for at, tag in zip(times.tolist(), tags, strict=True) if tag != DUPLICATE_TAG], default=0)
    at_ms = max(now_ms, newest_ms)
    return BlockRow(first >> POSITION_SHIFT, first & OFFSET_MASK, last & OFFSET_MASK, at_ms, entries)


def _lane_row(lane: Lane, shared: SharedReader, undone: positions.Ranges) -> LaneRow:
    partition = shared.partition
    cursor = lane.cursors[partition]
    next_offset = shared.next_offset if cursor.attached else cursor.next_offset
    backfills = tuple(
        positions.SavedBackfill(backfill.next_offset, backfill.end or 0, backfill.source or "")
        for backfill in lane.backfills
        if backfill.partition == partition
    )
    paused_ms = 0 if lane.start.paused is None else lane.start.paused.began_ms
    ahead = [each & OFFSET_MASK for each in lane.already_delivered if each >> POSITION_SHIFT == partition]
    done = positions.to_ranges(sorted(ahead))
    catches_up = lane.catch_up_rate is not None
    blob = positions.encode(positions.SavedCursor(cursor.attached, undone, backfills, paused_ms, done, catches_up))
    return LaneRow(lane.number, partition, next_offset, lane.state, blob)
