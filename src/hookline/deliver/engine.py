"""The engine: takes events from lanes, sends them, and decides what each answer means.

This is the hot path. It knows no files and no sockets: readers fill the lanes (``feeder.py``), pools send, the
checkpoint saves what happened (``checkpointer.py``). One delivery costs no task, timer or future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from hookline.deliver.batch import Batch
from hookline.deliver.clock import Clock
from hookline.deliver.connection import Failure
from hookline.deliver.counters import Counters
from hookline.deliver.delivery import ALL_URLS, Delivery, FailedTry
from hookline.deliver.event import Event
from hookline.deliver.failures import Failures
from hookline.deliver.lane import QUEUE_LOW, RETRY_ROWS_MAX, Lane
from hookline.deliver.schedule import RetrySchedule
from hookline.deliver.target import Target
from hookline.outcomes.outcome import PARTIAL, Outcome
from hookline.outcomes.progress import MILLISECONDS_MAX, ProgressRing
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

IN_FLIGHT_MAX = 2_048
SICK_IN_FLIGHT_MAX = IN_FLIGHT_MAX // 4
"""Lanes that are not fully healthy share at most a quarter of the places."""
LINGERING_MAX = 64
"""Requests per URL that may still run although another URL has taken the event; beyond, the URL is left out."""
SLOW_MS = 25
"""A receiver that answers within this is not helped by more requests at once."""
BURST_MAX = 64
"""Requests made before the first of them leaves."""

Burst = list[tuple[object, bytes]]
"""Requests for one target: what the pool gives back with the answer, and the bytes."""


class Engine:
    """Dispatches deliveries and takes their answers."""

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
        self.batch = Batch()
        self.failures = Failures(self)
        self.lanes: dict[int, Lane] = {}
        self.open_lanes: set[Lane] = set()
        """Lanes with work that a checkpoint must know of."""
        self.retrying: set[Lane] = set()
        """Lanes that have retry rows."""
        self.probing: set[Lane] = set()
        """Lanes whose breaker lets through one event at a time."""
        self.flying = 0
        self.sick = 0
        self.stopping = False
        self.on_room: Callable[[Lane], None] = lambda lane: None
        """Called when a lane that was full has room again."""
        self.on_open: Callable[[Lane], None] = lambda lane: None
        """Called when a lane's breaker has opened."""
        self.on_recovered: Callable[[Lane], None] = lambda lane: None
        """Called when a probe succeeded."""
        self._call_soon = call_soon
        self._now_ms = clock.now_ms
        self._ready: list[Lane] = []
        self._starved: deque[Lane] = deque()
        self._paced: set[Lane] = set()
        """Lanes that wait for their rate."""
        self._durations_ms: list[int] = []
        self._latencies_ms: list[int] = []
        self._log = logger()

    def dispatch(self, lane: Lane) -> None:
        """Send what the lane has queued, as far as its breaker, the places in flight and the ring allow."""
        queue = lane.queue
        count = min(len(queue), self.room(lane)) if lane.retry_count < RETRY_ROWS_MAX else 0
        if count > 0:
            now_ms = self._now_ms()
            take = queue.popleft
            self.open_lanes.add(lane)
            while count > 0:
                if lane.order is None:
                    leaving = [Delivery(lane, take(), now_ms) for _ in range(min(count, BURST_MAX))]
                else:
                    leaving = [Delivery(lane, event, now_ms) for event in self._whose_turn(lane, min(count, BURST_MAX))]
                count -= BURST_MAX
                if lane.loose:
                    lane.loose.difference_update([delivery.event.place for delivery in leaving])
                self._depart(lane, leaving)
        if queue and len(lane.in_flight) < lane.breaker.allowance and lane not in self._paced:
            self._starve(lane)
        if lane.catch_up_rate is not None and not queue and not lane.detached:
            lane.catch_up_rate = None
            lane.pace()
        if lane.full and lane.size < QUEUE_LOW:
            lane.full = False
            self.on_room(lane)

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
        if following is not None:
            lane.loose.add(following.place)
            lane.queue.appendleft(following)

    def room(self, lane: Lane) -> int:
        """How many more requests of the lane may be in flight now."""
        if self.ring.full or self.stopping or lane.paused:
            return 0
        room = min(lane.breaker.allowance - len(lane.in_flight), IN_FLIGHT_MAX - self.flying)
        if lane.is_replay or lane.breaker.state != "closed":
            room = min(room, SICK_IN_FLIGHT_MAX - self.sick)
        if lane.is_replay and lane.spare() < room:
            room = lane.spare()
            if lane.queue:
                self._paced.add(lane)
        if lane.rate is None or room <= 0:
            return room
        available = lane.rate.available(self.clock.monotonic())
        if available < room:
            self._paced.add(lane)
        return min(room, available)

    def start(self, lane: Lane, event: Event, attempt: int, first_at_ms: int, urls: int, from_row: bool) -> None:
        """Begin one attempt by itself."""
        self.open_lanes.add(lane)
        self._depart(lane, [Delivery(lane, event, first_at_ms, attempt, urls, from_row)])

    def _depart(self, lane: Lane, leaving: Sequence[Delivery]) -> None:
        """Make the requests of some attempts, then send them: one POST to each URL, all at once (SPEC 4.1 rules 1, 2).

        All requests are made first and then sent in one go: a receiver is woken once for many, not once for each.
        """
        self.flying += len(leaving)
        if lane.rate is not None:
            lane.rate.take(len(leaving))
        if lane.is_replay or lane.breaker.state != "closed":
            self.sick += len(leaving)
            for delivery in leaving:
                delivery.sick = True
        in_flight, targets = lane.in_flight, lane.targets
        bursts: list[Burst] = [[] for _ in targets]
        if len(targets) == 1:
            burst, request = bursts[0], targets[0].request
            for delivery in leaving:
                event = delivery.event
                in_flight[event.place] = delivery
                try:
                    burst.append((delivery, request(event)))
                except Exception as error:  # noqa: BLE001 - an event that cannot be rendered must not stop the others
                    self._unsendable(delivery, error)
        else:
            for delivery in leaving:
                in_flight[delivery.event.place] = delivery
                try:
                    self._ask_several(delivery, targets, bursts)
                except Exception as error:  # noqa: BLE001 - as above
                    self._unsendable(delivery, error)
        for target, burst in zip(targets, bursts, strict=True):
            if burst:
                target.pool.send(target, burst)

    def _ask_several(self, delivery: Delivery, targets: Sequence[Target], bursts: list[Burst]) -> None:
        chosen = _chosen(targets, delivery.urls)
        fan_out = delivery.lane.options.fan_out
        if fan_out == "any":
            chosen = [target for target in chosen if target.lingering < LINGERING_MAX] or chosen
        elif fan_out == "fallback":
            chosen = chosen[:1]
        requests = [(target, target.request(delivery.event)) for target in chosen]
        delivery.targets = chosen
        delivery.outstanding = len(chosen)
        for target, request in requests:
            bursts[target.index].append((delivery, request))

    def _unsendable(self, delivery: Delivery, error: Exception) -> None:
        self._log.error("event_unsendable", destination=delivery.lane.destination.id, exc_info=error)
        delivery.done = True
        self._release(delivery)
        failure = Failure(Outcome.REJECTED, None, f"the request could not be made ({type(error).__name__})")
        self.failures.bury(delivery, "failed", failure, self._now_ms())

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take the result of one request (``connection.Sink``)."""
        delivery: Delivery = token  # type: ignore[assignment]
        outstanding = delivery.outstanding = delivery.outstanding - 1
        if failure is not None:
            self._failed(delivery, target, result, milliseconds, failure)
            return
        if delivery.done:
            target.lingering -= 1
            return
        now_ms = self._now_ms()
        lane, event = delivery.lane, delivery.event
        crash_point("deliver.answered_before_mark")
        if lane.to_all and not self._was_the_last(delivery, target, result, milliseconds, now_ms):
            return
        self.ring.add(event.place, now_ms - milliseconds, target.tag, result, min(milliseconds, MILLISECONDS_MAX))
        delivery.done = True
        self._durations_ms.append(milliseconds)
        self._latencies_ms.append(now_ms - event.record.received_at)
        if outstanding or delivery.failures or delivery.from_row:
            self._finish_uncommon_success(delivery, target)
        self._release(delivery)
        if lane.order is not None:
            self.next_of_user(lane, event.place)
        if milliseconds > SLOW_MS or not lane.breaker.steady:
            self._succeeded(lane, milliseconds)
        if lane.queue and not lane.ready:
            self._go_on(lane)
        if self._starved:
            self._feed_starved()

    def _was_the_last(self, delivery: Delivery, target: Target, result: int, milliseconds: int, now_ms: int) -> bool:
        """Whether with this success every URL has accepted (fan-out ``all``); if not, what follows is done here."""
        refused_before = delivery.urls > ALL_URLS
        if not (delivery.outstanding or delivery.failures or refused_before):
            return True
        place, duration = delivery.event.place, min(milliseconds, MILLISECONDS_MAX)
        self.ring.add(place, now_ms - milliseconds, target.tag, PARTIAL + result, duration)
        delivery.accepted = True
        self._succeeded(delivery.lane, milliseconds)
        if not delivery.outstanding:
            self._end_failed(delivery, now_ms)
        return False

    def _failed(self, delivery: Delivery, target: Target, result: int, milliseconds: int, failure: Failure) -> None:
        now_ms = self._now_ms()
        self.failures.count(delivery.lane, failure)
        failed = FailedTry(target, failure, result, now_ms - milliseconds, milliseconds)
        if delivery.done:
            target.lingering -= 1
            self._note_try(delivery, failed)
            return
        delivery.failures = [*(delivery.failures or ()), failed]
        if not delivery.outstanding and not self._fell_back(delivery):
            self._end_failed(delivery, now_ms)

    def _fell_back(self, delivery: Delivery) -> bool:
        """Ask the next URL that has not failed (fan-out ``fallback``); False when there is none."""
        lane = delivery.lane
        if lane.options.fan_out != "fallback" or self.stopping:
            return False
        for target in _chosen(lane.targets, delivery.urls):
            if not _has_failed(delivery, target):
                delivery.outstanding = 1
                target.pool.send(target, [(delivery, target.request(delivery.event))])
                return True
        return False

    def _end_failed(self, delivery: Delivery, now_ms: int) -> None:
        """Every URL has been asked, and not as many have accepted as should."""
        lane = delivery.lane
        self._release(delivery)
        self.failures.decide(delivery, delivery.failures or [], now_ms)
        if lane.queue and not lane.ready:
            self._go_on(lane)
        if self._starved:
            self._feed_starved()

    def _release(self, delivery: Delivery) -> None:
        del delivery.lane.in_flight[delivery.event.place]
        self.flying -= 1
        if delivery.sick:
            self.sick -= 1

    def _finish_uncommon_success(self, delivery: Delivery, winner: Target) -> None:
        for target in delivery.targets if delivery.outstanding else ():
            if target is not winner and not _has_failed(delivery, target):
                target.lingering += 1
        for failed in delivery.failures or ():
            self._note_try(delivery, failed)
        if delivery.from_row:
            self.failures.settle_row(delivery)

    def _note_try(self, delivery: Delivery, failed: FailedTry) -> None:
        """A failure that did not decide the delivery goes into the block of results, not into a row."""
        milliseconds = min(failed.milliseconds, MILLISECONDS_MAX)
        self.ring.add(delivery.event.place, failed.at_ms, failed.target.tag, failed.result, milliseconds)

    def _succeeded(self, lane: Lane, milliseconds: int) -> None:
        lane.gone = False
        was_probing = lane in self.probing
        was_open = lane.breaker.succeeded(wants_more=milliseconds > SLOW_MS and bool(lane.queue))
        if was_probing:
            self.probing.discard(lane)
            lane.probes = 0
            if was_open:
                self._log.info("destination_recovered", destination=lane.destination.id)
            self.on_recovered(lane)

    def count_times(self) -> None:
        """Add the successes since the last call to the counters; often enough that they stay few."""
        self.counters.delivered += len(self._durations_ms)
        self.counters.durations.add(self._durations_ms)
        self.counters.latencies.add(self._latencies_ms)
        self._durations_ms.clear()
        self._latencies_ms.clear()

    # whose turn it is

    def _go_on(self, lane: Lane) -> None:
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

    def _feed_starved(self) -> None:
        """Give a freed place to the lane that has waited longest."""
        lane = self._starved.popleft()
        lane.starved = False
        if not lane.ready:
            self._go_on(lane)

    def wake_paced(self) -> None:
        """Let lanes go on whose rate allows it by now; called several times a second."""
        paced, self._paced = self._paced, set()
        for lane in paced:
            if not lane.closed and not lane.ready:
                self._go_on(lane)

    def wake_starved(self) -> None:
        """Let every waiting lane try again, after something else than an answer made room."""
        for _ in range(len(self._starved)):
            self._feed_starved()


def _chosen(targets: Sequence[Target], urls: int) -> list[Target]:
    return [target for target in targets if urls >> target.index & 1] or list(targets)


def _has_failed(delivery: Delivery, target: Target) -> bool:
    # By index: with changed settings the lane has other targets than the delivery began with.
    return any(failed.target.index == target.index for failed in delivery.failures or ())
