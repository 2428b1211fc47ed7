"""Keep the series that charts are drawn from, written from what the roles report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hookline.api.services import Services, part
from hookline.beats import next_beat
from hookline.database.location import location_of
from hookline.database.sqlite import engine as sqlite
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import machine_of, role_metrics
from hookline.insights.series import SeriesLog, SeriesStore
from hookline.telemetry.log import logger
from hookline.telemetry.metrics import PROCESS_STARTED
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, TIME_BUCKETS_KEPT, read_time_buckets, time_bucket_of

POLL_SECONDS = 5.0
APART_SECONDS_MAX = 60
"""Counts of two looks further apart than this are left out: a gap is better than a spike."""
DROP_SECONDS = 600


class Accepted(NamedTuple):
    """Hold what collect had counted at a look, and since when it counts."""

    started: float
    at: int
    accepted: int
    rejected: int


class SeriesWatch:
    """The one loop that writes the series."""

    def __init__(
        self, data_path: Path, store: SeriesStore, metrics: RoleMetrics, clock: Callable[[], float] = time.time
    ) -> None:
        self._run_folder = data_path / "run"
        self._store = store
        self._metrics = metrics
        self._clock = clock
        self._before: Accepted | None = None
        self._dropped_at = 0

    async def run_forever(self) -> None:
        """Look every few seconds until cancelled; a look that is under way ends first: what it uses may be closed."""
        failing = False
        while True:
            look = asyncio.get_running_loop().run_in_executor(None, self.run_once)
            try:
                await asyncio.shield(look)
                failing = False
            except asyncio.CancelledError:
                await asyncio.gather(look, return_exceptions=True)
                raise
            except (sqlite.Error, OSError) as error:  # the disk is full: what is missing then is a gap
                if not failing:
                    logger().warning("series_not_written", error=str(error), next_step="it is tried again")
                failing = True
            except Exception:  # noqa: BLE001 - the loop's border: a fault of ours must not end all series
                logger().error("series_watch_failed", exc_info=True)
            await next_beat(POLL_SECONDS)

    def run_once(self) -> None:
        """One look at what the roles wrote."""
        now = int(self._clock())
        last = self._store.last_slot()
        if last - now > TIME_BUCKETS_KEPT * TIME_BUCKET_SECONDS:
            last = 0  # the clock was set back, further than a report reaches: what comes now is new
        self._store.add_time_buckets(
            [time_bucket for time_bucket in read_time_buckets(self._run_folder) if last < time_bucket.at <= now]
        )
        self._add_accepted(now)
        if abs(now - self._dropped_at) >= DROP_SECONDS:
            self._store.drop_old(now)
            self._dropped_at = now

    def _add_accepted(self, now: int) -> None:
        report = self._metrics.reports().get("collect")
        if report is None or not report.fresh:
            return
        accepted = int(report.number("hookline_collect_accepted_total"))
        rejected = int(report.number("hookline_collect_rejected_total"))
        seen = Accepted(report.number(PROCESS_STARTED), now, accepted, rejected)
        before, self._before = self._before, seen
        if before is None or not 0 <= now - before.at <= APART_SECONDS_MAX:
            return
        if before.started != seen.started:  # it began anew: all that it has counted came after the last look
            before = Accepted(seen.started, before.at, 0, 0)
        self._store.add_accepted(
            time_bucket_of(now * 1000), seen.accepted - before.accepted, seen.rejected - before.rejected
        )


@part
def series_store(services: Services) -> SeriesStore:
    """Return where series are written."""
    return SeriesStore(location_of(services.settings, "insights"), machine_of(services.settings))


@part
def series_log(services: Services) -> SeriesLog:
    """Return what reads series."""
    return SeriesLog(location_of(services.settings, "insights"))


@part
def series_watch(services: Services) -> SeriesWatch:
    """Return what writes series from what the roles report."""
    return SeriesWatch(services.settings.data_path, series_store(services), role_metrics(services))
