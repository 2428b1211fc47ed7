"""A token bucket: so many attempts per second, never a burst above it."""

from __future__ import annotations

BURST_SECONDS = 0.1
"""How long unused attempts are kept."""
BURST_MIN = 2.0
"""So many are kept in any case: with one, the time between two looks would be lost at slow rates."""


class Rate:
    """Attempts per second; begins with a full burst. Times are monotonic seconds, given by the caller."""

    __slots__ = ("_burst", "_left", "_since", "per_second")

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._burst = max(BURST_MIN, per_second * BURST_SECONDS)
        self._left = self._burst
        self._since = 0.0

    def available(self, now_seconds: float) -> int:
        """How many attempts may begin now."""
        self._left = min(self._burst, self._left + max(0.0, now_seconds - self._since) * self.per_second)
        self._since = now_seconds
        return int(self._left)

    def take(self, count: int) -> None:
        """So many have begun; they were available, or they were urgent and are paid for later."""
        self._left -= count
