"""What was accepted when and what arrived when, per event number, in files that several processes map.

A ledger holds a few counters and one time per number (seconds of the monotonic clock, 0 for never). The load
generator fills one, the receiver another; joined, they give losses, duplicates and latencies.
"""

from __future__ import annotations

import mmap
from pathlib import Path

COUNTERS = 8
COUNTER_BYTES = 8
HEADER_BYTES = COUNTERS * COUNTER_BYTES


class Ledger:
    """Times by event number, and counters; changes are seen by every process that opened the file."""

    def __init__(self, path: Path, capacity: int | None = None) -> None:
        if capacity is not None:
            with path.open("wb") as file:
                file.truncate(HEADER_BYTES + capacity * 8)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        view = memoryview(self._map)
        self.counters = view[:HEADER_BYTES].cast("Q")
        self.times = view[HEADER_BYTES:].cast("d")

    def reset(self) -> None:
        """Forget everything."""
        for index in range(COUNTERS):
            self.counters[index] = 0
        self._map[HEADER_BYTES:] = bytes(len(self._map) - HEADER_BYTES)
