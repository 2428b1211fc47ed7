"""When PostgreSQL could not be reached, as far as this process has asked it. With files there are none."""

from __future__ import annotations

import time


class Outages:
    """One begins and ends at a time; anybody may look."""

    def __init__(self) -> None:
        self.ended = 0
        """How many are over."""
        self.last_seconds = 0.0
        """How long the last of those was."""
        self._since: float | None = None

    @property
    def is_away(self) -> bool:
        """Whether the server cannot be reached right now."""
        return self._since is not None

    def begin(self) -> None:
        """The server does not answer."""
        self._since = time.monotonic()

    def end(self) -> float:
        """It answers again; return for how long it did not (s)."""
        self.last_seconds = time.monotonic() - (self._since or time.monotonic())
        self._since = None
        self.ended += 1
        return self.last_seconds


OUTAGES = Outages()
"""Those of this process."""
