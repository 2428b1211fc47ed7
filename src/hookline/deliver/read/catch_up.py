"""Catch-up reading: fills detached lanes from where they stand, until they have come to the shared reader again.

It takes one group at a time, in turn for the lanes that want it; lanes at the same position share the read. A partition
that cannot be read just now holds up nobody in the others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.losses import RETENTION_PASSED, Loss, loss_by, record_loss
from hookline.index.duplicates import Duplicates
from hookline.journal.port import Follower, Group, JournalAway, JournalCorrupt, JournalFetching, Lookups, OffsetExpired
from hookline.journal.record import Record
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger


class SharedReader:
    """The one reader of a partition that all attached lanes follow, and the position duplicates are recognised."""

    def __init__(self, partition: int, journal: Follower, duplicates: Duplicates, next_offset: int) -> None:
        self.partition = partition
        self.duplicates = duplicates
        self.next_offset = next_offset
        self.by_source: dict[str, dict[Lane, int]] = {}
        """Attached lanes of each source, with the offset at which the source belongs to them."""
        self.by_destination: dict[str, Lane] = {}
        self.attached: set[Lane] = set()
        self.full: set[Lane] = set()
        self.awaited_by: set[Lane] = set()
        """Hungry lanes that never follow it, for they end, and have come to where it is."""
        self.frozen = False
        """Whether it reads no further: its partition is being given up."""
        self._journal = journal
        self._groups: Iterator[Group] = iter(())
        self._held: Group | None = None
        self._index_fails = False
        self._away = ""
        """Why the journal cannot be read, since it was reported."""
        self._log = logger()

    @property
    def end(self) -> int:
        """Return the journal's end as it is now."""
        return self._journal.end(self.partition)

    @property
    def is_behind(self) -> bool:
        """Return whether it has not come yet to the journal's end."""
        return self.next_offset < self.end

    @property
    def should_read(self) -> bool:
        """Return whether some lane is hungry; without any that follow there is still the index to keep up."""
        is_wanted = not self.attached or len(self.full) < len(self.attached) or bool(self.awaited_by)
        return is_wanted and not self.frozen

    def next_group(self) -> Group | None:
        """Return the next group, or None at the journal's end."""
        if self._held is not None:
            held, self._held = self._held, None
            return held
        group = next(self._groups, None)
        if group is None and self._journal.end(self.partition) > self.next_offset:
            self._groups = self._journal.read(self.partition, self.next_offset)
            group = next(self._groups, None)
        return group

    def hold(self, group: Group) -> None:
        """Have this group, which could not be taken yet, be the next one again."""
        self._held = group

    def read_anew(self) -> None:
        """Forget what was read ahead: the next group is as the journal has it then."""
        self._groups, self._held = iter(()), None

    def report_away(self, reason: str) -> None:
        """Log that the journal cannot be read, and why, as that begins; without a reason, that it can be again."""
        if reason and not self._away:
            next_step = "nothing more is sent of this partition until it can be read; it is tried again"
            self._log.error("journal_unreadable", partition=self.partition, reason=reason, next_step=next_step)
        elif self._away and not reason:
            self._log.info("journal_read_again", partition=self.partition)
        self._away = reason

    def report_index_failure(self) -> bool:
        """Return whether the index of duplicates has met a failure of the disk and not worked since; logged as it
        begins and ends, for repeats may go unnoticed meanwhile."""
        failure = self.duplicates.failure
        fails = failure is not None
        if fails and not self._index_fails:
            next_step = "free disk space, or repair the disk; it is tried again"
            self._log.error("duplicate_index_failed", partition=self.partition, error=failure, next_step=next_step)
        elif self._index_fails and not fails:
            self._log.info("duplicate_index_works_again", partition=self.partition)
        self._index_fails = fails
        return fails

    def attach(self, lane: Lane) -> None:
        """Let a lane follow from the next group on."""
        lane.cursors[self.partition].attach()
        self.attached.add(lane)
        if lane.full:
            self.full.add(lane)
        for source, starts in lane.starts.items():
            self.by_source.setdefault(source, {})[lane] = starts.get(self.partition, 0)
        self.by_destination[lane.destination.id] = lane

    def leave(self, lane: Lane) -> None:
        """Take a lane out; it is remembered at the next group."""
        lane.cursors[self.partition].detach(self.next_offset)
        self.attached.discard(lane)
        self.full.discard(lane)
        for source in lane.starts:
            lanes = self.by_source.get(source, {})
            lanes.pop(lane, None)
            if not lanes:
                self.by_source.pop(source, None)
        if self.by_destination.get(lane.destination.id) is lane:
            del self.by_destination[lane.destination.id]


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
        self._readings: dict[tuple[int, int], Iterator[Group]] = {}
        self._set_aside: dict[int, dict[Lane, None]] = {}
        """By partition that could not be read just now: the lanes that have nothing else to read, the first one next to
        try it."""

    def want(self, lane: Lane) -> None:
        """A detached lane has room for more; idempotent until its turn."""
        if lane not in self._waiting:
            self._waiting.add(lane)
            self._hungry.append(lane)

    def leave(self, partition: int) -> None:
        """Keep no open reads of a partition."""
        for key in [key for key in self._readings if key[0] == partition]:
            del self._readings[key]
        self._call_back(partition)

    @property
    def waits(self) -> bool:
        """Return whether lanes wait for a journal that could not be read just now."""
        return bool(self._hungry or self._set_aside)

    def try_again(self) -> bool:
        """Let a lane of each partition that could not be read try it, as a beat has passed; return whether any wait."""
        for partition, lanes in list(self._set_aside.items()):
            first = next(iter(lanes))
            del lanes[first]
            if not lanes:
                del self._set_aside[partition]
            self.want(first)
        return self.waits

    def _call_back(self, partition: int) -> None:
        for lane in self._set_aside.pop(partition, ()):
            self.want(lane)

    def take_one(self, lane: Lane) -> Event | None:
        """Return the next event of a detached lane alone, for a probe; None also when only events of others, or
        that its filters stop, were found so far (``is_behind`` tells): looking at a whole backlog would hold up
        everybody. Raise JournalAway where there is none in the partitions that can be read just now, and others."""
        left = self._probe_records_max
        away: JournalAway | None = None
        for cursor in lane.detached:
            while left > 0:
                try:
                    group = self._read(cursor)
                except JournalAway as error:
                    away = error if not isinstance(away, JournalFetching) else away
                    break
                if group is None:
                    break
                left -= len(group.records)
                repeated = self._repeated(group, cursor.partition)
                for index, record in enumerate(group.records):
                    offset = group.first_offset + index
                    cursor.advance(offset + 1)
                    self._engine.open_lanes.add(lane)
                    if (
                        not _is_deliverable(record)
                        or offset in repeated
                        or not self._wants(lane, cursor, record, offset)
                    ):
                        continue
                    position = cursor.partition << POSITION_SHIFT | offset
                    if lane.was_done(position):
                        continue
                    return Event(position, record)
                self._after_catch_up(lane, cursor)
        if away is not None:
            raise away
        return None

    def is_behind(self, lane: Lane) -> bool:
        """Return whether a detached lane has not come to everything that was read."""
        return any(
            cursor.next_offset < min(cursor.end or each.next_offset, each.next_offset)
            for cursor in lane.detached
            for each in [self._shared[cursor.partition]]
        )

    def turn(self) -> bool:
        """Read one group for the lane that has waited longest; return whether others wait too."""
        if not self._hungry:
            return False
        lane = self._hungry.popleft()
        self._waiting.discard(lane)
        if lane.closed or lane.full or lane.halted or not lane.detached:
            return bool(self._hungry)
        away: int | None = None
        for cursor in sorted(lane.detached, key=lambda cursor: cursor.next_offset):
            try:
                group = self._read(cursor)
                repeated = self._repeated(group, cursor.partition) if group is not None else set()
            except JournalFetching:
                self._waiting.add(lane)
                self._hungry.appendleft(lane)  # its group comes: if others asked first, there would be no room for it
                return False
            except JournalAway:
                away = cursor.partition if away is None else away
                continue
            self._call_back(cursor.partition)
            if group is not None:
                self._take(lane, cursor, group, repeated)
                break
            self._after_catch_up(lane, cursor)
        else:
            is_awaited = self._arrive(lane)
            if away is not None:
                self._set_aside.setdefault(away, {})[lane] = None
            elif lane.detached and not (lane.is_replay or lane.drains):  # those are looked at in every beat instead
                self.want(lane)
            return is_awaited or bool(self._hungry)
        if lane.detached and not lane.full:
            self.want(lane)
        return bool(self._hungry)

    def _take(self, lane: Lane, cursor: LaneCursor, group: Group, repeated: set[int]) -> None:
        """Put a group into a lane, and into those that wait for the very same."""
        companions = [lane, *self._companions(lane, cursor)]
        events: dict[int, Event] | None = {} if len(companions) > 1 else None
        for each in companions:
            its = cursor if each is lane else each.cursors[cursor.partition]
            self._catch_up(each, its, group, repeated, events)
        self._after_catch_up(lane, cursor)

    def _arrive(self, lane: Lane) -> bool:
        """Have the shared readers at which a drained lane stands read on for it; return whether there are any."""
        awaited = [self._shared[cursor.partition] for cursor in lane.detached] if lane.drains else []
        for shared in awaited:
            shared.awaited_by.add(lane)
        return bool(awaited)

    def pass_over(self, partition: int, start: int) -> None:
        """Take cursors that stand still to where a partition of the journal begins now, on the record of their lanes.

        Those that read find out by themselves; a lane that is paused, or whose breaker is open, does not read.
        """
        for lane in self._engine.lanes.values():
            for cursor in lane.detached if lane.halted and not lane.is_replay else ():
                if cursor.partition == partition and cursor.next_offset < start:
                    self._skip(cursor, Loss(start, "expired_by_retention", RETENTION_PASSED))
                    self._engine.open_lanes.add(lane)

    def _companions(self, lane: Lane, cursor: LaneCursor) -> list[Lane]:
        """Other hungry lanes at the very same position."""
        if cursor.end is not None:
            return []
        return [
            other
            for other in self._hungry
            if other is not lane
            and not (other.closed or other.full)
            and not other.halted
            and not other.is_replay
            and not other.cursors[cursor.partition].attached
            and other.cursors[cursor.partition].next_offset == cursor.next_offset
        ]

    def _read(self, cursor: LaneCursor) -> Group | None:
        """Return the group at an cursor's position, never past the shared reader's: what a lane took beyond would
        come once more when it is attached again. On Kafka a group is what has arrived together, so the two
        readers' differ."""
        shared = self._shared[cursor.partition]
        if cursor.positions is not None:
            cursor.advance(cursor.positions.following(cursor.next_offset))
        offset = cursor.next_offset
        if offset >= shared.next_offset or (cursor.end is not None and offset >= cursor.end):
            return None
        records = self._readings.pop((cursor.partition, offset), None)
        try:
            group = next(records, None) if records is not None else None
            if group is None:
                records = self._journal.read(cursor.partition, offset)
                group = next(records, None)
        except (OffsetExpired, JournalCorrupt) as error:
            self._skip(cursor, loss_by(error))
            return self._read(cursor)
        if group is None or records is None:
            return None
        if group.next_offset > shared.next_offset:
            group = group.below(shared.next_offset)
            self._engine.counters.read_again += len(group.records)
            return group
        if len(self._readings) >= self._cursors_max:
            self._readings.pop(next(iter(self._readings)))
        self._readings[cursor.partition, group.next_offset] = records
        self._engine.counters.read_again += len(group.records)
        return group

    def _catch_up(
        self, lane: Lane, cursor: LaneCursor, group: Group, repeated: set[int], shared: dict[int, Event] | None
    ) -> None:
        """Put a group's events into a lane; ``shared`` are those made for other lanes, by offset."""
        base, is_out_of_order = cursor.partition << POSITION_SHIFT, cursor.source is not None
        for index, record in enumerate(group.records):
            offset = group.first_offset + index
            if not _is_deliverable(record) or offset in repeated or not self._wants(lane, cursor, record, offset):
                continue
            event = shared.get(offset) if shared is not None else None
            if event is None:
                event = Event(base | offset, record, shared is not None)
                if shared is not None:
                    shared[offset] = event
            lane.put(event, out_of_order=is_out_of_order)
        cursor.advance(group.next_offset)
        self._engine.fed(lane)
        self._engine.open_lanes.add(lane)
        crash_point("deliver.catching_up")

    def _after_catch_up(self, lane: Lane, cursor: LaneCursor) -> None:
        """Bring a lane back that has reached the shared reader, or end a backfill that is done."""
        shared = self._shared[cursor.partition]
        if cursor.source is not None:
            if cursor.end is not None and cursor.next_offset >= cursor.end and cursor in lane.backfills:
                lane.end_backfill(cursor)
                self._engine.open_lanes.add(lane)
        elif (
            not (cursor.attached or lane.is_replay or lane.drains)
            and cursor.next_offset >= shared.next_offset
            and not lane.halted
        ):
            shared.attach(lane)
            self._engine.look_at_catch_up(lane)
            self._engine.counters.attached_again += 1
            self._engine.open_lanes.add(lane)
            crash_point("deliver.attached_again")

    def _wants(self, lane: Lane, cursor: LaneCursor, record: Record, offset: int) -> bool:
        if cursor.end is not None and offset >= cursor.end:
            return False
        # What is aimed at a destination belonged to its lane before the source did.
        if cursor.source is not None and (record.to is not None or record.source != cursor.source):
            return False
        if cursor.positions is not None and offset not in cursor.positions:
            return False
        return lane.takes(record, cursor.partition, offset)

    def _repeated(self, group: Group, partition: int) -> set[int]:
        first = group.first_offset
        return {first + index for index, _ in self._shared[partition].duplicates.check(group.records, first)}

    def _skip(self, cursor: LaneCursor, loss: Loss) -> None:
        """Go on behind what can no longer be read, on the lane's record."""
        lane = next(lane for lane in self._engine.lanes.values() if cursor in lane.detached)
        record_loss(self._engine, lane, cursor.partition, cursor.next_offset, loss)
        cursor.advance(loss.until)


def _is_deliverable(record: Record) -> bool:
    return record.rejection is None and not record.erased
