"""A token bucket: so many attempts per second, never a burst above it; or a part of them, where others have more."""

from __future__ import annotations

BURST_SECONDS = 0.1
"""How long unused attempts are kept."""
BURST_MIN = 2.0
"""So many are kept in any case: with one, the time between two looks would be lost at slow rates."""


class Rate:
    """Attempts per second, ``part`` of them for this process; times are monotonic seconds, given by the caller.

    Whoever has all of them begins with a full burst, a part begins with nothing: others may have used theirs just now.
    """

    __slots__ = ("_burst", "_left", "_mine", "_since", "per_second", "taken")

    def __init__(self, per_second: float, part: float = 1.0) -> None:
        self.per_second = per_second
        self.taken = 0
        """Attempts that have begun."""
        self._left = self._mine = 0.0
        self._since: float | None = 0.0
        self.share(part)
        if part >= 1.0:
            self._left = self._burst

    def share(self, part: float) -> None:
        """Keep to another part from now on; what was saved up is kept as far as it is a burst of that."""
        if not self._mine and part < 1.0:
            self._since = None
        self._mine = self.per_second * part
        self._burst = max(BURST_MIN, self._mine * BURST_SECONDS) if part > 0 else 0.0
        self._left = min(self._left, self._burst)

    def available(self, now_seconds: float) -> int:
        """Return how many attempts may begin now."""
        waited_seconds = 0.0 if self._since is None else max(0.0, now_seconds - self._since)
        self._left = min(self._burst, self._left + waited_seconds * self._mine)
        self._since = now_seconds
        return int(self._left)

    def take(self, count: int) -> None:
        """So many have begun; they were available, or they were urgent and are paid for later."""
        self._left -= count
        self.taken += count
