"""The columns of the time series, and how a row is added to one that is there already."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.telemetry.metrics import DURATION_BUCKETS_MS

BUCKETS = len(DURATION_BUCKETS_MS) + 1
RESPONSE = tuple(f"response_{index}" for index in range(BUCKETS))
LATENCY = tuple(f"latency_{index}" for index in range(BUCKETS))
GAUGES = frozenset({"waiting", "lag"})
"""Of these a longer stretch shows the highest value; everything else adds up."""

DELIVER_TOTALS = ("delivered", "failures", "retries", "not_delivered", "waiting", "lag")
COLLECT_TOTALS = ("accepted", "rejected")
DESTINATION = ("delivered", "attempted", "failures", "retries", "not_delivered", "filtered", "waiting")
SOURCE = ("events", "filtered")


def adding(table: str, key: Sequence[str], columns: Sequence[str]) -> str:
    """Return the statement that adds the values of a row, given after its key; unknown values leave what is known."""
    names = ", ".join((*key, *columns))
    marks = ", ".join("?" * (len(key) + len(columns)))
    sums = ", ".join(f"{name} = coalesce({_joined(table, name)}, {table}.{name}, excluded.{name})" for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sums}"


def _joined(table: str, name: str) -> str:
    old, new = f"{table}.{name}", f"excluded.{name}"
    return (
        f"CASE WHEN {new} >= {old} THEN {new} WHEN {new} < {old} THEN {old} END" if name in GAUGES else f"{old} + {new}"
    )


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
