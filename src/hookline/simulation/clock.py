"""The clocks of a simulated machine."""

from __future__ import annotations

START_MS = 1_795_158_000_000
"""Wall clock at second 0: 20 November 2026."""
START_SECONDS = 1_000.0


class SimulatedClock:
    """Time that passes when the scheduler says so; the wall clock can be set, the monotonic one cannot."""

    def __init__(self) -> None:
        self.seconds = START_SECONDS
        self._wall_ms = START_MS - int(START_SECONDS * 1000)
        self.back_ms = 0
        """How far the wall clock was set back, in all: so much too old may look what it dated."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return self._wall_ms + int(self.seconds * 1000)

    def steady_ms(self) -> int:
        """The service's own clock: where the wall clock would be if nobody had set it."""
        return START_MS + int((self.seconds - START_SECONDS) * 1000)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return self.seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._wall_ms += int(seconds * 1000)
        self.back_ms += max(0, int(-seconds * 1000))
