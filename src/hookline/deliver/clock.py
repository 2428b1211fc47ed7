"""The two clocks: wall time for what people see and windows, monotonic time for waiting. A seam for simulation."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds that never jump."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()
