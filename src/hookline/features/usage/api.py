"""``/api/v1/usage``: what came in and went out by month, as JSON and as a spreadsheet."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from io import StringIO
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Controller, Request, Response, get
from litestar.params import QueryParameter

from hookline.api.export import cell
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Limit, OfSource
from hookline.api.problem import FieldError, Problem
from hookline.api.services import Services
from hookline.features.fleet.storage import storage_of
from hookline.features.insights.service import series_log
from hookline.features.privacy.service import suppressed_usage
from hookline.features.sources.service import schema_log
from hookline.features.usage.service import By, UsageCount, usage_log
from hookline.insights.series import USAGE_ROWS_MAX, DestinationUsage, UsageTooLong

DATE_CHARACTERS = 10
ItemT = TypeVar("ItemT")


class UsageItem(msgspec.Struct, frozen=True, rename="camel"):
    """The events of one source in one period (``2026-11`` or ``2026-11-20``, UTC).

    ``filtered`` events were stopped by filters at all their destinations; ``counted`` is the usage. ``suppressed``
    events are not among ``events``: their people are suppressed, and nothing was stored.
    """

    period: str
    source: str
    events: int
    filtered: int
    counted: int
    suppressed: int


class UsageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of items, newest period first; ``events``, ``filtered``, ``counted`` and ``suppressed`` are sums over
    all pages."""

    first_day: str = msgspec.field(name="from")
    last_day: str = msgspec.field(name="to")
    grandfathered: bool
    events: int
    filtered: int
    counted: int
    suppressed: int
    items: Sequence[UsageItem]
    after: str | None = None


DAY = {"format": "date"}
FirstDay = Annotated[
    str | None,
    QueryParameter(
        name="from",
        max_length=DATE_CHARACTERS,
        description="First day (default: the first of the month of `to`).",
        schema_extra=DAY,
    ),
]
LastDay = Annotated[
    str | None,
    QueryParameter(name="to", max_length=DATE_CHARACTERS, description="Last day (default: today).", schema_extra=DAY),
]
SumBy = Annotated[By, QueryParameter(name="by", description="Sum by day or by month (UTC).")]


class Usage(Controller):
    """Reading only; deliver counts."""

    path = "/usage"

    @get(needs="viewer")
    async def get_usage(
        self,
        services: FromServices,
        request: Request[Any, Any, Any],
        limit: Limit = 50,
        after: After = None,
        by: SumBy = "month",
        from_: FirstDay = None,
        to: LastDay = None,
        source: OfSource = None,
    ) -> UsageReport | Response[str]:
        """Return events per source and day or month, and how many of them count as usage."""
        first, last = days_of(from_, to)
        items = await asyncio.to_thread(items_of, services, first, last, by, source)
        if wants_csv(request):
            return csv_answer(items, UsageItem.__struct_fields__, "usage")
        page, following = page_of(items, lambda item: f"{item.period}/{item.source}", limit, after)
        return UsageReport(
            first_day=first.isoformat(),
            last_day=last.isoformat(),
            grandfathered=services.settings.plan.grandfathered,
            events=sum(item.events for item in items),
            filtered=sum(item.filtered for item in items),
            counted=sum(item.counted for item in items),
            suppressed=sum(item.suppressed for item in items),
            items=page,
            after=following,
        )


def items_of(services: Services, first: date, last: date, by: By, source: str | None) -> list[UsageItem]:
    """Return the usage of these days by period and source, newest period first; takes too long for an event loop.
    Raise Problem for a report that is too long."""
    counts = usage_log(services).counts(first, last, by, source)
    suppressed = suppressed_usage(services).counts(first, last, by, source)
    only_suppressed = suppressed.keys() - {(count.period, count.source) for count in counts}
    counts += [UsageCount(*key, 0, 0) for key in only_suppressed]
    if len(counts) > USAGE_ROWS_MAX:
        raise _too_long()
    counts.sort(key=lambda count: count.source)
    counts.sort(key=lambda count: count.period, reverse=True)
    return [usage_item(services, count, suppressed.get((count.period, count.source), 0)) for count in counts]


