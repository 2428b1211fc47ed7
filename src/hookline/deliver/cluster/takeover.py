"""Take a partition, its epoch raised before anything is read of it, and put it to work in an engine that runs.

Claiming waits for the database and for brokers, and may read much, so it runs in a thread; ``PartitionTakeover`` puts
the result to work on the event loop.

The connections may have changed since the owner's last checkpoint. What ``LaneSet.apply`` does for all partitions as a
version comes is done here for the one, from the version of the checkpoint to the one in force.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hookline.connections.model import Destination, LaneConfig, Snapshot
from hookline.connections.state import Feed
from hookline.database.connect import connect
from hookline.database.connection import transaction
from hookline.database.location import location_of
from hookline.database.sqlite import DatabaseError
from hookline.deliver.cluster.fence import raise_epoch
from hookline.deliver.cluster.shared_ring import SharedIndexStore, delivered, settled
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane, urls_of
from hookline.deliver.lanes.lane_set import LANE_ENDED, LaneSet, fresh_cursor
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.catch_up import SharedReader
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.recovery import Recovery
from hookline.deliver.replays import Replays
from hookline.deliver.store.batch import FilterRow, RangeRow
from hookline.deliver.store.retry_rows import bring_near
from hookline.index.duplicates import Duplicates
from hookline.journal.damaged import Short, note_if_given_again
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import JournalAway
from hookline.journal.record import Record
from hookline.outcomes import positions
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.outcomes.reader import DeliverReader, RetryBacklog, SavedLane
from hookline.route.filters import keeps_away, rules_of
from hookline.settings import Settings


class Claim(NamedTuple):
    """A partition that was taken, and its state; ``records`` are what lanes had taken and not finished, by position."""

    partition: int
    epoch: int
    next_offset: int
    end: int
    then: Snapshot
    """The connections that were in force at the last checkpoint."""
    open_positions: Mapping[int, positions.Ranges]
    lanes: Mapping[int, SavedLane]
    backlogs: Mapping[int, RetryBacklog]
    records: Mapping[int, Record]
    duplicates: Duplicates
    delivered: Mapping[int, Mapping[int, bytes]]
    """What processes delivered that no checkpoint may tell of: entries of their rings, by lane and position."""
    settled: Sequence[tuple[int, int]]
    """Lane and position of retry rows whose event is among them."""
    changed: Mapping[int, str]
    """The destination of each lane, by number, that has changed or ended since then, or was opened and ended."""


class Claims:
    """Takes partitions for one worker, one after another; for one thread."""

    def __init__(self, settings: Settings, shelf: SharedIndexStore, steady_ms: Callable[[], int]) -> None:
        location = location_of(settings, "deliver")
        # Containers on one host's network may have both its name and their process id in common.
        self.worker = f"{socket.gethostname()}-{secrets.token_hex(3)}:{os.getpid()}"
        self._settings = settings
        self._steady_ms = steady_ms
        self._shelf = shelf
        self._connection = connect(location, synchronous="FULL")
        self._saved = DeliverReader.on(self._connection)
        self._feed = Feed(location_of(settings, "control"))
        self._backend = journal_in(settings.data_path / FOLDER)
        self._journal = self._backend.reader()
        self._short: dict[int, Short] = {}

    def take(self, partition: int, is_wanted: Callable[[], bool]) -> Claim | None:
        """Become a partition's owner and read its state; None when by then it is not wanted any more.

        Raise JournalAway and the database's errors as they come. The epoch is raised first: what is read afterwards
        nobody else changes any more.
        """
        if not is_wanted():
            return None
        epoch = self._raise(partition)
        self._learn_erased(partition)
        start, end = self._journal.start(partition), self._journal.end(partition)
        saved = self._saved.checkpoint(partition)
        next_offset = saved.next_offset if saved else start
        if next_offset > end:
            self._short.setdefault(partition, Short(end, next_offset, self._steady_ms()))
            # Nothing is passed over and nothing read twice by itself: who leads it now may be about to catch up.
            raise JournalAway(f"partition {partition} ends at {end}, before {next_offset}, which was read before")
        self._note_lost(partition, next_offset)
        version = saved.version if saved else 0
        then = self._feed.at(version)
        if then.version != version:
            raise DatabaseError(f"connections version {version} is needed to go on and cannot be read yet")
        open_positions = positions.decode_offset_sets(saved.blob).lanes if saved else {}
        lanes = {row.lane: row for row in self._saved.lanes(partition)}
        undone = {offset for ranges in open_positions.values() for offset in positions.to_offsets(ranges)}
        for row in lanes.values():
            undone.update(positions.to_offsets(positions.decode_cursor(row.blob).undone))
        backlogs = self._saved.backlogs(partition)
        known = delivered(self._connection, partition)
        return Claim(
            partition,
            epoch,
            next_offset,
            end,
            then,
            open_positions,
            lanes,
            backlogs,
            {
                partition << POSITION_SHIFT | offset: record
                for offset, record in self._records(partition, undone).items()
            },
            self._index(partition, epoch, start, next_offset),
            known,
            settled(self._saved, partition, known, backlogs),
            self._feed.lanes_after(version) if known else {},
        )

    def forget(self, partitions: Iterable[int]) -> None:
        """Keep nothing of partitions that are not wanted any more: where they end is their next owners' to see."""
        for partition in partitions:
            self._short.pop(partition, None)

    def close(self) -> None:
        """Let go of connections."""
        self._connection.close()
        self._feed.close()
        self._journal.close()

    def _raise(self, partition: int) -> int:
        with transaction(self._connection):
            epoch = raise_epoch(self._connection, partition, self.worker, int(time.time() * 1000))
            now_ms = self._steady_ms()
            bring_near(self._connection, now_ms, now_ms + int(self._settings.deliver.retry_window * 1000), partition)
        return epoch

    def _note_lost(self, partition: int, next_offset: int) -> None:
        short = self._short.get(partition)
        if short is not None:
            short = short._replace(next_offset=min(short.next_offset, next_offset))
            note_if_given_again(self._settings.data_path / FOLDER, self._journal, partition, short)
            del self._short[partition]

    def _learn_erased(self, partition: int) -> None:
        """Blank what was erased while this data folder had no part in it."""
        for its, offsets in self._saved.erased_offsets(partition):
            if its == partition:
                self._backend.note_erased(partition, offsets)

    def _records(self, partition: int, offsets: set[int]) -> dict[int, Record]:
        found: dict[int, Record] = {}
        for offset in sorted(offsets):
            record = self._journal.get(partition, offset)
            if record is not None and not record.erased:
                found[offset] = record
        return found

    def _index(self, partition: int, epoch: int, start: int, next_offset: int) -> Duplicates:
        folder = self._settings.data_path / "index" / str(partition)
        self._shelf.fetch(partition, folder, start)
        duplicates = Duplicates(
            folder,
            self._journal,
            partition,
            window_seconds=self._settings.dedup.window,
            bytes_max=self._settings.dedup.bytes,
            on_sealed=lambda start: self._shelf.keep(partition, epoch, folder, start),
        )
        duplicates.read_up_to(next_offset)
        return duplicates


