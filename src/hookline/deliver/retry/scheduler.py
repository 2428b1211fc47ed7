"""Brings failed deliveries back when they are due, and sends the probes of lanes whose breaker is not closed.

Works from the rows of the deliver database, a few at a time per lane; only lanes that have retry rows or are probing
cost anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from hookline.database.sqlite import DatabaseAway
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.event import Event
from hookline.deliver.lanes.breaker import SUSPECT_SPACING_SECONDS, Breaker
from hookline.deliver.lanes.delivery import ALL_URLS, ASKED_TO_WAIT, Delivery
from hookline.deliver.lanes.lane import RECHECK_MS, Lane
from hookline.deliver.lanes.order import UserOrder
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.read.losses import record_unreadable
from hookline.deliver.store.batch import RetryRow
from hookline.deliver.store.retry_rows import Rows, RowsComing
from hookline.deliver.store.writer import DeliverStore
from hookline.journal.port import JournalAway, JournalFetching, Lookups, Reader
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.outcomes.reader import NEVER_MS
from hookline.replays.offset_set import OffsetSet

ROWS_PER_TURN_MAX = 256
PLACES_SHARE = 16
"""The fraction of all places that is kept for rows that are due, where streams fill them all."""
BEYOND_SHARE = 8
"""Rows that are due may be in flight beyond a lane's allowance by this fraction of it."""
PROBE_ROWS = 16
"""A probe takes one of this many oldest events in turn, so that one bad event cannot keep a lane shut."""
AGAIN_MS = 50
"""When to look at a lane's rows again if all that were found are on their way, and there may be more."""


