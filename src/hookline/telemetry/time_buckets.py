"""What deliver counted in its last ten-second time buckets: the raw material of the time series.

Deliver writes ``run/time-buckets-deliver.json`` when a time bucket has ended: the counts of the last few time
buckets, each by itself and
not since the start. So whoever reads them needs no earlier value to compare with, and a restart on either side makes
neither a spike nor a number that is counted twice; the time bucket in which deliver ended is short, and what no process
counted is missing.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from hookline.whole_file import try_to_write_whole

TIME_BUCKET_SECONDS = 10
TIME_BUCKETS_KEPT = 3
"""Slots in one report: a control role that was away for less has missed nothing."""
DESTINATIONS_MAX = 1_000
SOURCES_MAX = 1_000
"""In one time bucket, the busiest of them; ``omitted`` says how many were left out."""
REPORT_BYTES_MAX = 16 * 1024 * 1024


class DestinationCounts(msgspec.Struct, array_like=True, kw_only=True):
    """One destination in one time bucket; replays count at the replay and not here.

    ``attempted`` are events tried for the first time, ``failures`` requests that failed, ``not_delivered`` dead letters
    (below zero when more were called back). ``waiting`` is the most that can wait at the time bucket's end.
    ``response``
    counts successful requests by their time (``metrics.DURATION_BUCKETS_MS``).
    """

    delivered: int = 0
    attempted: int = 0
    failures: int = 0
    retries: int = 0
    not_delivered: int = 0
    filtered: int = 0
    waiting: int = 0
    response: list[int] = []


class SourceCounts(msgspec.Struct, array_like=True):
    """The events of one source in one time bucket, and those of them that filters kept from every destination."""

    events: int = 0
    filtered: int = 0


class TimeBucket(msgspec.Struct, kw_only=True):
    """One time bucket, ``at`` its first second since the epoch; ``latency`` counts deliveries by the time since
    acceptance."""

    at: int
    delivered: int = 0
    failures: int = 0
    retries: int = 0
    not_delivered: int = 0
    waiting: int = 0
    lag: int = 0
    response: list[int] = []
    latency: list[int] = []
    destinations: dict[str, DestinationCounts] = {}
    sources: dict[str, SourceCounts] = {}
    omitted: int = 0


def write_time_buckets(run_folder: Path, time_buckets: list[TimeBucket]) -> None:
    """Replace the report at once; a full disk only leaves a gap."""
    try_to_write_whole(run_folder / "time-buckets-deliver.json", msgspec.json.encode(time_buckets))


def read_time_buckets(run_folder: Path) -> list[TimeBucket]:
    """Return the time buckets of the last report, oldest first; none where there is no report, or one of another
    version."""
    try:
        with (run_folder / "time-buckets-deliver.json").open("rb") as file:
            return msgspec.json.decode(file.read(REPORT_BYTES_MAX), type=list[TimeBucket])
    except (OSError, msgspec.DecodeError):
        return []


def time_bucket_of(now_ms: int) -> int:
    """Return the first second of the time bucket that a time lies in."""
    return now_ms // 1000 // TIME_BUCKET_SECONDS * TIME_BUCKET_SECONDS