class PartitionTakeover:
    """Takes partitions up; all on the event loop, in one go each."""

    def __init__(
        self, engine: Dispatcher, feeder: Feeder, lane_set: LaneSet, replays: Replays, recovery: Recovery
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._lane_set = lane_set
        self._replays = replays
        self._recovery = recovery

    def take_over(self, claim: Claim, shared: SharedReader, version: int) -> None:
        """Have every lane go on in the partition; ``version`` of the connections is in force."""
        then = {
            claim.then.lanes[each.id].number: (each, claim.then.lanes[each.id])
            for each in claim.then.destinations
            if each.id in claim.then.lanes
        }
        self._feeder.shared[claim.partition] = shared
        # Where a replay has ended its rows are gone: a lane that is open still would begin anew here.
        self._replays.close_ended()
        self._recovery.records = claim.records
        self._lane_set.delivered = self._recovery.learn(claim.partition, claim.delivered)
        for lane in list(self._engine.lanes.values()):
            if isinstance(lane, ReplayLane):
                row = claim.lanes.get(lane.number)
                at = None if row is None else row.next_offset
                lane.enter(self._replays.cursor(lane.replay, claim.partition, at))
            else:
                lane.enter(self._cursor(lane, claim, shared, lane.number in then))
            self._restore(lane, claim)
            if isinstance(lane, ReplayLane):
                self._follow_delivery(lane, claim.partition, then.get(lane.live.number))
            else:
                self._follow_changes(lane, claim.partition, then.get(lane.number))
                self._join(lane, shared)
            if lane.number in claim.backlogs:
                self._lane_set.add_rows(lane, claim.backlogs[lane.number])
        for number, position in claim.settled:
            if number in self._engine.lanes:
                self._recovery.settle(self._engine.lanes[number], position)
        self._replays.keep_positions(claim.lanes.values())
        for number in then.keys() - self._engine.lanes.keys():
            self._end(claim, *then[number])
        owners = {**claim.changed, **{number: destination.id for number, (destination, _) in then.items()}}
        for number in owners.keys() - self._engine.lanes.keys():
            self._recovery.save_answers(claim.partition, number, owners[number])
        if claim.then.version != version:
            self._engine.batch.versions.append((claim.partition, version, claim.next_offset))
        self._recovery.note_recovered((claim.partition,))
        self._recovery.records = None
        self._recovery.forget(claim.partition)
        self._lane_set.delivered = {}
        for lane in list(self._engine.lanes.values()):
            self._feeder.room(lane)
            self._engine.dispatch(lane)

    def _cursor(self, lane: Lane, claim: Claim, shared: SharedReader, was_there: bool) -> LaneCursor:
        row = claim.lanes.get(lane.number)
        if row is not None:
            cursor = LaneCursor(claim.partition, row.next_offset, positions.decode_cursor(row.blob).attached)
        elif was_there:
            cursor = LaneCursor(claim.partition, shared.next_offset, attached=True)
        else:
            cursor = fresh_cursor(lane.start, shared)
        if lane.start.until is not None:
            cursor.end_at(lane.start.until.get(claim.partition, 0))
        return cursor

    def _restore(self, lane: Lane, claim: Claim) -> None:
        row = claim.lanes.get(lane.number)
        undone = positions.decode_cursor(row.blob).undone if row else claim.open_positions.get(lane.number, ())
        self._recovery.restore_lane(lane, claim.partition, row, undone)
        self._engine.open_lanes.add(lane)

    def _follow_changes(self, lane: Lane, partition: int, before: tuple[Destination, LaneConfig] | None) -> None:
        if before is None:
            if keeps_away(lane.destination):
                self._lane_set.note_filters(lane, {partition: 0}, at_ms=0)
            return
        destination, start = before
        if lane.start.has_resumed(start):
            lane.catch_up()  # a pause ended while nobody owned the partition
            self._engine.catching_up.add(lane)
        self._lane_set.add_backfills(lane, partition, lane.start, start.sources.keys())
        self._follow_delivery(lane, partition, before)
        if rules_of(destination) != rules_of(lane.destination):
            cursor = lane.cursors[partition]
            position = self._feeder.shared[partition].next_offset if cursor.attached else cursor.next_offset
            self._lane_set.note_filters(lane, {partition: position})

    def _follow_delivery(self, lane: Lane, partition: int, before: tuple[Destination, LaneConfig] | None) -> None:
        if before is None:
            return
        self._engine.failures.move_urls(lane, urls_of(before[0]), partition)
        if before[0].delivery.order != lane.options.order:
            self._engine.failures.reorder_rows(lane)

    def _join(self, lane: Lane, shared: SharedReader) -> None:
        cursor = lane.cursors[shared.partition]
        if not cursor.attached:
            return
        if lane.halted or lane.drains or not lane.targets:
            cursor.detach(shared.next_offset)
            shared.full.discard(lane)
        else:
            shared.attach(lane)

    def _end(self, claim: Claim, destination: Destination, start: LaneConfig) -> None:
        """The lane was ended while nobody owned the partition: what waited there is discarded, on the record."""
        row = claim.lanes.get(start.number)
        position, undone = claim.next_offset, claim.open_positions.get(start.number, ())
        backfills: Iterable[positions.SavedBackfill] = ()
        if row is not None:
            cursor = positions.decode_cursor(row.blob)
            undone, backfills = cursor.undone, cursor.backfills
            if not cursor.attached:  # where it is, it stands where the partition does
                position = row.next_offset
        end = claim.end if start.until is None else start.until.get(claim.partition, claim.end)
        first = min((position, *undone[:1], *(each.next_offset for each in backfills)))
        now_ms = self._engine.clock.now_ms()
        batch = self._engine.batch
        if keeps_away(destination):
            batch.filters.append(FilterRow(start.number, claim.partition, position, 0, now_ms))
        if first < end or start.number in claim.backlogs:
            batch.ranges.append(
                RangeRow(
                    start.number,
                    destination.id,
                    claim.partition,
                    first,
                    end - 1,
                    "discarded",
                    now_ms,
                    LANE_ENDED,
                    with_retries=True,
                )
            )
        batch.lanes_ended.add(start.number)
