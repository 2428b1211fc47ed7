"""Readers that fill the lanes: one shared reader per partition, and catch-up reading for detached lanes.

The shared reader goes on as long as one attached lane is hungry; a lane that would hold it up is detached instead.
When every attached lane has enough, it waits: the journal is the buffer. Detached lanes are brought back by
``catch_up.py``. Both work in small steps on the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.catch_up import CatchUp, SharedReader
from hookline.deliver.read.losses import Loss, loss_by, record_loss
from hookline.journal.port import (
    Group,
    JournalAway,
    JournalCorrupt,
    JournalError,
    JournalFetching,
    Lookups,
    OffsetExpired,
)
from hookline.journal.record import Record
from hookline.outcomes.progress import DUPLICATE_TAG, OFFSET_MASK, POSITION_SHIFT
from hookline.telemetry.crashpoints import crash_point

DAY_MS = 86_400_000


class Feeder:
    """Runs the readers in turns of one group each."""

    def __init__(self, engine: Dispatcher, journal: Lookups, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.engine = engine
        self._queue_low = engine.limits.queue_low
        self._queue_high = engine.limits.queue_high
        self.shared: dict[int, SharedReader] = {}
        self._journal = journal
        self._call_soon = call_soon
        self._scheduled = False
        self.catch_up = CatchUp(engine, journal, self.shared)
        self.filtering: dict[str, list[Lane]] | None = None
        """All lanes of each source that some lane filters; None when it is to be made anew."""
        self.failure: JournalError | None = None
        """What ended the reading: only starting again may help."""
        engine.is_behind = lambda: self.is_behind
        engine.on_room = self.room
        engine.on_open = self.detach
        engine.on_recovered = self.room

    @property
    def has_work(self) -> bool:
        """Return whether there is something to read, or a journal is waited for."""
        return self._scheduled or self.is_behind or self.catch_up.waits

    @property
    def is_behind(self) -> bool:
        """Return whether some shared reader has not come to the journal's end."""
        return any(shared.is_behind for shared in self.shared.values())

    def wake(self) -> None:
        """Something may be there to read: take a turn soon."""
        if not self._scheduled and not self.engine.stopping:
            self._scheduled = True
            self._call_soon(self._turn)

    def room(self, lane: Lane) -> None:
        """A lane may be able to take events again."""
        if lane.closed:
            return
        if not lane.measure():  # one whose probe succeeded may have more than enough
            for shared in self.shared.values():
                shared.full.discard(lane)
        if lane.detached:
            self.catch_up.want(lane)
        self.wake()

    def detach(self, lane: Lane) -> None:
        """Stop a lane's cursor everywhere and give back what it has queued but not tried."""
        for partition, shared in self.shared.items():
            if lane.cursors[partition].attached:
                self._leave(shared, lane)
        self._give_back(lane)

    def freeze(self, partition: int) -> None:
        """Stop all cursor of a partition, and give back what is queued of it: what is in flight goes on."""
        shared = self.shared[partition]
        shared.frozen = True
        for lane in self.engine.lanes.values():
            cursor = lane.cursors[partition]
            queued = any(event.position >> POSITION_SHIFT == partition for event in lane.queue)
            if cursor.attached and (queued or lane.order is not None):
                self._leave(shared, lane)
            self._give_back(lane, partition)
            lane.freeze(partition)
            self._after_loss(lane)

    def leave(self, partition: int) -> None:
        """Forget a partition."""
        self.shared.pop(partition).duplicates.close()
        self.catch_up.leave(partition)
        for lane in self.engine.lanes.values():
            if lane.in_flight or lane in self.engine.retrying:
                self.engine.recount.add(lane)  # what fails from now on is counted too, and is no row here
            lane.leave(partition)
            self._after_loss(lane)
        self.engine.forget(partition)

    def read_anew(self, partition: int) -> None:
        """Forget what was read ahead of a partition, for the journal has changed since."""
        self.catch_up.leave(partition)
        if partition in self.shared:
            self.shared[partition].read_anew()

    def _after_loss(self, lane: Lane) -> None:
        """Fewer events are queued than were: whoever waited for room has it."""
        if not lane.measure():
            self.room(lane)

    # one turn

    def _turn(self) -> None:
        self._scheduled = False
        if self.engine.stopping:
            return
        more = False
        try:
            for shared in self.shared.values():
                more |= self._shared_turn(shared)
            more |= self.catch_up.turn()
        except JournalError as failure:
            self.failure = failure
            return
        if more:
            self.wake()

    def _shared_turn(self, shared: SharedReader) -> bool:
        if not shared.should_read:
            return False
        try:
            group = shared.next_group()
        except (OffsetExpired, JournalCorrupt) as error:
            self._pass_over(shared, loss_by(error))
            return True
        except JournalAway as away:
            shared.report_away(str(away))
            return False  # the next beat tries again
        shared.report_away("")
        if group is None:
            return False
        for lane in [lane for lane in shared.full if len(lane.queue) >= self._queue_high]:
            self._leave(shared, lane)
        try:
            self._take(shared, group)
        except JournalFetching:  # whether something is a repeat is known in a moment
            shared.hold(group)
            return False
        for lane in shared.awaited_by:
            self.catch_up.want(lane)
        shared.awaited_by.clear()
        shared.duplicates.work()
        return True

    def _take(self, shared: SharedReader, group: Group) -> None:
        """Give each record of a group to the attached lanes whose stream it is part of."""
        first, base = group.first_offset, shared.partition << POSITION_SHIFT
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
                usage, filtering = self._usage_of(record, shared.partition)
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
                self._take_aimed(shared, record.to, Event(base | offset, record, len(record.to) > 1), touched)
                continue
            if filtering and _is_filtered(filtering, record, shared.partition, offset):
                usage[1] += 1
            if not lanes:
                continue
            event = Event(base | offset, record, len(lanes) > 1)
            everyone = record.selection is None and not filtering
            for lane, start in lanes.items():
                if offset >= start and (everyone or lane.takes(record, shared.partition, offset)):
                    lane.put(event)
        usage[0] += len(group.records) - run
        self._taken(shared, group, touched)

    def _take_at_once(self, shared: SharedReader, group: Group) -> bool:
        """Return the same for a group that has nothing to look at event by event, as nearly all groups: in half the
        time."""
        records, first = group.records, group.first_offset
        source = records[0].source
        lanes = shared.by_source.get(source, {})
        if [lane for lane, start in lanes.items() if start > first or lane.already_delivered]:
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
        usage, filtering = self._usage_of(records[0], shared.partition)
        if filtering:
            return False
        usage[0] += len(records)
        if lanes:
            position = shared.partition << POSITION_SHIFT | first
            events = list(map(Event, range(position, position + len(records)), records, repeat(len(lanes) > 1)))
            for lane in lanes:
                lane.feed(events)
        self._taken(shared, group, lanes)
        return True

    def _taken(self, shared: SharedReader, group: Group, touched: Iterable[Lane]) -> None:
        shared.next_offset = group.next_offset
        self.engine.counters.read += len(group.records)
        for lane in list(touched):
            self.engine.fed(lane, shared.full)

    def _take_aimed(self, shared: SharedReader, to: tuple[str, ...], event: Event, touched: set[Lane]) -> None:
        for destination in to:
            lane = shared.by_destination.get(destination)
            if lane is None or not lane.takes(event.record, shared.partition, event.position & OFFSET_MASK):
                continue
            lane.put(event)
            touched.add(lane)

    def _usage_of(self, record: Record, partition: int) -> tuple[list[int], list[Lane] | None]:
        """Return where the events of the record's source and day are counted (in runs, so that an event costs nothing),
        and the source's lanes if one of them has filters."""
        if self.filtering is None:
            self.filtering = _filtering_of(self.engine.lanes.values())
        key = record.received_at // DAY_MS, record.source, partition
        return self.engine.batch.usage.setdefault(key, [0, 0]), self.filtering.get(record.source)

    def _note_duplicate(self, first_position: int, position: int) -> None:
        engine = self.engine
        engine.counters.duplicates += 1
        if not engine.ring.full:
            engine.ring.add(first_position, position, DUPLICATE_TAG, 0, 0)

    # detaching

    def _leave(self, shared: SharedReader, lane: Lane) -> None:
        shared.leave(lane)
        self.engine.open_lanes.add(lane)
        self.engine.counters.detached += 1
        crash_point("deliver.detached")

    def _give_back(self, lane: Lane, only: int | None = None) -> None:
        """Queued events, or ``only`` those of a partition, are in the journal: remember where the first of them stands
        and let go of them."""
        out_of_order, held = lane.give_back(only)
        for event in out_of_order:
            self.engine.failures.give_back_untried(lane, event)
        for event in held:
            self.engine.failures.keep_as_row(lane, event.position)
        lane.measure()
        self.engine.open_lanes.add(lane)

    def _pass_over(self, shared: SharedReader, loss: Loss) -> None:
        """Go on behind what can no longer be read, on the record of every lane that would have had it."""
        for lane in shared.attached:
            record_loss(self.engine, lane, shared.partition, shared.next_offset, loss)
        shared.next_offset = loss.until


def _filtering_of(lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    lanes = list(lanes)
    found: dict[str, list[Lane]] = {source: [] for lane in lanes if lane.filters is not None for source in lane.starts}
    for lane in lanes if found else ():
        for source in lane.starts:
            if source in found:
                found[source].append(lane)
    return found


def _is_filtered(lanes: list[Lane], record: Record, partition: int, offset: int) -> bool:
    """Return whether filters keep the event from every destination that would get it, attached or not."""
    stopped = False
    for lane in lanes:
        end = lane.cursors[partition].end  # of one that is drained: it gets nothing that came after
        if (end is None or offset < end) and lane.routes(record, partition, offset):
            if lane.filters is None or lane.filters.passes(record):
                return False
            stopped = True
    return stopped
