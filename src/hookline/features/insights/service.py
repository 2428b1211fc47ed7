"""What charts are drawn from, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.fleet.fleet import machine_of
from hookline.features.fleet.service import role_metrics
from hookline.features.insights.watch import SeriesWatch
from hookline.insights.series_log import SeriesLog
from hookline.insights.series_store import SeriesStore


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
