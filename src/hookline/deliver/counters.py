"""The deliver role's counters: plain integers, because they change on every event."""

from __future__ import annotations

from hookline.outcomes.outcome import Outcome

# Upper bounds in milliseconds; the last bucket is everything above.
DURATION_BUCKETS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000)


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
        self.failures: dict[str, int] = {outcome.value: 0 for outcome in Outcome if outcome is not Outcome.SUCCESS}
        self.duration_ms_buckets = [0] * (len(DURATION_BUCKETS_MS) + 1)
        self.duration_ms_sum = 0
        self.latency_ms_buckets = [0] * (len(DURATION_BUCKETS_MS) + 1)
        self.latency_ms_sum = 0


def bucket_of_each_millisecond() -> list[int]:
    """A table from a duration in milliseconds (0 to the last bound) to its bucket: one look-up instead of a search."""
    table: list[int] = []
    for index, bound in enumerate(DURATION_BUCKETS_MS):
        table += [index] * (bound + 1 - len(table))
    return table
