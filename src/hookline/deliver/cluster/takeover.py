"""Putting a claimed partition to work in an engine that runs: each lane goes on in it where its last owner was.

The connections may have changed since the owner's last checkpoint. What ``LaneSet.apply`` does for all partitions as a
version comes is done here for the one, from the version of the checkpoint to the one in force.
"""

from __future__ import annotations

from hookline.connections.model import Destination, LaneConfig
from hookline.deliver.cluster.claims import Claim
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.lanes.lane_set import LANE_ENDED, LaneSet, fresh_cursor
from hookline.deliver.lanes.replay_lane import ReplayLane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.read.shared_reader import SharedReader
from hookline.deliver.recovery import Recovery
from hookline.deliver.replays import Replays
from hookline.deliver.store.batch import FilterRow, RangeRow
from hookline.outcomes import places


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
        self._recovery.records = claim.records
        self._recovery.learn(claim.delivered)
        for lane in list(self._engine.lanes.values()):
            if isinstance(lane, ReplayLane):
                row = claim.lanes.get(lane.number)
                at = None if row is None else row.next_offset
                lane.enter(self._replays.cursor(lane.replay, claim.partition, at))
            else:
                lane.enter(self._cursor(lane, claim, shared, lane.number in then))
            self._restore(lane, claim)
            if not lane.is_replay:
                self._follow_changes(lane, claim.partition, then.get(lane.number))
                self._join(lane, shared)
            self._add_backlog(lane, claim)
        for number, place in claim.settled:
            if number in self._engine.lanes:
                self._recovery.settle(self._engine.lanes[number], place)
        self._replays.keep_places(claim.lanes.values())
        for number in then.keys() - self._engine.lanes.keys():
            self._end(claim, *then[number])
        if claim.then.version != version:
            self._engine.batch.versions.append((claim.partition, version, claim.next_offset))
        self._recovery.note_recovered()
        self._recovery.records = None
        self._recovery.forget(claim.partition)
        for lane in list(self._engine.lanes.values()):
            self._feeder.room(lane)
            self._engine.dispatch(lane)

    def _cursor(self, lane: Lane, claim: Claim, shared: SharedReader, was_there: bool) -> LaneCursor:
        row = claim.lanes.get(lane.number)
        if row is not None:
            cursor = LaneCursor(claim.partition, row.next_offset, places.decode_cursor(row.blob).attached)
        elif was_there:
            cursor = LaneCursor(claim.partition, shared.next_offset, attached=True)
        else:
            cursor = fresh_cursor(lane.start, shared)
        if lane.start.until is not None:
            cursor.end_at(lane.start.until.get(claim.partition, 0))
        return cursor

    def _restore(self, lane: Lane, claim: Claim) -> None:
        row = claim.lanes.get(lane.number)
        undone = places.decode_cursor(row.blob).undone if row else claim.open_places.get(lane.number, ())
        self._recovery.restore_lane(lane, claim.partition, row, undone)
        self._engine.open_lanes.add(lane)

    def _follow_changes(self, lane: Lane, partition: int, before: tuple[Destination, LaneConfig] | None) -> None:
        if before is None:
            if lane.destination.filters:
                self._lane_set.note_filters(lane, {partition: 0}, at_ms=0)
            return
        destination, start = before
        self._lane_set.add_backfills(lane, partition, lane.start, start.sources.keys())
        if destination.delivery.order != lane.destination.delivery.order:
            now_ms = self._engine.clock.steady_ms()
            self._engine.batch.unorder(lane.number, now_ms)
            lane.look_at_rows(now_ms)
        if destination.filters != lane.destination.filters:
            cursor = lane.cursors[partition]
            place = self._feeder.shared[partition].next_offset if cursor.attached else cursor.next_offset
            self._lane_set.note_filters(lane, {partition: place})

    def _join(self, lane: Lane, shared: SharedReader) -> None:
        cursor = lane.cursors[shared.partition]
        if not cursor.attached:
            return
        if lane.halted or lane.drains or not lane.targets:
            cursor.detach(shared.next_offset)
            shared.full.discard(lane)
        else:
            shared.attach(lane)

    def _add_backlog(self, lane: Lane, claim: Claim) -> None:
        backlog = claim.backlogs.get(lane.number)
        if backlog is not None:
            lane.count_rows(lane.retry_count + backlog.rows)
            lane.row_due(backlog.due_ms)
            lane.reorder_rows()
            self._engine.retrying.add(lane)

    def _end(self, claim: Claim, destination: Destination, start: LaneConfig) -> None:
        """The lane was ended while nobody owned the partition: what waited there is discarded, on the record."""
        row = claim.lanes.get(start.number)
        undone = places.decode_cursor(row.blob).undone if row else claim.open_places.get(start.number, ())
        place = row.next_offset if row else claim.next_offset
        end = claim.end if start.until is None else start.until.get(claim.partition, claim.end)
        first = 0 if start.number in claim.backlogs else min((place, *undone[:1]))
        now_ms = self._engine.clock.now_ms()
        batch = self._engine.batch
        if destination.filters:
            batch.filters.append(FilterRow(start.number, claim.partition, place, 0, now_ms))
        if first < end:
            batch.ranges.append(
                RangeRow(start.number, destination.id, claim.partition, first, end - 1, "discarded", now_ms, LANE_ENDED)
            )
        batch.lanes_ended.add(start.number)
