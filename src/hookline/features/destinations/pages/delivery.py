"""How a destination's delivery goes: its flow, its charts and what fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.features.destinations.health import FailureCause
from hookline.features.destinations.service import failure_causes
from hookline.features.insights.service import series_log
from hookline.features.overview.event_flow import Station
from hookline.insights.columns import percentile
from hookline.insights.series_log import SPANS, Range, Series, Sums
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, read_time_buckets
from hookline.web.chart_view import ChartView, Line, Values, chart
from hookline.web.rendering import milliseconds, number


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


RANGE: Range = "1h"


class DeliveryTab(NamedTuple):
    """The whole tab."""

    range: Range
    stations: Sequence[Station]
    percentiles: Sequence[tuple[str, str]]
    charts: Sequence[ChartView]
    errors: Sequence[FailureCause]
    errors_complete: bool


async def delivery_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeliveryTab:
    """Return the tab, for the range asked for."""
    asked = query.get("range", RANGE)
    range: Range = asked if asked in SPANS else RANGE  # type: ignore[assignment]  # its keys are the ranges
    return await asyncio.to_thread(_read, services, stored.object, range)


def _read(services: Services, destination: Destination, range: Range) -> DeliveryTab:
    now = int(time.time())
    sums = series_log(services).sums(destination.id, range, now)
    causes = failure_causes(services).of(destination.id, (now - SPANS[range].seconds) * 1000)
    accepted = series_log(services).accepted(destination.sources, range, now)
    flow = flows(services.settings.data_path).get(destination.id, Flow())
    return DeliveryTab(
        range=range,
        stations=_stations(accepted, sums, flow),
        percentiles=_percentiles(sums),
        charts=_charts(series_log(services).of_destination(destination.id, range, now)),
        errors=causes.causes,
        errors_complete=causes.complete,
    )


def _stations(accepted: int, sums: Sums, flow: Flow) -> list[Station]:
    counts = sums.counts
    filtered, attempted, delivered = counts["filtered"], counts["attempted"], counts["delivered"]
    not_delivered, failures = max(0, counts["not_delivered"]), counts["failures"]
    ending = "dead" if not_delivered else "warn" if failures and not delivered else "good" if delivered else "off"
    return [
        Station("Accepted", number(accepted), "by its sources", "good" if accepted else "off"),
        Station(
            "Not filtered",
            number(max(0, accepted - filtered)),
            f"{number(filtered)} filtered" if filtered else "none filtered",
            "good" if accepted else "off",
        ),
        Station(
            "Attempted",
            number(attempted),
            f"{number(flow.waiting)} queued" if flow.waiting else "nothing queued",
            "wait" if flow.waiting else "good" if attempted else "off",
        ),
        Station(
            "Delivered",
            number(delivered),
            f"{number(not_delivered)} not delivered" if not_delivered else f"{number(failures)} failed requests",
            ending,
        ),
    ]


def _percentiles(sums: Sums) -> list[tuple[str, str]]:
    found = ((f"p{share}", percentile(sums.response, share / 100)) for share in (50, 95, 99))
    return [(name, milliseconds(value)) for name, value in found if value is not None]


def _charts(series: Series) -> list[ChartView]:
    values = series.values

    def per_second(name: str) -> Values:
        return [None if each is None else each / series.resolution for each in values[name]]

    rates = [
        (Line("delivered", "good"), per_second("delivered")),
        (Line("failed requests", "dead"), per_second("failures")),
    ]
    times = [
        (Line("p50", "accent"), values["response_p50"]),
        (Line("p95", "warn"), values["response_p95"]),
    ]
    return [
        chart("rates", "Delivered and failed", "per second", series.times, rates),
        chart("waiting", "Queued, at most", "events", series.times, [(Line("queued", "wait"), values["waiting"])], max),
        chart("times", "Response time of successful requests", "ms", series.times, times, max),
    ]