class Retries:
    """The retry rows of all lanes."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        store: DeliverStore,
        rows: Rows,
        journal: Lookups,
        rows_journal: Reader,
    ) -> None:
        """``rows_journal`` is for reading what holds up an ordered lane, all of it at once, from ``store``."""
        self._engine = engine
        self._feeder = feeder
        self._store = store
        self._rows = rows
        self._journal = journal
        self._rows_journal = rows_journal
        self._unhealthy_in_flight_max = engine.limits.unhealthy_in_flight_max
        self._slow_in_flight_max = engine.limits.slow_in_flight_max
        self._lacked_places = False

    def tick(self) -> None:
        """Start what is due now; called several times a second."""
        if self._engine.stopping:
            return
        now_ms = self._engine.clock.steady_ms()
        self._lacked_places = False
        for lane in list(self._engine.retrying):
            if lane.closed or lane.retry_count <= 0:
                self._engine.retrying.discard(lane)
                if lane.rows_changed and not lane.closed:
                    self._engine.dispatch(lane)  # it waited for rows that its order was to know
            elif not (lane.halted or lane in self._engine.stale):
                try:
                    self._start_ready(lane, now_ms)
                except (JournalFetching, RowsComing):
                    continue  # with a later turn
                except (JournalAway, DatabaseAway):
                    lane.look_at_rows(now_ms + RECHECK_MS)
        self._engine.kept_for_rows = max(1, self._slow_in_flight_max // PLACES_SHARE) if self._lacked_places else 0
        for lane in list(self._engine.catching_up):
            self._engine.look_at_catch_up(lane)
        for lane in list(self._engine.probing):
            probes, probe_at = lane.probes, lane.probe_at_seconds
            try:
                is_asking = bool(lane.in_flight)
                self._probe(lane, now_ms)
                if lane.in_flight and not is_asking:
                    lane.count_tries(lane.tried + 1)
            except (JournalFetching, RowsComing):  # nothing was tried: with a later turn
                lane.probe_next(probe_at, probes)
            except (JournalAway, DatabaseAway):
                continue

    def drop(self, lane: Lane, positions: Mapping[int, OffsetSet]) -> int:
        """Close a lane's rows of events that were erased; return how many."""
        dropped = 0
        for partition, wanted in positions.items() if lane.retry_count > 0 else ():
            for offset in self._store.rows.offsets(lane.number, partition, wanted.first, wanted.end):
                position = partition << POSITION_SHIFT | offset
                if offset in wanted and position not in lane.in_flight and position not in lane.pending_rows:
                    self._close(lane, RetryRow(lane.number, partition, offset, 0, 0, 0, 0), position)
                    dropped += 1
        return dropped

    def _start_ready(self, lane: Lane, now_ms: int) -> None:
        """Start the rows whose turn or time has come."""
        if lane.order is not None:
            knows_more = self._learn_rows(lane)
            self._start_called(lane, lane.order, now_ms)
            if knows_more:
                self._engine.dispatch(lane)
        if lane.next_retry_ms <= now_ms:
            self._start_due(lane, now_ms)

    def _learn_rows(self, lane: Lane) -> bool:
        """Have a lane's order know of all rows, before which nothing is begun; return whether there were others; raise
        RowsComing where they are about to change, or something is being sent that the order does not know."""
        knows_more = lane.order is not None and lane.rows_changed
        if knows_more:
            if lane in self._engine.stale:
                raise RowsComing
            load_order(lane, self._store, self._rows_journal)
            lane.rows_ordered()
        if lane.awaits_order:
            raise RowsComing
        return knows_more

    def _start_called(self, lane: Lane, order: UserOrder, now_ms: int) -> None:
        """Start the rows whose user's turn it is (``delivery.order``)."""
        called, order.called = order.called, []
        coming = 0
        for index, position in enumerate(called):
            if position in lane.pending_rows or self._engine.room(lane, is_for_rows=True) <= coming:
                self._lacked_places |= self._engine.places(lane) <= coming
                order.called.append(position)
                continue
            try:
                row = self._rows.row(lane.number, position)
                if row is not None and (row.due_ms <= now_ms or row.due_ms >= NEVER_MS):
                    # One that was tried before, and asked to wait, comes at its own time.
                    self._start(lane, row, now_ms)
            except (JournalFetching, RowsComing):
                order.called.append(position)
                coming += 1
            except (JournalAway, DatabaseAway):
                order.called += called[index:]
                raise

    def _start_due(self, lane: Lane, now_ms: int) -> None:
        room = min(self._room(lane), ROWS_PER_TURN_MAX)
        # Nothing may go beyond the user's limits: the stream leaves some of them.
        limits = [lane.cap, lane.rate.burst if lane.rate is not None else None]
        least = min([each for each in limits if each is not None], default=None)
        lane.reserve(0 if room > 0 or least is None else max(1, least // BEYOND_SHARE))
        if room <= 0:
            return
        unsettled = len(lane.pending_rows) + len(lane.in_flight)
        if lane.order is not None:
            # Rows that wait for their user's turn may be due as well, and before the one whose turn it is.
            unsettled += min(lane.order.waiting, ROWS_PER_TURN_MAX)
        limit = room + unsettled
        rows = self._rows.first_due(lane.number, limit)
        started, is_fetching, is_away = 0, False, False
        # What is on its way shows its old time: what comes of it, saved, says when to look again.
        again_ms = AGAIN_MS if len(rows) >= limit else RECHECK_MS
        next_retry_ms = now_ms + again_ms
        for row in rows:
            if row.due_ms > now_ms:
                next_retry_ms = row.due_ms
                break
            if started == room:
                return
            try:
                started += self._start(lane, row, now_ms)
            except JournalFetching:  # the others are asked for too, so that they come together
                is_fetching = True
            except JournalAway:  # another partition may be there
                is_away = True
        if not is_fetching:
            lane.look_at_rows(now_ms + RECHECK_MS if is_away else next_retry_ms)

    def _room(self, lane: Lane) -> int:
        """Return how many rows of a lane may be tried now, an eighth of its allowance beyond it.

        A stream that is catching up fills every position the moment it falls free: what is due would wait for its end,
        and its window could end before. If streams of others fill them all, some are kept from the next look on.
        """
        engine = self._engine
        room = engine.room(lane, is_for_rows=True) - (engine.left_for_rows(lane.live) if lane.is_replay else 0)
        if room > 0 or engine.is_shut or lane.paused:
            return room
        positions = engine.places(lane)
        self._lacked_places |= positions <= 0
        if lane.is_replay or lane.rate is not None:
            return room
        beyond = lane.allowance + max(1, lane.allowance // BEYOND_SHARE) - len(lane.in_flight)
        if lane.breaker.state != "closed":
            positions = min(positions, self._unhealthy_in_flight_max - engine.unhealthy)
        return min(beyond, positions, lane.free())

    def _start(self, lane: Lane, row: RetryRow, now_ms: int) -> bool:
        """Try a row again, or close it when its time is over; return whether a request went out."""
        position = row.partition << POSITION_SHIFT | row.offset
        if position in lane.in_flight or position in lane.pending_rows:
            return False
        if lane.order is not None and not lane.order.may_start(position):
            if row.due_ms < NEVER_MS:
                self._engine.failures.wait_for_turn(lane, row)
            return False
        record = self._journal.get(row.partition, row.offset)
        if record is None:
            record_unreadable(self._engine, lane, self._journal, self._store.reader, row.partition, row.offset)
        if record is None or record.erased:
            self._close(lane, row, position)
            return False
        event = Event(position, record)
        first_at_ms = row.first_at_ms if row.attempt else now_ms
        urls = row.urls & ~ASKED_TO_WAIT
        before = Delivery(lane, event, first_at_ms, row.attempt, urls, True)
        if before.needs_nobody():
            self._engine.end_unasked(before)
            return False
        if self._engine.schedule.expired(now_ms, first_at_ms):
            self._engine.failures.bury(before, "expired", None, self._engine.clock.now_ms())
            return False
        self._engine.start(lane, event, row.attempt + 1, first_at_ms, urls, True)
        return True

    def _close(self, lane: Lane, row: RetryRow, position: int) -> None:
        lane.close_row(position)
        self._engine.batch.settle(lane.number, row.partition, row.offset)
        self._engine.next_of_user(lane, position)

    # probes

    def _probe(self, lane: Lane, now_ms: int) -> None:
        engine = self._engine
        now = engine.clock.monotonic()
        if lane.closed or lane.paused or not lane.targets:
            engine.probing.discard(lane)
            return
        if lane.free() <= 0 or (lane.is_replay and lane.spare(is_busy=True) <= 0):
            return
        is_open = lane.breaker.state == "open"
        if is_open and now < lane.others_probe_until_seconds:
            return
        if now < lane.probe_at_seconds or lane.in_flight or engine.is_shut:
            return
        if engine.unhealthy >= self._unhealthy_in_flight_max:
            return
        self._learn_rows(lane)
        wait_seconds = SUSPECT_SPACING_SECONDS
        if is_open:
            wait_seconds = Breaker.probe_wait_seconds(lane.probes, engine.schedule.max_ms / 1000)
        lane.probe_next(now + max(wait_seconds, lane.probe_spacing_seconds), lane.probes + 1)
        lane.probe_found(True)
        if not is_open and self._probe_with_queue(lane, now_ms):
            return
        # Events that were never attempted have every second turn: it may be those attempted that the receiver cannot
        # take. Where it was not even reached no event has a part in that, and the window of none begins for it.
        is_fresh_first = is_open and not lane.unreached and lane.probes % 2 == 0
        found = is_fresh_first and self._probe_with_fresh(lane, now_ms)
        if lane.in_flight or lane.probe_at_seconds <= now:  # something left, or the look for it goes on
            return
        if self._probe_with_row(lane, now_ms, is_open):
            return
        lane.probe_found(found or (not is_fresh_first and self._probe_with_fresh(lane, now_ms)))

    def _probe_with_fresh(self, lane: Lane, now_ms: int) -> bool:
        """Try an event that was not tried before; return False when there is none."""
        if self._probe_with_queue(lane, now_ms):
            return True
        event = self._feeder.catch_up.take_one(lane)
        if event is not None:
            if self._is_its_turn(lane, event):
                self._engine.start(lane, event, 1, now_ms, ALL_URLS, False)
            return True
        if self._feeder.catch_up.is_behind(lane):
            lane.probe_at_once()  # nothing was tried: go on looking at the next beat
            return True
        return False

    def _probe_with_queue(self, lane: Lane, now_ms: int) -> bool:
        # Down to an event whose turn it is: reading on while others are queued would give some of them back twice.
        started = False
        while lane.queue and not started:
            event = lane.take_first()
            if self._is_its_turn(lane, event):
                self._engine.start(lane, event, 1, now_ms, ALL_URLS, False)
                started = True
        self._engine.dispatch(lane)  # sends nothing, but a lane that was full and has an empty queue now reads on
        return started

    def _is_its_turn(self, lane: Lane, event: Event) -> bool:
        """Return whether no earlier event of its user holds it up; if one does, it waits as a row."""
        if lane.order is None or lane.order.admit(event):
            return True
        del lane.order.held[event.position]
        self._engine.failures.keep_as_row(lane, event.position)
        return False

    def _probe_with_row(self, lane: Lane, now_ms: int, is_open: bool) -> bool:
        if lane in self._engine.stale:
            raise RowsComing
        overdue_before_ms = int(now_ms - self._engine.schedule.window_ms) if is_open else None
        limit = PROBE_ROWS + len(lane.pending_rows)
        oldest, overdue = self._rows.for_probe(lane.number, limit, now_ms, overdue_before_ms)
        self._expire(lane, overdue, now_ms)
        rows = [row for row in oldest if row.partition << POSITION_SHIFT | row.offset not in lane.pending_rows]
        if lane.order is not None:
            rows = [row for row in rows if lane.order.may_start(row.partition << POSITION_SHIFT | row.offset)]
        if not rows:
            return False
        row = rows[max(0, lane.probes // 2 - 1) % min(len(rows), PROBE_ROWS)]
        return self._start(lane, row, now_ms)

    def _expire(self, lane: Lane, overdue: Sequence[RetryRow], now_ms: int) -> None:
        """Events tried once, whose lane is held since: their window ends although nothing is sent."""
        for row in overdue:
            if row.attempt and self._engine.schedule.expired(now_ms, row.first_at_ms):
                self._start(lane, row, now_ms)


def load_order(lane: Lane, store: DeliverStore, journal: Reader) -> None:
    """Note every row that holds up its user, and call the turn of those that wait to be called and are first."""
    order = lane.order
    if order is None:
        return
    waiting: list[int] = []
    holding_up: dict[int, list[int]] = defaultdict(list)
    for row in store.rows.oldest(lane.number, lane.retry_count + len(lane.pending_rows)):
        position = row.partition << POSITION_SHIFT | row.offset
        # What the next checkpoint changes is known already, or done.
        if position in lane.pending_rows or position in lane.in_flight:
            continue
        if row.attempt < lane.options.set_aside_after:
            holding_up[row.partition].append(row.offset)
        if row.due_ms >= NEVER_MS:
            waiting.append(position)
    for partition, offsets in holding_up.items():
        for offset, record in journal.get_all(partition, offsets):
            if not record.erased:
                order.note(partition << POSITION_SHIFT | offset, record.user_key)
    # Those called whose row is not saved yet were passed over above: they stay called.
    order.called[:] = [position for position in order.called if position in lane.pending_rows]
    for position in waiting:
        order.call(position)