def usage_item(services: Services, count: UsageCount, suppressed: int = 0) -> UsageItem:
    """On a grandfathered plan what filters kept back counts all the same, if a server sent it."""
    all_count = services.settings.plan.grandfathered and _is_no_client(services, count.source)
    return UsageItem(
        *count, counted=count.events if all_count else count.events - count.filtered, suppressed=suppressed
    )


def _is_no_client(services: Services, source: str) -> bool:
    found = services.store.last_source(source)
    return found is None or found.type == "server"


def days_of(first: str | None, last: str | None) -> tuple[date, date]:
    """First and last day of a report, by default this month's; raise Problem for what are no days in order."""
    to = _day("to", last) or datetime.now(UTC).date()
    begin = _day("from", first) or to.replace(day=1)
    if begin > to:
        raise _unusable("from", "from must not be later than to")
    return begin, to


def page_of(
    items: Sequence[ItemT], cursor: Callable[[ItemT], str], limit: int, after: str | None
) -> tuple[Sequence[ItemT], str | None]:
    """Return one page of a report that is there as a whole, and the cursor behind it."""
    start = 0
    if after is not None:
        places = [index for index, item in enumerate(items) if cursor(item) == after]
        if not places:
            raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
        start = places[0] + 1
    page = items[start : start + limit]
    return page, cursor(page[-1]) if start + limit < len(items) else None


def _day(name: str, text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise _unusable(name, "write a day such as 2026-11-20") from None


def _unusable(name: str, sentence: str) -> Problem:
    return Problem(
        400, "invalid_parameter", f"A parameter cannot be used: {name}: {sentence}.", [FieldError(f"?{name}", sentence)]
    )


def _too_long() -> Problem:
    return _unusable("from", f"the report has more than {USAGE_ROWS_MAX:,} rows; ask for fewer days, or by month")


MEDIA_TYPE = "text/csv"


def wants_csv(request: Request[Any, Any, Any]) -> bool:
    """Return whether the caller prefers CSV: it is the first thing named in ``Accept``."""
    return request.headers.get("accept", "").split(",")[0].partition(";")[0].strip() == MEDIA_TYPE


def csv_answer(items: Sequence[msgspec.Struct], fields: Sequence[str], name: str) -> Response[str]:
    """Return all items with a line of names, as a file of this name; texts cannot be taken for formulas."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(fields)
    for item in items:
        values = msgspec.to_builtins(item)
        writer.writerow([cell(values[field]) for field in fields])
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(text.getvalue(), media_type=MEDIA_TYPE, headers=headers)


MONTHS_MAX = 24


class DestinationUsageItem(msgspec.Struct, frozen=True, rename="camel"):
    """Counts of one destination in one period (``2026-11`` or ``2026-11-20``, UTC); ``failures`` are requests."""

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
    """An estimate of the different users (user ids, else anonymous ids) of a source in a month (UTC). ``source`` is
    null for all sources together."""

    month: str
    source: str | None
    users: int


class TrackedUsersReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Newest month first; the numbers are estimates, off by about ``errorPercent``."""

    error_percent: float = 1.6
    items: Sequence[TrackedUsersItem]


class StoredPart(msgspec.Struct, frozen=True):
    """One file or folder of the data folder and its size in bytes."""

    name: str
    title: str
    bytes: int


class StorageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The disk use of the data folder, and the age and size up to which events are kept."""

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
        """Return counts per destination and day or month. With `Accept: text/csv`, everything as a file."""
        first, last = days_of(from_, to)
        begin, end = _seconds(first), _seconds(last)
        try:
            found = await asyncio.to_thread(series_log(services).usage, begin, end, by == "month")
        except UsageTooLong:
            raise _too_long() from None
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
        """Return an estimate of the users of each source in the newest months. Also as `text/csv`."""
        found = await asyncio.to_thread(schema_log(services).users, months)
        items = [TrackedUsersItem(*each) for each in found]
        if wants_csv(request):
            return csv_answer(items, ("month", "source", "users"), "tracked-users")
        return TrackedUsersReport(items=items)

    @get("/storage", needs="viewer")
    async def get_storage(
        self, services: FromServices, request: Request[Any, Any, Any]
    ) -> StorageReport | Response[str]:
        """Return the disk use of the data folder, part by part. Also as `text/csv`."""
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
