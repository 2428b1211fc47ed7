"""What has come of each replay, as deliver saves it; read-only."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly

SPEED_SECONDS = 30.0
"""The speed of a replay is that of its last so many seconds."""


class Progress(NamedTuple):
    """The counts of one replay; ``state`` is ``running``, ``done`` or ``cancelled``."""

    state: str
    delivered: int
    failed: int
    started_ms: int
    ended_ms: int | None
    reason: str | None
    retrying: int


class ReplayProgress:
    """Reads the counts, and remembers a few for the speed. Times are monotonic seconds."""

    def __init__(self, location: DatabaseLocation, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = ReadOnly(location)
        self._clock = clock
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def of(self, lane: int) -> Progress | None:
        """Return the counts of a replay; None before it begins."""
        connection = self._database.open()
        if connection is None:
            return None
        row = connection.execute(
            "SELECT state, delivered, failed, started_at, ended_at, reason,"
            " (SELECT count(*) FROM retries WHERE retries.lane = replays.lane) FROM replays WHERE lane = ?",
            (lane,),
        ).fetchone()
        return Progress(*row) if row else None

    def note(self, lane: int, done: int) -> None:
        """Remember how far a running replay is now."""
        now, seen = self._clock(), self._seen.setdefault(lane, deque())
        seen.append((now, done))
        while now - seen[0][0] > SPEED_SECONDS:
            seen.popleft()

    def forget(self, lane: int) -> None:
        """It has ended, or is paused: its speed so far says nothing any more."""
        self._seen.pop(lane, None)

    def per_second(self, lane: int) -> float | None:
        """Events per second of late; None while that cannot be said."""
        seen = self._seen.get(lane)
        if not seen or len(seen) < 2:
            return None
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if after > before and last > first else None

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()
