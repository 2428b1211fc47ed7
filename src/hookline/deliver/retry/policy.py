"""Say what it means that a delivery failed, and do nothing about it, and when it is tried again: full-jitter
exponential back-off inside a window.

Everything here follows from what is given, but for the jitter that the schedule draws.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal, NamedTuple

from hookline.connections.model import WEBHOOKS_MAX
from hookline.deliver.lanes.delivery import ACCEPTED, ALL_URLS, ASKED_TO_WAIT, Delivery, FailedTry, moved, moved_mask
from hookline.deliver.send.port import Failure
from hookline.limits import LIMITS, Limits
from hookline.outcomes.outcome import Outcome
from hookline.settings import Deliver

GONE = 410
TOO_MUCH = frozenset((429, 502, 503, 504))
"""Statuses of a receiver that cannot keep up: fewer requests at once may help."""


class Retry(NamedTuple):
    """The event is tried again."""

    due_ms: int
    """When, by the service's own clock."""
    urls: int
    """At which URLs, as a retry row has them."""


class DeadLetter(NamedTuple):
    """The event is given up."""

    status: Literal["expired", "failed"]


class Hold(NamedTuple):
    """Nothing follows for the event: its destination was disabled or deleted, and all that it left is discarded."""

    due_ms: int | None
    """When it would have been tried again."""


Decision = Retry | DeadLetter | Hold


def decide(
    delivery: Delivery,
    failures: Sequence[FailedTry],
    gone: bool,
    wait_ms: int | None,
    schedule: RetrySchedule,
    steady_ms: int,
) -> Decision:
    """Return what follows for a delivery that not enough URLs have accepted.

    ``gone``: every URL has answered that there is nothing any more. ``wait_ms`` is the wait that receivers asked for.
    """
    lane = delivery.lane
    urls = ALL_URLS if gone else _mask([failed for failed in failures if not failed.failure.is_final])
    if lane.options.fan_out == "fallback" and not delivery.accepted:
        urls |= _left(delivery, failures)
    if wait_ms is not None and lane.order is not None:  # its user's others would wait for the window's hours as well
        wait_ms = min(wait_ms, int(schedule.max_ms))
    due_ms = schedule.next_due(steady_ms, delivery.first_at_ms, delivery.attempt, wait_ms) if urls else None
    if lane.closed:
        return Hold(due_ms)
    if due_ms is None:
        return DeadLetter("expired" if urls else "failed")
    if (lane.to_all or delivery.accepted) and not gone:
        refused = _mask(failures) & ~urls
        urls |= refused << WEBHOOKS_MAX | delivery.urls & ~ALL_URLS | ACCEPTED * delivery.accepted
    if wait_ms and due_ms <= steady_ms + wait_ms:
        urls |= ASKED_TO_WAIT
    asked = failures[0].target if failures else delivery.targets[0]
    now = moved(asked.urls, lane.urls)  # they may have changed while it was under way
    return Retry(due_ms, urls if now is None else moved_mask(urls, now))


def are_gone(delivery: Delivery, failures: Sequence[FailedTry]) -> bool:
    """Return whether every URL of the destination has answered 410, not only those that this attempt was left with."""
    lane = delivery.lane
    if lane.mapped is not None and not lane.mapped.has_one_url:  # the next event may go elsewhere
        return False
    everyone = all(delivery.has_failed(target) for target in lane.targets)
    return everyone and bool(failures) and all(failed.failure.status == GONE for failed in failures)


def wait_asked_for(failures: Sequence[FailedTry], now_ms: int) -> int | None:
    """Return the longest wait that a receiver asked for, None where none did."""
    asked = [retry_after_ms(f.failure.retry_after, now_ms) for f in failures if f.failure.retry_after is not None]
    return max((ms for ms in asked if ms is not None), default=None)


def is_too_much(failure: Failure) -> bool:
    """Return whether the receiver said, or showed by its silence, that it cannot keep up."""
    return failure.outcome is Outcome.TIMED_OUT or failure.status in TOO_MUCH


def _left(delivery: Delivery, failures: Sequence[FailedTry]) -> int:
    """Return the URLs that were not asked yet: none, unless the lane was paused, its settings could no longer be used,
    or the role stopped before the next one was."""
    if delivery.lane.targets or not failures:
        return sum(1 << target.index for target in delivery.not_failed())
    return delivery.urls & ~_mask(failures) & (1 << len(failures[0].target.urls)) - 1


def _mask(failures: Sequence[FailedTry]) -> int:
    mask = 0
    for failed in failures:
        mask |= 1 << failed.target.index
    return mask


class RetrySchedule:
    """Decide the time of the next attempt. Times are milliseconds of the service's own clock."""

    def __init__(self, settings: Deliver, rng: random.Random | None = None, limits: Limits = LIMITS) -> None:
        self.first_ms = settings.retry_first * 1000
        self.max_ms = settings.retry_max * 1000
        self.window_ms = settings.retry_window * 1000
        self._late_ms = min(limits.late_ms_max, self.window_ms)
        self._random = (rng or random.Random()).random

    def backoff_ms(self, attempt: int) -> float:
        """Return a random wait after the given attempt (1 is the first): anywhere up to first x 2^(attempt-1),
        capped."""
        # The exponent is bounded because 2.0 ** 1024 raises OverflowError.
        ceiling = min(self.max_ms, self.first_ms * 2.0 ** min(attempt - 1, 60))
        return self._random() * ceiling

    def next_due(self, now_ms: int, first_at_ms: int, attempt: int, retry_after_ms: int | None = None) -> int | None:
        """Return when to try again after attempt number ``attempt`` failed at ``now_ms``; None when the window is over.

        ``retry_after_ms`` is the wait the receiver asked for; it is honoured beyond ``retry_max`` but never past the
        window's end.
        """
        window_end = first_at_ms + self.window_ms
        if now_ms >= window_end:
            return None
        wait = self.backoff_ms(attempt)
        if retry_after_ms is not None:
            wait = max(wait, retry_after_ms)
        return int(min(now_ms + max(wait, 1), window_end))

    def expired(self, now_ms: int, first_at_ms: int) -> bool:
        """Return whether an event first tried at ``first_at_ms`` may not be tried any more."""
        return now_ms > first_at_ms + self.window_ms + self._late_ms


def retry_after_ms(value: bytes, now_ms: int) -> int | None:
    """Return a ``Retry-After`` header's wait in milliseconds: seconds or an HTTP date; None for anything else."""
    text = value.decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        # A receiver may write any number of digits: bounded before int() sees them.
        return min(int(text[:12]), 10**9) * 1000
    try:
        at = parsedate_to_datetime(text)
        at_ms = int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)  # the old form names no zone
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0, at_ms - now_ms)
