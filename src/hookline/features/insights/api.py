"""``/api/v1/metrics``: what happened over time, and where it fails most."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import msgspec
from litestar import Controller, get
from litestar.params import QueryParameter

from hookline.api.handlers import FromServices, problems
from hookline.api.listing import Back, OfDestination
from hookline.api.problem import not_found
from hookline.events.timestamps import iso
from hookline.features.insights.service import series_log
from hookline.insights.series import SPANS, Range, Series, Values

FAILING_MAX = 50

API_NAMES = {
    "not_delivered": "notDelivered",
    "response_p50": "responseP50Milliseconds",
    "response_p95": "responseP95Milliseconds",
    "latency_p50": "latencyP50Milliseconds",
    "latency_p95": "latencyP95Milliseconds",
}
"""The series whose names in the API are not those of their columns."""


class SeriesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Series over a range: a value of each for every one of ``times`` (seconds since the epoch, the begin of
    ``resolutionSeconds``); null where no report was seen."""

    range: Range
    destination: str | None
    resolution_seconds: int
    times: Sequence[int]
    series: Values


class FailingDestination(msgspec.Struct, frozen=True, rename="camel"):
    """A destination and how many of its requests failed, events that were not delivered, and events that were."""

    id: str
    name: str
    failures: int
    not_delivered: int
    delivered: int


class FailingReport(msgspec.Struct, frozen=True, kw_only=True):
    """The destinations that fail most, since about ``since``."""

    range: Range
    since: str
    items: Sequence[FailingDestination]


class Metrics(Controller):
    """Reading only; ``series_watch`` writes."""

    path = "/metrics"

    @get("/series", needs="viewer", responses=problems(404))
    async def get_series(
        self,
        services: FromServices,
        range: Back = "1h",
        destination: OfDestination = None,
    ) -> SeriesReport:
        """Return time series over a range, for everything or for one destination. Values are null where no report
        arrived."""
        now = int(time.time())
        if destination is None:
            found = await asyncio.to_thread(series_log(services).totals, range, now)
        elif services.store.destination(destination) is None:
            raise not_found("destination", destination)
        else:
            found = await asyncio.to_thread(series_log(services).of_destination, destination, range, now)
        return report_of(found, range, destination)

    @get("/failing", needs="viewer")
    async def get_failing(
        self,
        services: FromServices,
        range: Back = "1h",
        limit: Annotated[int, QueryParameter(ge=1, le=FAILING_MAX, description="How many to return at most.")] = 10,
    ) -> FailingReport:
        """Return the destinations with the most failed requests. Deleted ones are left out."""
        now = int(time.time())
        store = services.store
        failing = await asyncio.to_thread(series_log(services).top_failing, range, now, limit, store.destination)
        items = [
            FailingDestination(each.destination, stored.object.name, each.failures, each.not_delivered, each.delivered)
            for each in failing
            if (stored := store.destination(each.destination)) is not None
        ]
        span = SPANS[range]
        since = (now - span.seconds) // span.coarse * span.coarse
        return FailingReport(range=range, since=iso(since * 1000), items=items)


def report_of(found: Series, range: Range, destination: str | None) -> SeriesReport:
    """Series under the names of the API."""
    return SeriesReport(
        range=range,
        destination=destination,
        resolution_seconds=found.resolution,
        times=found.times,
        series={API_NAMES.get(name, name): values for name, values in found.values.items()},
    )
