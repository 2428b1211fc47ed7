"""Readers that fill the lanes: one shared reader per partition, and catch-up reading for detached lanes.

The shared reader goes on as long as one attached lane is hungry; a lane that would hold it up is detached instead.
When every attached lane has enough, it waits: the journal is the buffer. Catch-up takes one group at a time, in turn
for the lanes that want it; lanes at the same place share the read. Both work in small steps on the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from hookline.deliver.batch import RangeRow
from hookline.deliver.engine import Engine
from hookline.deliver.event import Event
from hookline.deliver.lane import QUEUE_HIGH, QUEUE_LOW, Intake, Lane
from hookline.deliver.shared_reader import SharedReader
from hookline.journal.port import Group, JournalCorrupt, OffsetExpired, Reader
from hookline.journal.record import Record
from hookline.outcomes.progress import DUPLICATE_TAG, OFFSET_MASK, PLACE_SHIFT
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

RETENTION_PASSED = "the journal's retention passed the lane"
DAY_MS = 86_400_000
PROBE_RECORDS_MAX = 4_096
"""Records looked at in one go for the event of a probe, rounded up to a group."""
CURSORS_MAX = 8
"""Open catch-up reads kept from one turn to the next."""


class Feeder:
    """Runs the readers in turns of one group each."""

    def __init__(self, engine: Engine, journal: Reader, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.engine = engine
        self.shared: dict[int, SharedReader] = {}
        self._journal = journal
        self._call_soon = call_soon
        self._scheduled = False
        self._hungry: deque[Lane] = deque()
        self._waiting: set[Lane] = set()
        self._cursors: dict[tuple[int, int], Iterator[Group]] = {}
        self.filtering: dict[str, list[Lane]] | None = None
        """All lanes of each source that some lane filters; None when it is to be made anew."""
        self._log = logger()
        engine.on_room = self.room
        engine.on_open = self.detach
        engine.on_recovered = self.room

    def wake(self) -> None:
        """Something may be there to read: take a turn soon."""
        if not self._scheduled and not self.engine.stopping:
            self._scheduled = True
            self._call_soon(self._turn)

    def room(self, lane: Lane) -> None:
        """A lane can take events again."""
        if lane.closed:
            return
        for shared in self.shared.values():
            shared.full.discard(lane)
        if lane.detached and lane not in self._waiting:
            self._waiting.add(lane)
            self._hungry.append(lane)
        self.wake()

    def detach(self, lane: Lane) -> None:
        """Stop a lane's intake everywhere and give back what it has queued but not tried."""
        for partition, shared in self.shared.items():
            if lane.intakes[partition].attached:
                self._leave(shared, lane)
        self._give_back(lane)

    def take_one(self, lane: Lane) -> Event | None:
        """The next event of a detached lane alone, for a probe; None also when only events of others, or that its
        filters stop, were found so far (``is_behind`` tells): looking at a whole backlog would hold up everybody."""
        left = PROBE_RECORDS_MAX
        for intake in lane.detached:
            while left > 0:
                group = self._read(intake)
                if group is None:
                    break
                left -= len(group.records)
                repeated = self._repeated(group, intake.partition)
                for index, record in enumerate(group.records):
                    offset = group.first_offset + index
                    intake.next_offset = offset + 1
                    self.engine.open_lanes.add(lane)
                    if (
                        not _is_deliverable(record)
                        or offset in repeated
                        or not self._wants(lane, intake, record, offset)
                    ):
                        continue
                    place = intake.partition << PLACE_SHIFT | offset
                    if place in lane.skip:
                        lane.skip.discard(place)
                        continue
                    return Event(place, record)
                self._after_catch_up(lane, intake)
        return None

    def is_behind(self, lane: Lane) -> bool:
        """Whether a detached lane has not come to everything that was read."""
        return any(
            intake.next_offset < min(intake.end or each.next_offset, each.next_offset)
            for intake in lane.detached
            for each in [self.shared[intake.partition]]
        )

    # one turn

    def _turn(self) -> None:
        self._scheduled = False
        if self.engine.stopping:
            return
        more = False
        for shared in self.shared.values():
            more |= self._shared_turn(shared)
        more |= self._catch_up_turn()
        if more:
            self.wake()

    def _shared_turn(self, shared: SharedReader) -> bool:
        if not shared.should_read:
            return False
        try:
            group = shared.next_group()
        except OffsetExpired as expired:
            self._pass_over(shared, expired.start, "expired_by_retention", RETENTION_PASSED)
            return True
        except JournalCorrupt as damaged:
            self._pass_over(shared, damaged.next_offset, "discarded", str(damaged))
            return True
        if group is None:
            return False
        for lane in [lane for lane in shared.full if lane.size >= QUEUE_HIGH]:
            self._leave(shared, lane)
        self._take(shared, group)
        shared.duplicates.work()
        return True

    def _take(self, shared: SharedReader, group: Group) -> None:
        """Give each record of a group to the attached lanes whose stream it is part of."""
        first, base = group.first_offset, shared.partition << PLACE_SHIFT
        repeated = dict(shared.duplicates.check(group.records, first))
        if not repeated and self._take_at_once(shared, group):
            return
        touched: set[Lane] = set()
        lanes: dict[Lane, int] = {}
        filtering: list[Lane] | None = None
        usage, run = [0, 0], 0
        source = ""
        for index, record in enumerate(group.records):
            if record.source != source:
                usage[0] += index - run
                run = index
                source = record.source
                lanes = shared.by_source.get(source, {})
                touched.update(lanes)
                usage, filtering = self._usage_of(record)
            if record.rejection is not None or record.erased:
                usage[0] -= 1
                continue
            if repeated and index in repeated:
                usage[0] -= 1
                self._note_duplicate(base | repeated[index], base | (first + index))
                continue
            offset = first + index
            if record.to is not None:
                usage[0] -= 1
                self._take_aimed(shared, record.to, Event(base | offset, record), touched)
                continue
            if filtering and _is_filtered(filtering, record, shared.partition, offset):
                usage[1] += 1
            if not lanes:
                continue
            event = Event(base | offset, record)
            everyone = record.selection is None and not filtering
            for lane, start in lanes.items():
                if offset >= start and (everyone or lane.takes(record, shared.partition, offset)):
                    if lane.skip and event.place in lane.skip:
                        lane.skip.discard(event.place)
                    else:
                        lane.queue.append(event)
        usage[0] += len(group.records) - run
        self._taken(shared, group, touched)

    def _take_at_once(self, shared: SharedReader, group: Group) -> bool:
        """The same for a group that has nothing to look at event by event, as nearly all groups: in half the time."""
        records, first = group.records, group.first_offset
        source = records[0].source
        lanes = shared.by_source.get(source, {})
        if [lane for lane, start in lanes.items() if start > first or lane.skip]:
            return False
        if [
            record
            for record in records
            if record.source != source
            or record.selection is not None
            or record.to is not None
            or record.rejection is not None
            or record.erased
        ]:
            return False
        usage, filtering = self._usage_of(records[0])
        if filtering:
            return False
        usage[0] += len(records)
        if lanes:
            place = shared.partition << PLACE_SHIFT | first
            events = list(map(Event, range(place, place + len(records)), records))
            for lane in lanes:
                lane.queue.extend(events)
        self._taken(shared, group, lanes)
        return True

    def _taken(self, shared: SharedReader, group: Group, touched: Iterable[Lane]) -> None:
        shared.next_offset = group.next_offset
        self.engine.counters.read += len(group.records)
        for lane in list(touched):
            self._fed(lane, shared)

    def _take_aimed(self, shared: SharedReader, to: tuple[str, ...], event: Event, touched: set[Lane]) -> None:
        for destination in to:
            lane = shared.by_destination.get(destination)
            if lane is None or not lane.takes(event.record, shared.partition, event.place & OFFSET_MASK):
                continue
            if event.place in lane.skip:
                lane.skip.discard(event.place)
                continue
            lane.queue.append(event)
            touched.add(lane)

    def _usage_of(self, record: Record) -> tuple[list[int], list[Lane] | None]:
        """Where the events of the record's source and day are counted (in runs, so that an event costs nothing), and
        the source's lanes if one of them has filters."""
        if self.filtering is None:
            self.filtering = _filtering_of(self.engine.lanes.values())
        key = record.received_at // DAY_MS, record.source
        return self.engine.batch.usage.setdefault(key, [0, 0]), self.filtering.get(record.source)

    def _fed(self, lane: Lane, shared: SharedReader | None) -> None:
        if not lane.queue:
            return
        self.engine.open_lanes.add(lane)
        lane.full = lane.size >= QUEUE_LOW
        if lane.full and shared is not None:
            shared.full.add(lane)
        self.engine.dispatch(lane)

    def _note_duplicate(self, first_place: int, place: int) -> None:
        engine = self.engine
        engine.counters.duplicates += 1
        if not engine.ring.full:
            engine.ring.add(first_place, place, DUPLICATE_TAG, 0, 0)

    # detaching and catching up

    def _leave(self, shared: SharedReader, lane: Lane) -> None:
        shared.leave(lane)
        self.engine.open_lanes.add(lane)
        self.engine.counters.detached += 1
        crash_point("deliver.detached")

    def _give_back(self, lane: Lane) -> None:
        """Queued events are in the journal: remember where the first of them stands and let go of them."""
        for event in lane.queue:
            partition, offset = event.place >> PLACE_SHIFT, event.place & OFFSET_MASK
            intake = lane.intakes[partition]
            if event.place in lane.loose:
                self.engine.failures.give_back_untried(lane, event)
            else:
                intake.next_offset = min(intake.next_offset, offset)
        if lane.order is not None:
            # Others behind them have been delivered, so the lane cannot go back to where they stand.
            for event in lane.order.let_go():
                self.engine.failures.wait_for_turn(lane, event.place)
        lane.queue.clear()
        lane.full = False
        self.engine.open_lanes.add(lane)

    def _catch_up_turn(self) -> bool:
        if not self._hungry:
            return False
        lane = self._hungry.popleft()
        self._waiting.discard(lane)
        if lane.closed or lane.full or lane.halted or not lane.detached:
            return bool(self._hungry)
        intake = min(lane.detached, key=lambda intake: intake.next_offset)
        group = self._read(intake)
        if group is not None:
            companions = [lane, *self._companions(lane, intake)]
            repeated = self._repeated(group, intake.partition)
            for each in companions:
                its = intake if each is lane else each.intakes[intake.partition]
                self._catch_up(each, its, group, repeated)
        self._after_catch_up(lane, intake)
        if lane.detached and not lane.full and (group is not None or not (lane.is_replay or lane.drains)):
            self.room(lane)  # one that ends and waits for the shared reader is looked at in every beat instead
        return bool(self._hungry)

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
        """The group at an intake's place, never past the shared reader's."""
        shared = self.shared[intake.partition]
        if intake.places is not None:
            intake.next_offset = intake.places.following(intake.next_offset)
        offset = intake.next_offset
        if offset >= shared.next_offset or (intake.end is not None and offset >= intake.end):
            return None
        cursor = self._cursors.pop((intake.partition, offset), None)
        try:
            group = next(cursor, None) if cursor is not None else None
            if group is None:
                cursor = self._journal.read(intake.partition, offset)
                group = next(cursor, None)
        except OffsetExpired as expired:
            self._skip(intake, expired.start, "expired_by_retention", RETENTION_PASSED)
            return self._read(intake)
        except JournalCorrupt as damaged:
            self._skip(intake, damaged.next_offset, "discarded", str(damaged))
            return self._read(intake)
        if group is None or cursor is None:
            return None
        if len(self._cursors) >= CURSORS_MAX:
            self._cursors.pop(next(iter(self._cursors)))
        self._cursors[intake.partition, group.next_offset] = cursor
        self.engine.counters.read_again += len(group.records)
        return group

    def _catch_up(self, lane: Lane, intake: Intake, group: Group, repeated: set[int]) -> None:
        base = intake.partition << PLACE_SHIFT
        for index, record in enumerate(group.records):
            offset = group.first_offset + index
            if not _is_deliverable(record) or offset in repeated or not self._wants(lane, intake, record, offset):
                continue
            place = base | offset
            if place in lane.skip:
                lane.skip.discard(place)
                continue
            if intake.source is not None:
                lane.loose.add(place)
            lane.queue.append(Event(place, record))
        intake.next_offset = group.next_offset
        self._fed(lane, None)
        self.engine.open_lanes.add(lane)
        crash_point("deliver.catching_up")

    def _after_catch_up(self, lane: Lane, intake: Intake) -> None:
        """Bring a lane back that has reached the shared reader, or end a side intake that is done."""
        shared = self.shared[intake.partition]
        if intake.source is not None:
            if intake.end is not None and intake.next_offset >= intake.end and intake in lane.sides:
                lane.sides.remove(intake)
                self.engine.open_lanes.add(lane)
        elif (
            not (intake.attached or lane.is_replay or lane.drains)
            and intake.next_offset >= shared.next_offset
            and not lane.halted
        ):
            shared.attach(lane)
            self.engine.counters.attached_again += 1
            self.engine.open_lanes.add(lane)
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
        return {first + index for index, _ in self.shared[partition].duplicates.check(group.records, first)}

    def _pass_over(self, shared: SharedReader, until: int, fate: str, reason: str) -> None:
        """Go on behind what can no longer be read, on the record of every lane that would have had it."""
        for lane in shared.attached:
            self._record_loss(lane, shared.partition, shared.next_offset, until, fate, reason)
        shared.next_offset = until

    def _skip(self, intake: Intake, until: int, fate: str, reason: str) -> None:
        """The same for one detached lane."""
        lane = next(lane for lane in self.engine.lanes.values() if intake in lane.detached)
        self._record_loss(lane, intake.partition, intake.next_offset, until, fate, reason)
        intake.next_offset = until

    def _record_loss(self, lane: Lane, partition: int, first: int, until: int, fate: str, reason: str) -> None:
        destination = lane.destination.id
        self._log.error("events_passed_over", destination=destination, events=until - first, fate=fate, reason=reason)
        now_ms = self.engine.clock.now_ms()
        row = RangeRow(lane.number, destination, partition, first, until - 1, fate, now_ms, reason)
        self.engine.batch.ranges.append(row)


def _filtering_of(lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    lanes = list(lanes)
    found: dict[str, list[Lane]] = {source: [] for lane in lanes if lane.filters is not None for source in lane.starts}
    for lane in lanes if found else ():
        for source in lane.starts:
            if source in found:
                found[source].append(lane)
    return found


def _is_filtered(lanes: list[Lane], record: Record, partition: int, offset: int) -> bool:
    """Whether filters keep the event from every destination that would get it, attached or not."""
    stopped = False
    for lane in lanes:
        if lane.routes(record, partition, offset):
            if lane.filters is None or lane.filters.passes(record):
                return False
            stopped = True
    return stopped


def _is_deliverable(record: Record) -> bool:
    return record.rejection is None and not record.erased
