"""Catch-up reading: fills detached lanes from where they stand, until they have come to the shared reader again.

It takes one group at a time, in turn for the lanes that want it; lanes at the same place share the read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.intake import Intake
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.losses import RETENTION_PASSED, Loss, loss_by, record_loss
from hookline.deliver.read.shared_reader import SharedReader
from hookline.journal.port import Group, JournalAway, JournalCorrupt, JournalFetching, Lookups, OffsetExpired
from hookline.journal.record import Record
from hookline.outcomes.progress import PLACE_SHIFT
from hookline.telemetry.crashpoints import crash_point


class CatchUp:
    """Reads for detached lanes, never past the shared reader of a partition."""

    def __init__(self, engine: Dispatcher, journal: Lookups, shared: Mapping[int, SharedReader]) -> None:
        self._engine = engine
        self._probe_records_max = engine.limits.probe_records_max
        self._cursors_max = engine.limits.catch_up_cursors_max
        self._journal = journal
        self._shared = shared
        self._hungry: deque[Lane] = deque()
        self._waiting: set[Lane] = set()
        self._cursors: dict[tuple[int, int], Iterator[Group]] = {}
        self._is_away = False

    def want(self, lane: Lane) -> None:
        """A detached lane has room for more; idempotent until its turn."""
        if lane not in self._waiting:
            self._waiting.add(lane)
            self._hungry.append(lane)

    def leave(self, partition: int) -> None:
        """Keep no open reads of a partition."""
        for key in [key for key in self._cursors if key[0] == partition]:
            del self._cursors[key]

    @property
    def waits(self) -> bool:
        """Return whether lanes wait for a journal that could not be read just now."""
        return self._is_away

    def take_one(self, lane: Lane) -> Event | None:
        """Return the next event of a detached lane alone, for a probe; None also when only events of others, or
        that its filters stop, were found so far (``is_behind`` tells): looking at a whole backlog would hold up
        everybody."""
        left = self._probe_records_max
        for intake in lane.detached:
            while left > 0:
                group = self._read(intake)
                if group is None:
                    break
                left -= len(group.records)
                repeated = self._repeated(group, intake.partition)
                for index, record in enumerate(group.records):
                    offset = group.first_offset + index
                    intake.advance(offset + 1)
                    self._engine.open_lanes.add(lane)
                    if (
                        not _is_deliverable(record)
                        or offset in repeated
                        or not self._wants(lane, intake, record, offset)
                    ):
                        continue
                    place = intake.partition << PLACE_SHIFT | offset
                    if lane.was_done(place):
                        continue
                    return Event(place, record)
                self._after_catch_up(lane, intake)
        return None

    def is_behind(self, lane: Lane) -> bool:
        """Return whether a detached lane has not come to everything that was read."""
        return any(
            intake.next_offset < min(intake.end or each.next_offset, each.next_offset)
            for intake in lane.detached
            for each in [self._shared[intake.partition]]
        )

    def turn(self) -> bool:
        """Read one group for the lane that has waited longest; return whether others wait too."""
        if not self._hungry:
            return False
        lane = self._hungry.popleft()
        self._waiting.discard(lane)
        if lane.closed or lane.full or lane.halted or not lane.detached:
            return bool(self._hungry)
        intake = min(lane.detached, key=lambda intake: intake.next_offset)
        try:
            group = self._read(intake)
            repeated = self._repeated(group, intake.partition) if group is not None else set()
        except JournalFetching:
            self._is_away = True
            self._waiting.add(lane)
            self._hungry.appendleft(lane)  # its group comes: if others asked first, there would be no room to keep it
            return False
        except JournalAway:
            self._is_away = True
            self.want(lane)
            return False  # the next beat tries again
        self._is_away = False
        if group is not None:
            companions = [lane, *self._companions(lane, intake)]
            for each in companions:
                its = intake if each is lane else each.intakes[intake.partition]
                self._catch_up(each, its, group, repeated)
        self._after_catch_up(lane, intake)
        if lane.detached and not lane.full and (group is not None or not (lane.is_replay or lane.drains)):
            self.want(lane)  # one that ends and waits for the shared reader is looked at in every beat instead
        return bool(self._hungry)

    def pass_over(self, partition: int, start: int) -> None:
        """Take intakes that stand still to where a partition of the journal begins now, on the record of their lanes.

        Those that read find out by themselves; a lane that is paused, or whose breaker is open, does not read.
        """
        for lane in self._engine.lanes.values():
            for intake in lane.detached if lane.halted and not lane.is_replay else ():
                if intake.partition == partition and intake.next_offset < start:
                    self._skip(intake, Loss(start, "expired_by_retention", RETENTION_PASSED))
                    self._engine.open_lanes.add(lane)

    def _companions(self, lane: Lane, intake: Intake) -> list[Lane]:
        """Other hungry lanes at the very same place."""
        if intake.end is not None:
            return []
        return [
            other
            for other in self._hungry
            if other is not lane
            and not other.full
            and not other.halted
            and not other.is_replay
            and not other.intakes[intake.partition].attached
            and other.intakes[intake.partition].next_offset == intake.next_offset
        ]

    def _read(self, intake: Intake) -> Group | None:
        """Return the group at an intake's place, never past the shared reader's: what a lane took beyond would
        come once more when it is attached again. On Kafka a group is what has arrived together, so the two
        readers' differ."""
        shared = self._shared[intake.partition]
        if intake.places is not None:
            intake.advance(intake.places.following(intake.next_offset))
        offset = intake.next_offset
        if offset >= shared.next_offset or (intake.end is not None and offset >= intake.end):
            return None
        cursor = self._cursors.pop((intake.partition, offset), None)
        try:
            group = next(cursor, None) if cursor is not None else None
            if group is None:
                cursor = self._journal.read(intake.partition, offset)
                group = next(cursor, None)
        except (OffsetExpired, JournalCorrupt) as error:
            self._skip(intake, loss_by(error))
            return self._read(intake)
        if group is None or cursor is None:
            return None
        if group.next_offset > shared.next_offset:
            group = group.below(shared.next_offset)
            self._engine.counters.read_again += len(group.records)
            return group
        if len(self._cursors) >= self._cursors_max:
            self._cursors.pop(next(iter(self._cursors)))
        self._cursors[intake.partition, group.next_offset] = cursor
        self._engine.counters.read_again += len(group.records)
        return group

    def _catch_up(self, lane: Lane, intake: Intake, group: Group, repeated: set[int]) -> None:
        base, is_loose = intake.partition << PLACE_SHIFT, intake.source is not None
        for index, record in enumerate(group.records):
            offset = group.first_offset + index
            if not _is_deliverable(record) or offset in repeated or not self._wants(lane, intake, record, offset):
                continue
            lane.put(Event(base | offset, record), loose=is_loose)
        intake.advance(group.next_offset)
        self._engine.fed(lane)
        self._engine.open_lanes.add(lane)
        crash_point("deliver.catching_up")

    def _after_catch_up(self, lane: Lane, intake: Intake) -> None:
        """Bring a lane back that has reached the shared reader, or end a side intake that is done."""
        shared = self._shared[intake.partition]
        if intake.source is not None:
            if intake.end is not None and intake.next_offset >= intake.end and intake in lane.sides:
                lane.end_side(intake)
                self._engine.open_lanes.add(lane)
        elif (
            not (intake.attached or lane.is_replay or lane.drains)
            and intake.next_offset >= shared.next_offset
            and not lane.halted
        ):
            shared.attach(lane)
            self._engine.counters.attached_again += 1
            self._engine.open_lanes.add(lane)
            crash_point("deliver.attached_again")

    def _wants(self, lane: Lane, intake: Intake, record: Record, offset: int) -> bool:
        if intake.end is not None and offset >= intake.end:
            return False
        # What is aimed at a destination belonged to its lane before the source did.
        if intake.source is not None and (record.to is not None or record.source != intake.source):
            return False
        if intake.places is not None and offset not in intake.places:
            return False
        return lane.takes(record, intake.partition, offset)

    def _repeated(self, group: Group, partition: int) -> set[int]:
        first = group.first_offset
        return {first + index for index, _ in self._shared[partition].duplicates.check(group.records, first)}

    def _skip(self, intake: Intake, loss: Loss) -> None:
        """Go on behind what can no longer be read, on the lane's record."""
        lane = next(lane for lane in self._engine.lanes.values() if intake in lane.detached)
        record_loss(self._engine, lane, intake.partition, intake.next_offset, loss)
        intake.advance(loss.until)


def _is_deliverable(record: Record) -> bool:
    return record.rejection is None and not record.erased
