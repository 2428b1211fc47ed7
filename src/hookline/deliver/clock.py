"""The three clocks: wall time for what people see, the service's own for windows and due times, which outlive the
process, and monotonic time for waiting. A seam for simulation."""

from __future__ import annotations

import time
from typing import Protocol

from hookline.database.steady_clock import SteadyClock


class Clock(Protocol):
    """Say where the time comes from."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def steady_ms(self) -> int:
        """Return the service's own time, milliseconds since the epoch: it never jumps, and goes on after a restart."""

    def monotonic(self) -> float:
        """Seconds that never jump, of this process."""


class SystemClock:
    """The machine's clocks, and the data folder's."""

    def __init__(self, steady: SteadyClock) -> None:
        self.steady = steady
        self.steady_ms = steady.now_ms

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return int(time.time() * 1000)

    def monotonic(self) -> float:
        """Seconds that never jump, of this process."""
        return time.monotonic()
