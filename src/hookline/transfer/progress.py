"""What a move tells while it works."""

from __future__ import annotations

import time
from collections.abc import Callable

Tell = Callable[[str], None]
"""Takes one line for people."""

EVERY_SECONDS = 2.0


class Progress:
    """Counts one kind of thing and tells how far it is, every other second."""

    def __init__(self, tell: Tell, what: str, total: int) -> None:
        self.done = 0
        self.total = total
        self._tell = tell
        self._what = what
        self._began = self._told = time.monotonic()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if time.monotonic() - self._told >= EVERY_SECONDS:
            self._told = time.monotonic()
            self._tell(f"{self._what}: {self.done:,} of {max(self.total, self.done):,} ({self.per_second:,.0f}/s)")

    @property
    def per_second(self) -> float:
        """Return how many were done in a second."""
        return self.done / max(time.monotonic() - self._began, 1e-9)

    def end(self) -> None:
        """Tell the sum."""
        if self.done:
            self._tell(f"{self._what}: {self.done:,} copied ({self.per_second:,.0f}/s)")
