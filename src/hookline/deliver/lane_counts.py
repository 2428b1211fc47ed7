"""What each lane came to in the time bucket that is running, counted where it costs next to nothing.

Successes are counted from the results that a checkpoint gathers, many at once; the rest where a failure is dealt with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from hookline.outcomes.progress import ENTRY_BYTES, URL_BITS
from hookline.telemetry.metrics import DURATION_BUCKETS_MS

BUCKETS = len(DURATION_BUCKETS_MS) + 1
_RESULT_SHIFT = 32
_DURATION_SHIFT = 48


class Counts:
    """One lane in one time bucket."""

    __slots__ = ("delivered", "failures", "first_failed", "not_delivered", "recovered", "response", "retries")

    def __init__(self) -> None:
        self.delivered = 0
        self.recovered = 0
        """Of those delivered, the ones that had failed before."""
        self.first_failed = 0
        """Events whose first attempt failed."""
        self.failures = 0
        self.retries = 0
        self.not_delivered = 0
        self.response = [0] * BUCKETS

    @property
    def attempted(self) -> int:
        """Events that were tried for the first time; what fails and comes in order of checkpoints may lag a time
        bucket."""
        return max(0, self.delivered - self.recovered) + self.first_failed


class LaneCounts:
    """By lane number; a lane with nothing to count has no counts."""

    def __init__(self) -> None:
        self._lanes: dict[int, Counts] = {}

    def of(self, lane_number: int) -> Counts:
        """Return the counts to count in."""
        found = self._lanes.get(lane_number)
        if found is None:
            found = self._lanes[lane_number] = Counts()
        return found

    def add_results(self, entries: bytes) -> None:
        """Count the successes among some results of the ring (``outcomes.progress``)."""
        # Tag, result and duration are one word, and at high rates few different ones: one pass in C, then those few.
        words = memoryview(entries).cast("Q")[2 :: ENTRY_BYTES // 8].tolist() if entries else []
        for word, count in Counter(words).items():
            lane_number = (word & 0xFFFF_FFFF) >> URL_BITS
            if lane_number and 200 <= (word >> _RESULT_SHIFT & 0xFFFF) < 300:
                counts = self.of(lane_number)
                counts.delivered += count
                counts.response[bisect_left(DURATION_BUCKETS_MS, word >> _DURATION_SHIFT)] += count

    def take(self) -> dict[int, Counts]:
        """Everything counted since the last call."""
        taken, self._lanes = self._lanes, {}
        return taken
