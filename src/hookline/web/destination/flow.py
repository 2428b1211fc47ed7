"""How fast each destination's events go right now, and how many wait, from deliver's last ten-second time buckets."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, read_time_buckets


class Flow(NamedTuple):
    """Events delivered per second, and the most that can wait."""

    per_second: float = 0.0
    waiting: int = 0


def flows(data_path: Path) -> dict[str, Flow]:
    """Return the flow of every destination that did anything; one that is missing stands still with nothing waiting."""
    time_buckets = read_time_buckets(data_path / "run")
    seconds = len(time_buckets) * TIME_BUCKET_SECONDS
    delivered: dict[str, int] = {}
    for time_bucket in time_buckets:
        for id, each in time_bucket.destinations.items():
            delivered[id] = delivered.get(id, 0) + each.delivered
    waiting = {id: each.waiting for id, each in time_buckets[-1].destinations.items()} if time_buckets else {}
    return {id: Flow(delivered[id] / seconds, waiting.get(id, 0)) for id in delivered}
