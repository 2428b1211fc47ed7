"""Percentiles of times that were only counted in buckets."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.telemetry.metrics import DURATION_BUCKETS_MS


def percentile(counts: Sequence[int | None], share: float) -> float | None:
    """Return the time in milliseconds that ``share`` of all stay within, as if they lay evenly in their bucket.

    None when nothing was counted. What lies above the last bound counts as that bound: the time is at least so long.
    """
    wanted = sum(filter(None, counts)) * share
    if not wanted:
        return None
    passed, lower = 0, 0
    for count, upper in zip(counts, DURATION_BUCKETS_MS, strict=False):
        if count:
            if passed + count >= wanted:
                return round(lower + (upper - lower) * (wanted - passed) / count, 1)
            passed += count
        lower = upper
    return float(lower)
