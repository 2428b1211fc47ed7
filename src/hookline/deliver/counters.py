"""The deliver role's counters: plain integers, because they change on every event."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from hookline.outcomes.outcome import Outcome
from hookline.telemetry.metrics import DURATION_BUCKETS_MS


class Times:
    """A histogram of milliseconds."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(DURATION_BUCKETS_MS) + 1)
        self.sum_ms = 0

    def add(self, milliseconds: int, count: int = 1) -> None:
        """Count one time, or so many that are the same."""
        self.buckets[bisect_left(DURATION_BUCKETS_MS, milliseconds)] += count
        self.sum_ms += milliseconds * count


class Counters:
    """What happened since the process started. Names of the metrics are in ``telemetry/metrics.py``."""

    def __init__(self) -> None:
        self.read = 0
        self.read_again = 0
        self.duplicates = 0
        self.delivered = 0
        self.dead_lettered = 0
        self.retries_scheduled = 0
        self.breaker_opened = 0
        self.detached = 0
        self.attached_again = 0
        self.checkpoints = 0
        self.events: Counter[str] = Counter()
        """Events that count as usage, by source."""
        self.filtered: Counter[str] = Counter()
        """Those of them that filters kept from every destination."""
        self.usage: dict[str, list[int]] = {}
        """Both in the time bucket that is running, by source."""
        self.failures: dict[str, int] = {outcome.value: 0 for outcome in Outcome if outcome is not Outcome.SUCCESS}
        self.durations = Times()
        """Of successful requests."""
        self.latencies = Times()
        """From an event's acceptance to its receiver's answer."""
