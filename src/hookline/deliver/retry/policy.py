"""Says what it means that a delivery failed, and does nothing about it (SPEC 7; DESIGN 4).

Everything here follows from what is given, but for the jitter that the schedule draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from hookline.connections.model import WEBHOOKS_MAX
from hookline.deliver.lanes.delivery import ALL_URLS, ASKED_TO_WAIT, Delivery, FailedTry
from hookline.deliver.retry.schedule import RetrySchedule, retry_after_ms
from hookline.deliver.send.port import Failure
from hookline.outcomes.outcome import FINAL, Outcome

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
    # None are left to ask, unless the lane was paused or the role stopped before the next one was.
    left = delivery.not_failed() if lane.options.fan_out == "fallback" else []
    urls = ALL_URLS if gone else _mask([failed for failed in failures if failed.failure.outcome not in FINAL])
    urls |= sum(1 << target.index for target in left)
    if wait_ms is not None and lane.order is not None:  # its user's others would wait for the window's hours as well
        wait_ms = min(wait_ms, int(schedule.max_ms))
    due_ms = schedule.next_due(steady_ms, delivery.first_at_ms, delivery.attempt, wait_ms) if urls else None
    if lane.closed:
        return Hold(due_ms)
    if due_ms is None:
        return DeadLetter("expired" if urls else "failed")
    if lane.to_all and not gone:
        refused = _mask(failures) & ~urls
        urls |= refused << WEBHOOKS_MAX | delivery.urls & ~ALL_URLS
    if wait_ms and due_ms <= steady_ms + wait_ms:
        urls |= ASKED_TO_WAIT
    return Retry(due_ms, urls)


def are_gone(delivery: Delivery, failures: Sequence[FailedTry]) -> bool:
    """Return whether every URL of the destination has answered 410, not only those that this attempt was left with."""
    everyone = all(delivery.has_failed(target) for target in delivery.lane.targets)
    return everyone and bool(failures) and all(failed.failure.status == GONE for failed in failures)


def wait_asked_for(failures: Sequence[FailedTry], now_ms: int) -> int | None:
    """Return the longest wait that a receiver asked for, None where none did."""
    asked = [retry_after_ms(f.failure.retry_after, now_ms) for f in failures if f.failure.retry_after is not None]
    return max((ms for ms in asked if ms is not None), default=None)


def is_too_much(failure: Failure) -> bool:
    """Return whether the receiver said, or showed by its silence, that it cannot keep up."""
    return failure.outcome is Outcome.TIMED_OUT or failure.status in TOO_MUCH


def _mask(failures: Sequence[FailedTry]) -> int:
    mask = 0
    for failed in failures:
        mask |= 1 << failed.target.index
    return mask
