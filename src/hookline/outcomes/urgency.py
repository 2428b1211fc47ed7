"""Which of an event's fates matters most to somebody who looks: that one stands for the whole event."""

from __future__ import annotations

URGENCY = (
    "failed",
    "expired",
    "expired_by_retention",
    "rejected",
    "retrying",
    "parked",
    "waiting",
    "delivered",
)


def urgency(fate: str) -> int:
    """Return the rank of a fate, most urgent first; what is not listed comes last."""
    return URGENCY.index(fate) if fate in URGENCY else len(URGENCY)
