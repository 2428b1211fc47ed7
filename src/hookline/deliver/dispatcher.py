"""The engine: whose turn it is to send. ``departures`` makes the requests, ``results`` takes what comes of them.

This is the hot path. It knows no files and no sockets: readers fill the lanes (``feeder.py``), pools send, the
checkpoint saves what happened (``checkpointer.py``). One delivery costs no task, timer or future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import takewhile

from hookline.deliver.clock import Clock
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.counters import Counters
from hookline.deliver.departures import Departures
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import Delivery
from hookline.deliver.lanes.lane import QUEUE_LOW, RETRY_ROWS_MAX, Lane
from hookline.deliver.results import Results
from hookline.deliver.retry.failures import Failures
from hookline.deliver.retry.schedule import RetrySchedule
from hookline.deliver.store.batch import Batch
from hookline.deliver.tallies import Tallies
from hookline.journal.record import Record
from hookline.outcomes.progress import ProgressRing

IN_FLIGHT_MAX = 2_048
SICK_IN_FLIGHT_MAX = IN_FLIGHT_MAX // 4
"""Lanes that are not fully healthy share at most a quarter of the places."""
FAILURES_HELD_MAX = 16_384
"""Failed attempts that no checkpoint has saved yet: with so many, sending waits for one, as it does for a full ring."""
BURST_MAX = 64
"""Requests made before the first of them leaves."""


class Engine:
    """Dispatches deliveries, and keeps what its two halves share."""

    def __init__(
        self,
        clock: Clock,
        schedule: RetrySchedule,
        ring: ProgressRing,
        counters: Counters,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.clock = clock
        self.schedule = schedule
        self.ring = ring
        self.counters = counters
        self.tallies = Tallies()
        self.batch = Batch()
        self.failures = Failures(self)
        self.departures = Departures(self)
        self.results = Results(self)
        self.lanes: dict[int, Lane] = {}
        self.open_lanes: set[Lane] = set()
        """Lanes with work that a checkpoint must know of."""
        self.retrying: set[Lane] = set()
        """Lanes that have retry rows."""
        self.probing: set[Lane] = set()
        """Lanes whose breaker lets through one event at a time."""
        self.recount: set[Lane] = set()
        """Lanes some of whose rows went to other workers: how many are left is asked of the database."""
        self.flying = 0
        self.sick = 0
        self.stopping = False
        self.fence: Fence | None = None
        """Where deliver is many processes: until when this one may send."""
        self.on_lane: Callable[[Lane], None] = lambda lane: None
        """Called with each new lane, before anything is sent."""
        self.keep_record: Callable[[int, int, Record], None] | None = None
        """Where the journal is on brokers: keeps the record at a partition's offset at hand, for it is tried again."""
        self.on_room: Callable[[Lane], None] = lambda lane: None
        """Called when a lane that was full has room again."""
        self.on_open: Callable[[Lane], None] = lambda lane: None
        """Called when a lane's breaker has opened."""
        self.on_recovered: Callable[[Lane], None] = lambda lane: None
        """Called when a probe succeeded."""
        self._call_soon = call_soon
        self._steady_ms = clock.steady_ms
        self._ready: list[Lane] = []
        self._starved: deque[Lane] = deque()
        self._paced: set[Lane] = set()
        """Lanes that wait for their rate, or for others that share their limit."""

    @property
    def full(self) -> bool:
        """Whether sending must wait for a checkpoint: there is no more room for what comes of it."""
        return self.ring.full or len(self.batch.attempts) >= FAILURES_HELD_MAX

    def dispatch(self, lane: Lane) -> None:
        """Send what the lane has queued, as far as its breaker, the places in flight and the ring allow."""
        queue = lane.queue
        may_leave = len(queue) if lane.retry_count < RETRY_ROWS_MAX else _leading(lane)
        count = min(may_leave, self.room(lane) - (lane.reserved if lane.retry_count > 0 else 0))
        if count > 0:
            now_ms = self._steady_ms()
            take = queue.popleft
            is_plain = lane.is_plain
            self.open_lanes.add(lane)
            while count > 0:
                burst = min(count, BURST_MAX)
                events = [take() for _ in range(burst)] if lane.order is None else self._whose_turn(lane, burst)
                count -= burst
                if lane.loose:
                    lane.loose.difference_update([event.place for event in events])
                if is_plain:
                    self.departures.depart_plainly(lane, events, now_ms)
                else:
                    self.departures.depart(lane, [Delivery(lane, event, now_ms) for event in events])
        if queue and len(lane.in_flight) < lane.breaker.allowance and lane not in self._paced:
            self._starve(lane)
        if lane.catch_up_rate is not None and not queue and not lane.detached:
            lane.catch_up_rate = None
            lane.pace()
        if lane.full and lane.size < QUEUE_LOW:
            lane.full = False
            self.on_room(lane)

    def fed(self, lane: Lane, full: set[Lane] | None = None) -> None:
        """Send what a reader has put into a lane; one that has enough is put into ``full``."""
        if not lane.queue:
            return
        self.open_lanes.add(lane)
        lane.full = lane.size >= QUEUE_LOW
        if lane.full and full is not None:
            full.add(lane)
        self.dispatch(lane)

    def _whose_turn(self, lane: Lane, count: int) -> list[Event]:
        """At most so many queued events that no earlier one of their user holds up."""
        order, queue = lane.order, lane.queue
        found: list[Event] = []
        while order is not None and queue and len(found) < count:
            event = queue.popleft()
            if order.admit(event):
                found.append(event)
            elif order.spill(event.place):
                self.failures.wait_for_turn(lane, event.place)
        return found

    def next_of_user(self, lane: Lane, place: int) -> None:
        """An event no longer holds up its user's others (``delivery.order``)."""
        following = lane.order.finished(place) if lane.order is not None else None
        if following is not None and not lane.closed:
            lane.loose.add(following.place)
            lane.queue.appendleft(following)
            if not lane.ready:
                self.go_on(lane)  # nothing else may happen in the lane: the event before may have expired as a row

    def room(self, lane: Lane) -> int:
        """How many more requests of the lane may be in flight now."""
        if self.is_shut or lane.paused:
            return 0
        room = min(lane.breaker.allowance - len(lane.in_flight), IN_FLIGHT_MAX - self.flying)
        if lane.is_sick:
            room = min(room, SICK_IN_FLIGHT_MAX - self.sick)
        if lane.is_replay and lane.spare() < room:
            room = lane.spare()
            if lane.queue:
                self._paced.add(lane)
        elif lane.cap is not None and lane.free() < room:
            room = lane.free()
            if lane.queue:
                self._paced.add(lane)
        if lane.rate is None or room <= 0:
            return room
        available = lane.rate.available(self.clock.monotonic())
        if available < room:
            self._paced.add(lane)
        return min(room, available)

    @property
    def is_shut(self) -> bool:
        """Whether nothing new may be sent just now."""
        return self.full or self.stopping or (self.fence is not None and self.fence.is_shut)

    def start(self, lane: Lane, event: Event, attempt: int, first_at_ms: int, urls: int, from_row: bool) -> None:
        """Begin one attempt by itself."""
        self.open_lanes.add(lane)
        self.departures.depart(lane, [Delivery(lane, event, first_at_ms, attempt, urls, from_row)])

    def release(self, delivery: Delivery) -> None:
        """Give back the place in flight of a delivery that has ended."""
        del delivery.lane.in_flight[delivery.event.place]
        self.flying -= 1
        if delivery.sick:
            self.sick -= 1

    # whose turn it is

    def go_on(self, lane: Lane) -> None:
        """Dispatch when this turn's other answers are in too, so that what follows them leaves together."""
        lane.ready = True
        if not self._ready:
            self._call_soon(self.turn)
        self._ready.append(lane)

    def turn(self) -> None:
        """Dispatch the lanes that answers have made room in."""
        ready, self._ready = self._ready, []
        for lane in ready:
            lane.ready = False
            self.dispatch(lane)

    def _starve(self, lane: Lane) -> None:
        if not lane.starved:
            lane.starved = True
            self._starved.append(lane)

    def feed_starved(self, places: int) -> None:
        """Give so many freed places to the lanes that have waited longest."""
        for _ in range(min(places, len(self._starved))):
            lane = self._starved.popleft()
            lane.starved = False
            if not lane.ready:
                self.go_on(lane)

    @property
    def paced(self) -> Iterable[Lane]:
        """Lanes that would send if their rate, or the user's limit, allowed it."""
        return self._paced

    def wake_paced(self) -> None:
        """Let lanes go on whose rate allows it by now; called several times a second."""
        paced, self._paced = self._paced, set()
        for lane in paced:
            if not lane.closed and not lane.ready:
                self.go_on(lane)

    def wake_starved(self) -> None:
        """Let every waiting lane try again, after something else than an answer made room."""
        self.feed_starved(len(self._starved))


def _leading(lane: Lane) -> int:
    """How many queued events may leave although the lane has as many rows as it may: those that rows wait for."""
    order = lane.order
    if order is None:
        return 0
    return sum(1 for _ in takewhile(lambda event: order.holds_up(event.place), lane.queue))
