"""``/api/v1/usage/destinations``, ``/users``, ``/storage``: what destinations got, how many users, how much disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import msgspec
from litestar import Controller, Request, Response, get
from litestar.params import QueryParameter

from hookline.api.listing import After, Limit
from hookline.api.services import FromServices
from hookline.features.fleet.storage import storage_of
from hookline.features.insights.service import series_log
from hookline.features.sources.service import schema_log
from hookline.features.usage.api import FirstDay, LastDay, SumBy, csv_answer, days_of, page_of, wants_csv
from hookline.insights.series_log import DestinationUsage

MONTHS_MAX = 24


class DestinationUsageItem(msgspec.Struct, frozen=True, rename="camel"):
    """What one destination came to in one period (``2026-11`` or ``2026-11-20``, UTC); ``failures`` are requests."""

    period: str
    destination: str
    delivered: int
    filtered: int
    failures: int
    not_delivered: int


class DestinationUsageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of items, newest period first; ``delivered`` is the sum over all pages."""

    first_day: str = msgspec.field(name="from")
    last_day: str = msgspec.field(name="to")
    delivered: int
    items: Sequence[DestinationUsageItem]
    after: str | None = None


class TrackedUsersItem(msgspec.Struct, frozen=True, rename="camel"):
    """About how many different users (user ids, else anonymous ids) a source had in a month (UTC); ``source`` is null
    for all sources together."""

    month: str
    source: str | None
    users: int


class TrackedUsersReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Newest month first; the numbers are estimates, off by about ``errorPercent``."""

    error_percent: float = 1.6
    items: Sequence[TrackedUsersItem]


class StoredPart(msgspec.Struct, frozen=True):
    """One file or folder of the data folder, and the bytes it takes."""

    name: str
    title: str
    bytes: int


class StorageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the data folder takes of the disk; events are kept until they are so old or take so much."""

    parts: Sequence[StoredPart]
    bytes: int
    free_bytes: int
    retention_seconds: float
    retention_bytes: int


class UsageDetails(Controller):
    """Reading only."""

    path = "/usage"

    @get("/destinations", needs="viewer")
    async def get_destination_usage(
        self,
        services: FromServices,
        request: Request[Any, Any, Any],
        limit: Limit = 50,
        after: After = None,
        by: SumBy = "month",
        from_: FirstDay = None,
        to: LastDay = None,
    ) -> DestinationUsageReport | Response[str]:
        """Return what each destination came to per day or month. With `Accept: text/csv` all of it as a file."""
        first, last = days_of(from_, to)
        begin, end = _seconds(first), _seconds(last)
        found = await asyncio.to_thread(series_log(services).usage, begin, end, by == "month")
        items = [_item(each) for each in found]
        if wants_csv(request):
            fields = ("period", "destination", "delivered", "filtered", "failures", "notDelivered")
            return csv_answer(items, fields, "usage-of-destinations")
        page, following = page_of(items, lambda item: f"{item.period}/{item.destination}", limit, after)
        return DestinationUsageReport(
            first_day=first.isoformat(),
            last_day=last.isoformat(),
            delivered=sum(item.delivered for item in items),
            items=page,
            after=following,
        )

    @get("/users", needs="viewer")
    async def get_tracked_users(
        self,
        services: FromServices,
        request: Request[Any, Any, Any],
        months: Annotated[int, QueryParameter(ge=1, le=MONTHS_MAX, description="How many months.")] = 12,
    ) -> TrackedUsersReport | Response[str]:
        """Return about how many users the sources had in each of the newest months; also as `text/csv`."""
        found = await asyncio.to_thread(schema_log(services).users, months)
        items = [TrackedUsersItem(*each) for each in found]
        if wants_csv(request):
            return csv_answer(items, ("month", "source", "users"), "tracked-users")
        return TrackedUsersReport(items=items)

    @get("/storage", needs="viewer")
    async def get_storage(
        self, services: FromServices, request: Request[Any, Any, Any]
    ) -> StorageReport | Response[str]:
        """Return what the data folder takes of the disk, part by part; also as `text/csv`."""
        found = await asyncio.to_thread(storage_of, services.settings)
        parts = [StoredPart(*part) for part in found.parts]
        if wants_csv(request):
            return csv_answer(parts, StoredPart.__struct_fields__, "storage")
        return StorageReport(
            parts=parts,
            bytes=sum(part.bytes for part in parts),
            free_bytes=found.free_bytes,
            retention_seconds=services.settings.retention.events,
            retention_bytes=services.settings.retention.bytes,
        )


def _item(usage: DestinationUsage) -> DestinationUsageItem:
    return DestinationUsageItem(*usage)


def _seconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
