"""The engine: takes events from lanes, sends them, and decides what each answer means.

This is the hot path. It knows no files and no sockets: readers fill the lanes (``feeder.py``), pools send, the
checkpoint saves what happened (``checkpointer.py``). One delivery costs no task, timer or future.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from hookline.deliver.batch import AttemptRow, Batch, DeadLetterRow, RetryRow
from hookline.deliver.breaker import FULL_ALLOWANCE
from hookline.deliver.clock import Clock
from hookline.deliver.connection import Failure
from hookline.deliver.counters import Counters
from hookline.deliver.event import Event
from hookline.deliver.lane import QUEUE_LOW, RETRY_ROWS_MAX, Delivery, FailedTry, Lane
from hookline.deliver.schedule import RetrySchedule, retry_after_ms
from hookline.deliver.target import Target
from hookline.outcomes.outcome import FINAL, Outcome
from hookline.outcomes.progress import OFFSET_MASK, PLACE_SHIFT, ProgressRing
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

IN_FLIGHT_MAX = 2_048
SICK_IN_FLIGHT_MAX = IN_FLIGHT_MAX // 4
"""Lanes that are not fully healthy share at most a quarter of the places."""
LINGERING_MAX = 64
"""Requests per URL that may still run although another URL has taken the event; beyond, the URL is left out."""
BURST_MAX = 64
"""Requests made before the first of them leaves."""
ALL_URLS = 31
GONE = 410


Outgoing = tuple[Target, Delivery, bytes]


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
        self.lanes: dict[int, Lane] = {}
        self.open_lanes: set[Lane] = set()
        """Lanes with work that a checkpoint must know of."""
        self.retrying: set[Lane] = set()
        """Lanes that have retry rows."""
        self.probing: set[Lane] = set()
        """Lanes whose breaker lets through one event at a time."""
        self.timed_out: set[Lane] = set()
        """Lanes with timeouts not logged yet."""
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
        self._ready: list[Lane] = []
        self._starved: deque[Lane] = deque()
        self._durations_ms: list[int] = []
        self._latencies_ms: list[int] = []
        self._log = logger()

    def dispatch(self, lane: Lane) -> None:
        """Send what the lane has queued, as far as its breaker, the places in flight and the ring allow.

        All requests are made first and then sent in one go: a receiver is woken once for many, not once for each.
        """
        queue, in_flight = lane.queue, lane.in_flight
        count = min(len(queue), self.room(lane)) if lane.retry_count < RETRY_ROWS_MAX else 0
        if count > 0:
            now_ms = self.clock.now_ms()
            loose, take = lane.loose, queue.popleft
            self.open_lanes.add(lane)
            outgoing: list[Outgoing] = []
            for _ in range(count):
                event = take()
                if loose:
                    loose.discard(event.place)
                self._begin(Delivery(lane, event, 1, now_ms, ALL_URLS, False), outgoing)
                if len(outgoing) >= BURST_MAX:
                    _send(outgoing)
                    outgoing = []
            _send(outgoing)
        if queue and len(in_flight) < lane.breaker.allowance:
            self._starve(lane)
        if lane.full and len(queue) < QUEUE_LOW:
            lane.full = False
            self.on_room(lane)

    def room(self, lane: Lane) -> int:
        """How many more requests of the lane may be in flight now."""
        if self.ring.full or self.stopping:
            return 0
        room = min(lane.breaker.allowance - len(lane.in_flight), IN_FLIGHT_MAX - self.flying)
        return room if lane.breaker.state == "closed" else min(room, SICK_IN_FLIGHT_MAX - self.sick)

    def start(self, lane: Lane, event: Event, attempt: int, first_at_ms: int, urls: int, from_row: bool) -> None:
        """Begin one attempt by itself."""
        outgoing: list[Outgoing] = []
        self.open_lanes.add(lane)
        self._begin(Delivery(lane, event, attempt, first_at_ms, urls, from_row), outgoing)
        _send(outgoing)

    def _begin(self, delivery: Delivery, outgoing: list[Outgoing]) -> None:
        """Make the requests of one attempt: one POST to each URL of the mask, all at once (SPEC 4.1 rules 1 and 2)."""
        lane, event = delivery.lane, delivery.event
        lane.in_flight[event.place] = delivery
        self.flying += 1
        if lane.breaker.state != "closed":
            delivery.sick = True
            self.sick += 1
        targets: Sequence[Target] = lane.targets
        if len(targets) > 1:
            targets = delivery.targets = _sendable(targets, delivery.urls)
        delivery.outstanding = len(targets)
        try:
            for target in targets:
                outgoing.append((target, delivery, target.request(event)))
        except Exception as error:  # noqa: BLE001 - an event that cannot be rendered must not stop the others
            self._unsendable(delivery, error)

    def _unsendable(self, delivery: Delivery, error: Exception) -> None:
        self._log.error("event_unsendable", destination=delivery.lane.destination.id, exc_info=error)
        delivery.done = True
        self._release(delivery)
        failure = Failure(Outcome.REJECTED, None, f"the request could not be made ({type(error).__name__})")
        self.bury(delivery, "failed", failure, self.clock.now_ms())

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take the result of one request (``connection.Sink``)."""
        delivery: Delivery = token  # type: ignore[assignment]
        now_ms = self.clock.now_ms()
        delivery.outstanding -= 1
        if failure is not None:
            self._failed(delivery, target, result, milliseconds, failure, now_ms)
            return
        if delivery.done:
            target.lingering -= 1
            return
        lane, event = delivery.lane, delivery.event
        crash_point("deliver.answered_before_mark")
        self.ring.add(event.place, now_ms - milliseconds, target.tag, result, min(milliseconds, 65_535))
        delivery.done = True
        self.counters.delivered += 1
        self._durations_ms.append(milliseconds)
        self._latencies_ms.append(now_ms - event.record.received_at)
        if delivery.outstanding or delivery.failures or delivery.from_row:
            self._finish_uncommon_success(delivery, target)
        self._release(delivery)
        breaker = lane.breaker
        if breaker.failures or breaker.allowance != FULL_ALLOWANCE:
            self._succeeded(lane)
        if lane.queue:
            self._go_on(lane)
        if self._starved:
            self._feed_starved()

    def _go_on(self, lane: Lane) -> None:
        """Dispatch when this turn's other answers are in too, so that what follows them leaves together."""
        if not lane.ready:
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

    def count_times(self) -> None:
        """Add the times since the last call to the counters; often enough that they stay few."""
        self.counters.durations.add(self._durations_ms)
        self.counters.latencies.add(self._latencies_ms)
        self._durations_ms.clear()
        self._latencies_ms.clear()

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
            self._settle_row(delivery)

    def _note_try(self, delivery: Delivery, failed: FailedTry) -> None:
        """A failure that did not decide the delivery goes into the block of results, not into a row."""
        milliseconds = min(failed.milliseconds, 65_535)
        self.ring.add(delivery.event.place, failed.at_ms, failed.target.tag, failed.result, milliseconds)

    def _settle_row(self, delivery: Delivery) -> None:
        lane, place = delivery.lane, delivery.event.place
        lane.retry_count -= 1
        lane.settling.add(place)
        self.batch.settle(lane.number, place >> PLACE_SHIFT, place & OFFSET_MASK)

    def _succeeded(self, lane: Lane) -> None:
        was_probing = lane in self.probing
        was_open = lane.breaker.succeeded()
        if was_probing:
            self.probing.discard(lane)
            lane.probes = 0
            if was_open:
                self._log.info("destination_recovered", destination=lane.destination.id)
            self.on_recovered(lane)

    # failures

    def _failed(
        self, delivery: Delivery, target: Target, result: int, milliseconds: int, failure: Failure, now_ms: int
    ) -> None:
        lane = delivery.lane
        self.counters.failures[failure.outcome] += 1
        if failure.outcome is Outcome.TIMED_OUT:
            lane.timeouts += 1
            self.timed_out.add(lane)
        failed = FailedTry(target, failure, result, now_ms - milliseconds, milliseconds)
        if delivery.done:
            target.lingering -= 1
            self._note_try(delivery, failed)
            return
        delivery.failures = [*(delivery.failures or ()), failed]
        if delivery.outstanding:
            return
        self._release(delivery)
        self._decide(delivery, delivery.failures, now_ms)
        if lane.queue:
            self._go_on(lane)
        if self._starved:
            self._feed_starved()

    def _decide(self, delivery: Delivery, failures: list[FailedTry], now_ms: int) -> None:
        """Every URL refused: try again later, or give up (SPEC 7; DESIGN 4)."""
        lane = delivery.lane
        gone = all(failed.failure.status == GONE for failed in failures)
        urls = _retryable_urls(failures) if not gone else ALL_URLS
        due_ms = None
        if urls:
            asked = [retry_after_ms(f.failure.retry_after) for f in failures if f.failure.retry_after is not None]
            wait_ms = max((ms for ms in asked if ms is not None), default=None)
            due_ms = self.schedule.next_due(now_ms, delivery.first_at_ms, delivery.attempt, wait_ms)
        self._record_attempts(delivery, failures, due_ms)
        last = failures[-1].failure
        if lane.closed:
            return
        if due_ms is None:
            self.bury(delivery, "expired" if urls else "failed", last, now_ms)
        else:
            self._retry_later(delivery, urls, due_ms)
        if lane.breaker.failures == 0:
            lane.run_started_ms = now_ms
        reason = f"{last.outcome} {last.status}" if last.status else str(last.outcome)
        opened = lane.breaker.failed(self.clock.monotonic(), reason)
        if gone and lane.breaker.state != "open":
            lane.breaker.open(reason)
            opened = True
        if opened:
            self._open(lane)
        elif lane.breaker.state == "open":
            self.batch.recalls.append((lane.number, now_ms))  # a probe burns nothing either
        elif lane.breaker.allowance == 0 and not lane.closed:
            self.probing.add(lane)

    def _record_attempts(self, delivery: Delivery, failures: list[FailedTry], due_ms: int | None) -> None:
        lane, place = delivery.lane, delivery.event.place
        for failed in failures:
            failure = failed.failure
            self.batch.attempts.append(
                AttemptRow(
                    place >> PLACE_SHIFT,
                    place & OFFSET_MASK,
                    lane.number,
                    lane.destination.id,
                    delivery.attempt,
                    failed.target.url,
                    failed.at_ms,
                    failure.outcome.value,
                    failure.status,
                    failure.error,
                    failed.milliseconds,
                    due_ms,
                )
            )

    def _retry_later(self, delivery: Delivery, urls: int, due_ms: int) -> None:
        lane, place = delivery.lane, delivery.event.place
        partition, offset = place >> PLACE_SHIFT, place & OFFSET_MASK
        if not delivery.from_row:
            lane.retry_count += 1
            self.retrying.add(lane)
        lane.settling.add(place)
        lane.next_retry_ms = min(lane.next_retry_ms or due_ms, due_ms)
        self.counters.retries_scheduled += 1
        self.batch.retry(RetryRow(lane.number, partition, offset, delivery.attempt, delivery.first_at_ms, due_ms, urls))

    def retry_never_tried(self, lane: Lane, place: int) -> None:
        """Set an event aside that was queued out of order: a retry row with no attempt, due at once."""
        now_ms = self.clock.now_ms()
        lane.retry_count += 1
        self.retrying.add(lane)
        lane.loose.discard(place)
        lane.settling.add(place)
        lane.next_retry_ms = min(lane.next_retry_ms or now_ms, now_ms)
        self.batch.retry(RetryRow(lane.number, place >> PLACE_SHIFT, place & OFFSET_MASK, 0, now_ms, now_ms, ALL_URLS))

    def bury(self, delivery: Delivery, fate: str, last: Failure | None, now_ms: int) -> None:
        """Give a delivery up: one dead letter."""
        lane, event = delivery.lane, delivery.event
        record, place = event.record, event.place
        if delivery.from_row:
            self._settle_row(delivery)
        self.counters.dead_lettered += 1
        self.batch.dead_letters.append(
            DeadLetterRow(
                lane.number,
                lane.destination.id,
                place >> PLACE_SHIFT,
                place & OFFSET_MASK,
                record.message_id,
                record.source,
                record.type,
                fate,
                delivery.attempt,
                now_ms,
                last.outcome.value if last else None,
                last.status if last else None,
                last.error if last else None,
            )
        )

    def _open(self, lane: Lane) -> None:
        self.counters.breaker_opened += 1
        self.probing.add(lane)
        lane.probes = 1
        lane.probe_at_seconds = self.clock.monotonic() + self.schedule.backoff_ms(1) / 1000
        # What this run of failures burned as final was not the events' fault: it goes back to waiting.
        self.batch.recalls.append((lane.number, lane.run_started_ms))
        self._log.warning(
            "destination_breaker_opened",
            destination=lane.destination.id,
            reason=lane.breaker.reason,
            failures=lane.breaker.failures,
        )
        self.on_open(lane)

    def log_timeouts(self) -> None:
        """Log what timed out since the last time: at most one line per destination per second (DESIGN 6.2)."""
        now = self.clock.monotonic()
        for lane in [each for each in self.timed_out if now - each.timeouts_logged_seconds >= 1.0]:
            self._log.warning("delivery_timeout", destination=lane.destination.id, count=lane.timeouts)
            lane.timeouts_logged_seconds = now
            lane.timeouts = 0
            self.timed_out.discard(lane)

    # places in flight

    def _starve(self, lane: Lane) -> None:
        if not lane.starved:
            lane.starved = True
            self._starved.append(lane)

    def _feed_starved(self) -> None:
        """Give a freed place to the lane that has waited longest."""
        lane = self._starved.popleft()
        lane.starved = False
        self._go_on(lane)

    def wake_starved(self) -> None:
        """Let every waiting lane try again, after something else than an answer made room."""
        for _ in range(len(self._starved)):
            self._feed_starved()


def _send(outgoing: list[Outgoing]) -> None:
    for target, delivery, request in outgoing:
        target.pool.send(delivery, target, request)


def _sendable(targets: Sequence[Target], urls: int) -> list[Target]:
    chosen = [target for target in targets if urls >> target.index & 1] or list(targets)
    free = [target for target in chosen if target.lingering < LINGERING_MAX]
    return free or chosen


def _has_failed(delivery: Delivery, target: Target) -> bool:
    return any(failed.target is target for failed in delivery.failures or ())


def _retryable_urls(failures: list[FailedTry]) -> int:
    mask = 0
    for failed in failures:
        if failed.failure.outcome not in FINAL:
            mask |= 1 << failed.target.index
    return mask
