"""The page of usage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

from litestar import Request, Response, get
from litestar.params import FromQuery

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.features.fleet.storage import Storage, storage_of
from hookline.features.insights.service import series_log
from hookline.features.sources.service import schema_log
from hookline.features.usage.api import UsageItem, csv_answer, items_of, usage_item
from hookline.features.usage.service import By, UsageCount, usage_log
from hookline.insights.schema import SchemaLog
from hookline.web.chart_view import ChartView, Line, chart
from hookline.web.rendering import Screens, Stop, screen

SOURCES_SHOWN = 200
DESTINATIONS_SHOWN = 50
USERS_KEPT_MS = 60_000

UsageRange = Literal["7d", "30d", "90d", "12m"]
RANGES: tuple[UsageRange, ...] = get_args(UsageRange)
DAYS: dict[UsageRange, int] = {"7d": 7, "30d": 30, "90d": 90, "12m": 365}


class SourceUsage(NamedTuple):
    """One source over the range; ``name`` is empty for one that was deleted."""

    id: str
    name: str
    events: int
    filtered: int
    counted: int


class DestinationSum(NamedTuple):
    """One destination over the range; ``name`` is empty for one that was deleted."""

    id: str
    name: str
    delivered: int
    filtered: int
    failures: int
    not_delivered: int


class UsagePage(NamedTuple):
    """The whole page; ``retention_bytes`` and ``retention_seconds`` are what stored events are kept for at most."""

    range: UsageRange
    first: str
    last: str
    events: int
    filtered: int
    counted: int
    chart: ChartView
    sources: Sequence[SourceUsage]
    sources_more: int
    destinations: Sequence[DestinationSum]
    has_more_destinations: bool
    users: int
    level: str
    grandfathered: bool
    storage: Storage
    retention_seconds: float
    retention_bytes: int


async def usage_page(services: Services, range: UsageRange) -> UsagePage:
    """Gather the page."""
    first, last = _days(services, range)
    sources = await asyncio.to_thread(_by_source, services, first, last)
    destinations = await asyncio.to_thread(_by_destination, services, first, last)
    settings = services.settings
    return UsagePage(
        range=range,
        first=first.isoformat(),
        last=last.isoformat(),
        events=sum(source.events for source in sources),
        filtered=sum(source.filtered for source in sources),
        counted=sum(source.counted for source in sources),
        chart=_chart(usage_log(services).of_days(first, last), first, last, _by(range)),
        sources=sources[:SOURCES_SHOWN],
        sources_more=max(0, len(sources) - SOURCES_SHOWN),
        destinations=destinations[:DESTINATIONS_SHOWN],
        has_more_destinations=len(destinations) > DESTINATIONS_SHOWN,
        users=await asyncio.to_thread(_users, schema_log(services), services.store.now_ms() // USERS_KEPT_MS),
        level=settings.plan.level,
        grandfathered=settings.plan.grandfathered,
        storage=await asyncio.to_thread(storage_of, settings),
        retention_seconds=settings.retention.events,
        retention_bytes=settings.retention.bytes,
    )


def usage_items(services: Services, range: UsageRange) -> list[UsageItem]:
    """Events per period and source, newest period first."""
    first, last = _days(services, range)
    return items_of(services, first, last, _by(range), None)


def _days(services: Services, range: UsageRange) -> tuple[date, date]:
    last = datetime.fromtimestamp(services.store.now_ms() / 1000, UTC).date()
    first = last - timedelta(days=DAYS[range] - 1)
    return (first.replace(day=1) if _by(range) == "month" else first), last


def _by(range: UsageRange) -> By:
    return "month" if range == "12m" else "day"


def _by_source(services: Services, first: date, last: date) -> list[SourceUsage]:
    found = usage_log(services).of_sources(first, last)
    items = [usage_item(services, UsageCount("", id, *counts)) for id, counts in found.items()]
    ordered = sorted(items, key=lambda item: (-item.events, item.source))
    return [
        SourceUsage(item.source, _name(services, item.source), item.events, item.filtered, item.counted)
        for item in ordered
    ]


def _by_destination(services: Services, first: date, last: date) -> list[DestinationSum]:
    """Return the busiest of them, one more than is shown."""
    begin, end = (int(datetime.combine(day, time(), UTC).timestamp()) for day in (first, last))
    found = series_log(services).busiest(begin, end, DESTINATIONS_SHOWN + 1)
    named = ((each, services.store.destination(each.destination)) for each in found)
    return [
        DestinationSum(
            each.destination,
            stored.object.name if stored else "",
            *(each.delivered, each.filtered, each.failures, each.not_delivered),
        )
        for each, stored in named
    ]


@lru_cache(maxsize=4)
def _users(log: SchemaLog, _slot: int) -> int:
    """About how many users all sources had this month; adding many sources up takes a while, so it is kept a little."""
    return next((each.users for each in log.users(1) if each.source is None), 0)


def _name(services: Services, id: str) -> str:
    stored = services.store.source(id)
    return stored.object.name if stored else ""


def _chart(days: Mapping[date, tuple[int, int]], first: date, last: date, by: By) -> ChartView:
    sums: dict[str, list[int]] = {}
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        period = sums.setdefault(day.isoformat()[: 10 if by == "day" else 7], [0, 0])
        for place, count in enumerate(days.get(day, (0, 0))):
            period[place] += count
    times = [datetime.fromisoformat(each if by == "day" else each + "-01").replace(tzinfo=UTC) for each in sums]
    lines = [
        (Line("events", "accent"), [float(events) for events, _ in sums.values()]),
        (Line("filtered", "off"), [float(filtered) for _, filtered in sums.values()]),
    ]
    title = "Events per day" if by == "day" else "Events per month"
    return chart("usage", title, "", [each.timestamp() for each in times], lines, join=sum)


@get("/usage", needs="viewer")
async def show_usage(
    request: Request[Any, Any, Any], services: FromServices, range: FromQuery[UsageRange] = "30d"
) -> Response[str]:
    """Show the usage over a range."""
    return screen(request, "usage.html", "usage", view=await usage_page(services, range), ranges=RANGES)


@get("/usage.csv", needs="viewer")
async def download_usage(services: FromServices, range: FromQuery[UsageRange] = "30d") -> Response[str]:
    """Return the usage per period and source as a file."""
    return await asyncio.to_thread(
        lambda: csv_answer(usage_items(services, range), UsageItem.__struct_fields__, f"usage-{range}")
    )


SCREENS = Screens(
    (
        show_usage,
        download_usage,
    ),
    (Stop("usage", "Usage", "/usage", "u", "M5 20V10M12 20V4M19 20v-7"),),
    docs={"usage": "explanation/sizing"},
)
