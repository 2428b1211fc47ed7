"""Carries out what failures mean: rows for the next checkpoint, and what the lane's breaker is told.

``policy.py`` says what a failure means for its event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from hookline.deliver.event import Event
from hookline.deliver.lanes.breaker import Breaker
from hookline.deliver.lanes.delivery import ALL_URLS, Delivery, FailedTry, moved
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.retry.policy import DeadLetter, Hold, Retry, are_gone, decide, is_too_much, wait_asked_for
from hookline.deliver.send.port import Failure
from hookline.deliver.store.batch import AttemptRow, DeadLetterRow, Requeue, RetryRow
from hookline.deliver.work import Work
from hookline.outcomes.cause import cause_of
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.outcomes.reader import NEVER_MS
from hookline.replays.predicate import event_name
from hookline.telemetry.log import logger

TIMEOUT_LOG_SECONDS = 1.0
"""Timeouts are logged at most once per destination in this time: an outage must not fill the log."""


class Failures:
    """Takes deliveries that not enough URLs have accepted; the rows go into the batch."""

    def __init__(self, work: Work, next_of_user: Callable[[Lane, int], None]) -> None:
        """``next_of_user`` is called with an event that no longer holds up its user's others."""
        self._work = work
        self._next_of_user = next_of_user
        self._timed_out: set[Lane] = set()
        self._log = logger()

    def count(self, lane: Lane, failure: Failure) -> None:
        """Count one failed request."""
        self._work.counters.failures[failure.outcome] += 1
        self._work.lane_counts.of(lane.number).failures += 1
        if failure.outcome is Outcome.TIMED_OUT:
            lane.timed_out()
            self._timed_out.add(lane)

    def log_timeouts(self) -> None:
        """Log what timed out since the last time."""
        now = self._work.clock.monotonic() if self._timed_out else 0.0
        due = [lane for lane in self._timed_out if now - lane.timeouts_logged_seconds >= TIMEOUT_LOG_SECONDS]
        for lane in due:
            self._log.warning("delivery_timeout", destination=lane.destination.id, count=lane.log_timeouts(now))
            self._timed_out.discard(lane)

    def decide(self, delivery: Delivery, failures: Sequence[FailedTry], now_ms: int, *, counts: bool = True) -> None:
        """Not enough URLs have accepted: try again later, or give up; ``counts``: the breaker is told too."""
        lane = delivery.lane
        if delivery.attempt == 1:
            self._work.lane_counts.of(lane.number).first_failed += 1
        gone = not delivery.accepted and are_gone(delivery, failures)
        wait_ms = wait_asked_for(failures, now_ms)
        steady_ms = self._work.clock.steady_ms()
        decision = decide(delivery, failures, gone, wait_ms, self._work.schedule, steady_ms)
        due_ms = None if isinstance(decision, DeadLetter) else decision.due_ms
        self._record_attempts(delivery, failures, None if due_ms is None else due_ms - steady_ms + now_ms)
        last = failures[-1].failure if failures else None
        match decision:
            case Hold():
                return
            case DeadLetter(status):
                self.bury(delivery, status, last, now_ms)
            case Retry(due_ms, urls):
                self._retry_later(delivery, urls, due_ms)
        if last is not None and not delivery.accepted and counts:
            self._count_against(lane, failures, last, gone, now_ms)
        if wait_ms is not None and lane.breaker.allowance == 0:
            self._ask_later(lane, wait_ms)

    def _ask_later(self, lane: Lane, wait_ms: int) -> None:
        """The receiver's wish holds for the next probe too, but it was about one event: not for the window's hours."""
        wait_seconds = min(wait_ms, self._work.schedule.max_ms) / 1000
        if lane.breaker.state == "suspect" and wait_seconds >= lane.limits.open_seconds:
            # Nobody would find out sooner whether it is an outage, and what stands for so long is said to stand.
            lane.breaker.open(lane.breaker.reason)
            self._open(lane)
        lane.probe_no_sooner(self._work.clock.monotonic() + wait_seconds)

    def _count_against(self, lane: Lane, failures: Sequence[FailedTry], last: Failure, gone: bool, now_ms: int) -> None:
        """Tell the breaker of it. Where any URL refused the event for itself, a receiver is there and well."""
        refusal = next((failed.failure for failed in failures if failed.failure.of_event), None)
        if refusal is not None:
            self._count_refusal(lane, refusal, now_ms)
            return
        now = self._work.clock.monotonic()
        slowest = max(failures, key=lambda failed: failed.milliseconds)
        too_much = any(is_too_much(failed.failure) for failed in failures)
        at, began = (now_ms, self._work.clock.steady_ms()), now - slowest.milliseconds / 1000
        unreached = all(failed.failure.is_unsent for failed in failures)
        reason = _reason(last)
        if lane.failed(at, now, reason, too_much=too_much, began_seconds=began, gone=gone, unreached=unreached):
            self._open(lane)
        elif lane.breaker.state == "open":
            self._requeue(lane, now_ms)  # a probe burns nothing either
        elif lane.breaker.allowance == 0 and not lane.closed:
            self._work.probing.add(lane)

    def _count_refusal(self, lane: Lane, refusal: Failure, now_ms: int) -> None:
        at = now_ms, self._work.clock.steady_ms()
        if lane.refused(at, self._work.clock.monotonic(), _reason(refusal)):
            self._open(lane)
        elif lane.breaker.refuses:
            self._requeue(lane, now_ms)
        elif lane.breaker.allowance == 0:
            # It answers again, and what it thinks of others only they can tell: the next one is tried at once, or as
            # soon as the rate allows.
            lane.probe_at_once()
            lane.probe_no_sooner(self._work.clock.monotonic() + lane.probe_spacing_seconds)

    def _record_attempts(self, delivery: Delivery, failures: Sequence[FailedTry], next_at_ms: int | None) -> None:
        lane, position = delivery.lane, delivery.event.position
        for failed in failures:
            failure = failed.failure
            self._work.batch.attempts.append(
                AttemptRow(
                    position >> POSITION_SHIFT,
                    position & OFFSET_MASK,
                    lane.number,
                    lane.destination.id,
                    delivery.attempt,
                    failed.target.url,
                    failed.at_ms,
                    failure.outcome.value,
                    failure.status,
                    failure.error,
                    failed.milliseconds,
                    next_at_ms,
                    failure.head,
                    _cause(failure),
                )
            )

    def _retry_later(self, delivery: Delivery, urls: int, due_ms: int) -> None:
        lane, position = delivery.lane, delivery.event.position
        partition, offset = position >> POSITION_SHIFT, position & OFFSET_MASK
        lane.keep_row(position, due_ms, is_new=not delivery.from_row)
        self._work.retrying.add(lane)
        if self._work.keep_record is not None:
            self._work.keep_record(partition, offset, delivery.event.record)
        if delivery.attempt >= lane.options.set_aside_after:
            self._next_of_user(lane, position)
        elif lane.order is not None:  # it may have left before the order began, and holds up its user from now on
            lane.order.note(position, delivery.event.record.user_key)
        self._work.counters.retries_scheduled += 1
        self._work.lane_counts.of(lane.number).retries += 1
        self._work.batch.retry(
            RetryRow(lane.number, partition, offset, delivery.attempt, delivery.first_at_ms, due_ms, urls)
        )

    def retry_never_tried(self, lane: Lane, position: int) -> None:
        """Set an event aside that was queued out of order: a retry row with no attempt, due at once."""
        now_ms = self._work.clock.steady_ms()
        lane.keep_row(position, now_ms)
        self._work.retrying.add(lane)
        self._work.batch.retry(
            RetryRow(lane.number, position >> POSITION_SHIFT, position & OFFSET_MASK, 0, now_ms, now_ms, ALL_URLS)
        )

    def give_back_untried(self, lane: Lane, event: Event) -> None:
        """Set an event aside that was queued out of order: a row with no attempt, due as soon as its turn is."""
        if lane.order is None:
            self.retry_never_tried(lane, event.position)
            return
        lane.order.note(event.position, event.record.user_key)
        self.keep_as_row(lane, event.position)
        lane.order.call(event.position)

    def keep_as_row(self, lane: Lane, position: int) -> None:
        """An event waits for its user's turn as a row: never tried, and not due before it is called."""
        now_ms = self._work.clock.steady_ms()
        lane.keep_row(position)
        self._work.retrying.add(lane)
        partition, offset = position >> POSITION_SHIFT, position & OFFSET_MASK
        self._work.batch.retry(RetryRow(lane.number, partition, offset, 0, now_ms, NEVER_MS, ALL_URLS))

    def wait_for_turn(self, lane: Lane, row: RetryRow) -> None:
        """Have a row that is due wait until it is called: an earlier event of its user holds it up, and among those
        that are due it would hide the others."""
        lane.keep_row(row.partition << POSITION_SHIFT | row.offset, is_new=False)
        self._work.batch.retry(row._replace(due_ms=NEVER_MS))

    def reorder_rows(self, lane: Lane) -> None:
        """Have rows come as the lane's new order has them: what waits for a turn is due, and nothing that a user's
        others wait for is due later than after ``retry_max``, whatever its receiver asked for."""
        now_ms = self._work.clock.steady_ms()
        self._work.batch.reorder(lane.number, now_ms, now_ms + int(self._work.schedule.max_ms))
        lane.look_at_rows(now_ms)
        lane.reorder_rows()
        self._work.stale.add(lane)

    def move_urls(self, lane: Lane, before: tuple[str, ...], partition: int) -> None:
        """Have a partition's rows name the URLs that the lane has now."""
        found = moved(before, lane.urls)
        if found is not None:
            self._work.batch.move_urls(lane.number, partition, found)
            self._work.stale.add(lane)
            if lane.number in self._work.batch.requeue_urls:  # what comes back with this batch is moved by nobody else
                self._name_urls(lane)

    def bury(self, delivery: Delivery, status: str, last: Failure | None, now_ms: int) -> None:
        """Give a delivery up: one dead letter."""
        lane, event = delivery.lane, delivery.event
        record, position = event.record, event.position
        if delivery.from_row:
            self.settle_row(delivery)
        self._next_of_user(lane, position)
        self._work.counters.dead_lettered += 1
        self._work.lane_counts.of(lane.number).not_delivered += 1
        self._work.batch.dead_letters.append(
            DeadLetterRow(
                lane.number,
                lane.destination.id,
                position >> POSITION_SHIFT,
                position & OFFSET_MASK,
                record.message_id,
                record.source,
                record.type,
                status,
                delivery.attempt,
                now_ms,
                last.outcome.value if last else None,
                last.status if last else None,
                last.error if last else None,
                event_name(record) or None,
                delivery.first_at_ms,
                _cause(last) if last else None,
            )
        )

    def open_too(self, lane: Lane, reason: str) -> None:
        """Open a lane's breaker because another process found its receiver down."""
        clock = self._work.clock
        lane.hold((clock.now_ms(), clock.steady_ms()), clock.monotonic(), reason)
        self._open(lane)

    def _open(self, lane: Lane) -> None:
        self._work.counters.breaker_opened += 1
        self._work.probing.add(lane)
        wait_seconds = Breaker.probe_wait_seconds(0, self._work.schedule.max_ms / 1000)
        lane.probe_next(self._work.clock.monotonic() + wait_seconds, 1)
        lane.probe_found(True)  # until one of this outage has looked
        # What this run burned as final was not the events' fault: it goes back to waiting.
        started_ms, started_steady_ms = lane.doubted_since
        lasted_ms = self._work.clock.steady_ms() - started_steady_ms
        self._requeue(lane, min(started_ms, self._work.clock.now_ms() - lasted_ms))  # whichever way the clock was set
        self._log.warning(
            "destination_breaker_opened",
            destination=lane.destination.id,
            reason=lane.breaker.reason,
            failures=lane.breaker.refusals if lane.breaker.refuses else lane.breaker.failures,
        )
        self._work.on_open(lane)

    def _requeue(self, lane: Lane, since_ms: int) -> None:
        batch = self._work.batch
        batch.requeues.append(Requeue(lane.number, since_ms, refusals=lane.breaker.refuses))
        lane.requeue(True)
        if lane.to_all and lane.urls_apart:
            self._name_urls(lane)

    def _name_urls(self, lane: Lane) -> None:
        self._work.batch.requeue_urls[lane.number] = msgspec.json.encode(lane.urls_apart).decode()

    def settle_row(self, delivery: Delivery) -> None:
        """The delivery's retry row is no longer needed."""
        lane, position = delivery.lane, delivery.event.position
        lane.close_row(position)
        self._work.batch.settle(lane.number, position >> POSITION_SHIFT, position & OFFSET_MASK)


def _cause(failure: Failure) -> int:
    return cause_of(failure.outcome.value, failure.status, failure.error)


def _reason(failure: Failure) -> str:
    return f"{failure.outcome} {failure.status}" if failure.status else str(failure.outcome)
