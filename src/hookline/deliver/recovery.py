"""Bringing the lanes back after a restart: the last checkpoint, plus what the progress ring knows since.

What the ring says was done is not sent again; what was queued or in flight is read from the journal and sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hookline.connections.model import Snapshot
from hookline.connections.state import Feed
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.breaker import OPEN_BEFORE
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.lane_set import LaneSet
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.read.losses import note_missing
from hookline.deliver.replays import Replays
from hookline.deliver.retry.scheduler import load_order
from hookline.deliver.store.writer import DeliverStore
from hookline.journal.port import Reader
from hookline.journal.record import Record
from hookline.outcomes import positions
from hookline.outcomes.progress import (
    ENTRY_BYTES,
    OFFSET_MASK,
    POSITION_SHIFT,
    deliveries,
    newest_entry,
)
from hookline.outcomes.reader import RetryBacklog, SavedLane
from hookline.telemetry.log import logger


class Recovery:
    """Restores the lanes of the version that was in force at the last checkpoint."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        lane_set: LaneSet,
        replays: Replays,
        store: DeliverStore,
        journal: Reader,
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._lane_set = lane_set
        self._replays = replays
        self._store = store
        self._journal = journal
        self.records: Mapping[int, Record] | None = None
        """What lanes had taken and not finished, by position, where it was read before."""
        self._entries: dict[int, dict[int, bytes]] = {}

    def restore(self, snapshot: Snapshot) -> None:
        """Open every lane that existed then, where it stood. The shared readers are at their saved positions."""
        self.read_ring()
        for partition in self._feeder.shared:
            self._forget_expired(partition)
        rows = {(row.lane, row.partition): row for row in self._store.reader.lanes()}
        backlogs = self._store.reader.backlogs()
        open_positions: dict[int, dict[int, positions.Ranges]] = {}
        for partition in self._feeder.shared:
            saved = self._store.reader.checkpoint(partition)
            open_positions[partition] = positions.decode_offset_sets(saved.blob).lanes if saved else {}
        for destination in snapshot.destinations:
            start = snapshot.lanes.get(destination.id)
            if start is None:
                continue
            mine = {p: rows.get((start.number, p)) for p in self._feeder.shared}
            lane = self._lane_set.open(destination, start, [self._cursor(p, row) for p, row in mine.items()])
            for partition, row in mine.items():
                undone = (
                    positions.decode_cursor(row.blob).undone if row else open_positions[partition].get(lane.number, ())
                )
                self.restore_lane(lane, partition, row, undone)
            self._restore_retries(lane, backlogs.get(lane.number))
            if not any(row is not None and positions.decode_cursor(row.blob).catches_up for row in mine.values()):
                lane.end_catch_up()  # it stays written down, but is of a pause that was made up for long ago
        offsets = {key: row.next_offset for key, row in rows.items()}
        for replay in self._replays.reopen(snapshot, offsets, self._entries.keys()):
            for partition in self._feeder.shared:
                row = rows.get((replay.number, partition))
                self.restore_lane(replay, partition, row, positions.decode_cursor(row.blob).undone if row else ())
            self._restore_retries(replay, backlogs.get(replay.number))
        self._replays.recover_last_answers(self._entries)
        if self._entries.keys() - self._engine.lanes.keys():
            self._save_ended(self._store.reader.lanes_discarded())
        self._lane_set.delivered = self._entries
        self._lane_set.on_skipped = self._note_skipped
        self.note_recovered(self._feeder.shared)

    def _cursor(self, partition: int, row: SavedLane | None) -> LaneCursor:
        if row is None:
            return LaneCursor(partition, self._feeder.shared[partition].next_offset, attached=True)
        return LaneCursor(partition, row.next_offset, positions.decode_cursor(row.blob).attached)

    def restore_lane(self, lane: Lane, partition: int, row: SavedLane | None, undone: positions.Ranges) -> None:
        """Bring a lane back in a partition in which it has its cursor: what it had taken, and did not finish."""
        shared = self._feeder.shared[partition]
        cursor = lane.cursors[partition]
        done = self._entries.get(lane.number, {})
        if row is not None:
            lane.note_row(partition, True)
            saved = positions.decode_cursor(row.blob)
            lane.skip_done(partition << POSITION_SHIFT | each for each in positions.to_offsets(saved.done))
            for backfill in saved.backfills:
                lane.backfill(LaneCursor(partition, backfill.next_offset, False, backfill.end, backfill.source))
            if saved.paused_ms:
                self._lane_set.leave_out_pause(lane, partition, saved.paused_ms)
            if saved.catches_up and lane.start.catch_up_rate is not None:
                lane.catch_up()
                self._engine.catching_up.add(lane)
            # Where the lane is at work in other partitions already, that tells more.
            if row.state in ("open", "gone") and not self._is_at_work(lane, partition):
                lane.restore(OPEN_BEFORE, gone=row.state == "gone")
                self._engine.probing.add(lane)
                self._feeder.detach(lane)
        backfills = [backfill.next_offset for backfill in lane.backfills if backfill.partition == partition]
        first = shared.next_offset if cursor.attached else cursor.next_offset
        first = min([first, *backfills])
        ahead = {
            position for position in done if position >> POSITION_SHIFT == partition and position & OFFSET_MASK >= first
        }
        lane.skip_done(ahead)
        missing = [
            each for each in positions.to_offsets(undone) if not self._restore_undone(lane, partition, each, done)
        ]
        if missing:
            note_missing(self._engine, lane, partition, positions.to_ranges(missing))
        if lane.measure() and cursor.attached:
            shared.full.add(lane)

    def _is_at_work(self, lane: Lane, partition: int) -> bool:
        return self.records is not None and lane.cursors.keys() != {partition}

    def _restore_undone(self, lane: Lane, partition: int, offset: int, done: dict[int, bytes]) -> bool:
        """Return whether the event is there, or was erased, or is no longer kept, or was sent."""
        position = partition << POSITION_SHIFT | offset
        if position in done:
            return True
        record = self._journal.get(partition, offset) if self.records is None else self.records.get(position)
        if record is None:
            return self.records is not None or offset < self._journal.start(partition)
        if record.erased:
            return True
        event = Event(position, record)
        if lane.halted:
            self._engine.failures.give_back_untried(lane, event)
            return True
        if lane.order is not None:  # before its turn to be sent comes, or a later one of its user would be called
            lane.order.note(position, record.user_key)
        lane.put(event, out_of_order=True)
        return True

    def _restore_retries(self, lane: Lane, backlog: RetryBacklog | None) -> None:
        if backlog is None:
            return
        lane.count_rows(lane.retry_count + backlog.rows)
        lane.look_at_rows(backlog.due_ms)
        self._engine.retrying.add(lane)
        done = self._entries.get(lane.number, {})
        for row in self._store.rows.oldest(lane.number, backlog.rows) if done else ():
            position = row.partition << POSITION_SHIFT | row.offset
            if position in done:
                self.settle(lane, position)
        load_order(lane, self._store, self._journal)

    def save_unseen(self, feed: Feed, then: int, now: Snapshot) -> None:
        """Save the answers of lanes that came and went after version ``then``, that of the last checkpoint. ``now`` has
        the lanes that are yet to be opened: those find their own. Raise DatabaseAway."""
        missing = self._entries.keys() - self._engine.lanes.keys() - {lane.number for lane in now.lanes.values()}
        if missing:
            ended = feed.lanes_after(then)
            self._save_ended({number: ended[number] for number in missing & ended.keys()})

    def _save_ended(self, ended: Mapping[int, str]) -> None:
        """Save the answers that no checkpoint has of lanes, each with its destination, that are not open."""
        for number in self._entries.keys() & ended.keys() - self._engine.lanes.keys():
            for partition in self._feeder.shared:
                self.save_answers(partition, number, ended[number])

    def save_answers(self, partition: int, number: int, destination: str) -> None:
        """Save the answers that a lane which has ended had in a partition, as far as they were not saved yet."""
        done = self._entries.get(number, {}).items()
        count = self._note(partition, [entry for at, entry in done if at >> POSITION_SHIFT == partition])
        if count and number not in self._engine.ended:  # the next checkpoint counts the results of those
            key = (destination, partition)
            self._engine.batch.delivered[key] = self._engine.batch.delivered.get(key, 0) + count

    def settle(self, lane: Lane, position: int) -> None:
        """Close the retry row of an event that was delivered."""
        partition = position >> POSITION_SHIFT
        lane.close_row(position)
        self._engine.batch.settle(lane.number, partition, position & OFFSET_MASK)

    def read_ring(self) -> None:
        """Learn what an earlier process of this data folder delivered."""
        ring = self._engine.ring
        everything = ring.everything()
        for lane, position, entry in deliveries(everything):
            self._entries.setdefault(lane, {})[position] = entry
        ring.resume_after(newest_entry(everything))

    def learn(self, partition: int, delivered: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """Do not send again what others delivered of a partition, entries by lane and position; return all that is
        known."""
        for lane, entries in delivered.items():
            self._entries.setdefault(lane, {}).update(entries)
        self._forget_expired(partition)
        return self._entries

    def _forget_expired(self, partition: int) -> None:
        # What was known of events that are no longer kept went with them: it would be taken for new, and counted.
        self.forget(partition, self._journal.start(partition))

    def forget(self, partition: int, below: int = 1 << POSITION_SHIFT) -> None:
        """Forget what the ring knew of a partition, or of its offsets below one: it is in the database by now."""
        first = partition << POSITION_SHIFT
        for done in self._entries.values():
            for position in [position for position in done if first <= position < first + below]:
                del done[position]

    def note_recovered(self, partitions: Iterable[int]) -> None:
        """Results that no checkpoint has saved yet: write them to the ring once more, the next one saves them. Among
        them are some of events that the lane, by what was saved, had passed: filters that changed let it come back."""
        lanes = self._entries.keys() & self._engine.lanes.keys()
        done = [each for number in sorted(lanes) for each in self._entries[number].items()]
        total = 0
        for partition in partitions:
            total += self._note(partition, [entry for at, entry in done if at >> POSITION_SHIFT == partition])
        if total:
            logger().info("progress_recovered", deliveries=total)

    def _note(self, partition: int, entries: Iterable[bytes]) -> int:
        """Write those to the ring again that no checkpoint has; return how many."""
        engine = self._engine
        room = engine.limits.ring_entries - engine.ring.uncheckpointed
        room -= engine.limits.ring_margin if engine.in_flight else 0  # the rest is for what comes of it
        # Where a lane stands still, a restart finds again what an earlier one found: that is saved and counted.
        found = list(entries)
        saved = self._store.reader.attempts.saved(partition, found)
        left = [each for each in found if each not in saved][: max(0, room)]
        for entry in left:
            engine.recover_result(entry)
        return len(left)

    def _note_skipped(self, partition: int, entries: Iterable[bytes]) -> None:
        """Note what a lane passes over, but for what was noted already: several of its stretches may come by it."""
        noted = self._engine.ring.since_checkpoint()
        known = {noted[at : at + ENTRY_BYTES] for at in range(0, len(noted), ENTRY_BYTES)}
        self._note(partition, [each for each in entries if each not in known])
