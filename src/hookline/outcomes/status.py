"""The status of an event at a destination, and why a queued one waits."""

from __future__ import annotations

from enum import StrEnum


class DeliveryStatus(StrEnum):
    """What has become of an event at one destination, or in a replay."""

    QUEUED = "queued"
    RETRYING = "retrying"
    DELIVERED = "delivered"
    FILTERED = "filtered"
    NOT_ROUTED = "not_routed"
    DUPLICATE = "duplicate"
    SUPPRESSED = "suppressed"
    REJECTED = "rejected"
    FAILED = "failed"
    EXPIRED = "expired"
    EXPIRED_BY_RETENTION = "expired_by_retention"
    DISCARDED = "discarded"
    ERASED = "erased"


FINAL = frozenset(DeliveryStatus) - {DeliveryStatus.QUEUED, DeliveryStatus.RETRYING}
"""What changes no more, unless a person replays the event."""


class QueuedReason(StrEnum):
    """Why an event is queued."""

    NEXT = "next"
    CATCHING_UP = "catching_up"
    BREAKER_OPEN = "breaker_open"
    PAUSED = "paused"
    RATE_LIMITED = "rate_limited"
    ORDERED = "ordered"


QUEUED_BECAUSE = {
    QueuedReason.NEXT: "it is sent next",
    QueuedReason.CATCHING_UP: "older events are sent before it",
    QueuedReason.BREAKER_OPEN: "the receiver keeps failing; the event is sent when it is back",
    QueuedReason.PAUSED: "the destination is paused; the event is sent when it is resumed",
    QueuedReason.RATE_LIMITED: "it waits for the destination's rate limit",
    QueuedReason.ORDERED: "an earlier event of the same user is sent before it",
}
"""The reasons as people read them."""

URGENCY = (
    DeliveryStatus.FAILED,
    DeliveryStatus.EXPIRED,
    DeliveryStatus.EXPIRED_BY_RETENTION,
    DeliveryStatus.REJECTED,
    DeliveryStatus.RETRYING,
    DeliveryStatus.QUEUED,
    DeliveryStatus.DELIVERED,
)


def urgency(status: str) -> int:
    """Return the rank of a status, most urgent first; what is not listed comes last.

    The most urgent one stands for the whole event: it matters most to somebody who looks.
    """
    return URGENCY.index(DeliveryStatus(status)) if status in URGENCY else len(URGENCY)


def because(status: str, reason: str | None) -> str:
    """Return the reason of a status as people read it; empty where there is none."""
    return QUEUED_BECAUSE[QueuedReason(reason)] if status == DeliveryStatus.QUEUED and reason else reason or ""
