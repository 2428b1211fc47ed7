"""``/api/v1/usage``: events per source and day or month, and how many of them count (SPEC section 8)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import msgspec
from litestar import Controller, get
from litestar.params import FromQuery, QueryParameter

from hookline.control.listing import After, Limit
from hookline.control.problem import FieldError, Problem
from hookline.control.services import FromServices, Services
from hookline.control.usage_log import By, UsageCount

DATE_CHARACTERS = 10


class UsageItem(msgspec.Struct, frozen=True, rename="camel"):
    """The events of one source in one period (``2026-11`` or ``2026-11-20``, UTC).

    ``filtered`` are those that filters kept from every destination they were routed to; ``counted`` is the usage.
    """

    period: str
    source: str
    events: int
    filtered: int
    counted: int


class UsageReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of items, newest period first; ``events``, ``filtered`` and ``counted`` are sums over all pages."""

    first_day: str = msgspec.field(name="from")
    last_day: str = msgspec.field(name="to")
    grandfathered: bool
    events: int
    filtered: int
    counted: int
    items: Sequence[UsageItem]
    after: str | None = None


Day = Annotated[str | None, QueryParameter(max_length=DATE_CHARACTERS)]


class Usage(Controller):
    """Reading only; deliver counts."""

    path = "/usage"

    @get()
    async def get_usage(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        by: FromQuery[By] = "month",
        from_: Annotated[str | None, QueryParameter(name="from", max_length=DATE_CHARACTERS)] = None,
        to: Day = None,
        source: Annotated[str | None, QueryParameter(max_length=100)] = None,
    ) -> UsageReport:
        """Return the usage between two days, both included; by default that of this month."""
        last = _day("to", to) or datetime.now(UTC).date()
        first = _day("from", from_) or last.replace(day=1)
        if first > last:
            raise _unusable("from", "from must not be later than to")
        items = [_item(services, count) for count in services.usage.counts(first, last, by, source)]
        page, following = _page(items, limit, after)
        return UsageReport(
            first_day=first.isoformat(),
            last_day=last.isoformat(),
            grandfathered=services.settings.plan.grandfathered,
            events=sum(item.events for item in items),
            filtered=sum(item.filtered for item in items),
            counted=sum(item.counted for item in items),
            items=page,
            after=following,
        )


def _item(services: Services, count: UsageCount) -> UsageItem:
    """On a grandfathered plan what filters kept back counts all the same, if a server sent it (SPEC section 8)."""
    source = services.store.last_source(count.source)
    all_count = services.settings.plan.grandfathered and (source is None or source.type == "server")
    return UsageItem(*count, counted=count.events if all_count else count.events - count.filtered)


def _page(items: list[UsageItem], limit: int, after: str | None) -> tuple[list[UsageItem], str | None]:
    start = 0
    if after is not None:
        places = [index for index, item in enumerate(items) if _cursor(item) == after]
        if not places:
            raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
        start = places[0] + 1
    page = items[start : start + limit]
    return page, _cursor(page[-1]) if start + limit < len(items) else None


def _cursor(item: UsageItem) -> str:
    return f"{item.period}/{item.source}"


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
