"""The pages of sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.calls import list_thread
from hookline.api.handlers import FromServices
from hookline.api.listing import After
from hookline.api.services import Services
from hookline.connections.model import WRITE_KEYS_MAX, Source, new_write_key
from hookline.connections.state import Stored
from hookline.features.connections.api.objects import object_tag
from hookline.features.events.log import EventFilter, LoggedEvent, event_name
from hookline.features.events.service import event_log
from hookline.features.fleet.service import role_metrics
from hookline.features.notices.conditions.machine import SOURCE_LAST_EVENT
from hookline.features.overview.connections import SourceView, source_view
from hookline.features.setup.snippets import Place, collect_url, places_of_source
from hookline.features.sources.api import schema_of
from hookline.features.sources.service import source_activity
from hookline.features.usage.service import usage_log
from hookline.rate_limit import RateLimit
from hookline.telemetry.metrics import PROCESS_STARTED
from hookline.web.lists import by_name, event_href, object_page
from hookline.web.rendering import Screens, Stop, iso_seconds, screen, unknown


def last_heard(services: Services, ids: Sequence[str]) -> dict[str, str]:
    """ISO times by source; a source that was never heard is missing."""
    heard = {id: at / 1000 for id, at in source_activity(services).of(ids).items()}
    collect = role_metrics(services).reports().get("collect")
    reported = collect.by_label(SOURCE_LAST_EVENT) if collect else {}
    for id in ids:
        if id in reported:
            heard[id] = max(heard.get(id, 0), reported[id])
    return {id: iso_seconds(at) for id, at in heard.items()}


class SourceRow(NamedTuple):
    """One source; ``feeds`` is the number of its destinations."""

    id: str
    name: str
    type: str
    enabled: bool
    last_event_at: str
    today: int
    feeds: int


class SourceList(NamedTuple):
    """One page of the list; ``total`` counts all sources there are."""

    rows: Sequence[SourceRow]
    total: int
    matching: int
    search: str
    first_href: str
    after_href: str


def source_list(services: Services, search: str, after: str) -> SourceList:
    """Gather one page."""
    sources = services.store.sources()
    page = object_page("/sources", sources, search, after)
    heard = last_heard(services, [stored.object.id for stored in page.rows])
    day = datetime.fromtimestamp(services.store.now_ms() / 1000, UTC).date()
    today = {count.source: count.events for count in usage_log(services).counts(day, day, "day", None)}
    feeds = Counter(id for stored in services.store.destinations() for id in stored.object.sources)
    return SourceList(
        rows=[
            SourceRow(
                id=source.id,
                name=source.name,
                type=source.type,
                enabled=source.enabled,
                last_event_at=heard.get(source.id, ""),
                today=today.get(source.id, 0),
                feeds=feeds[source.id],
            )
            for source in (stored.object for stored in page.rows)
        ],
        total=len(sources),
        matching=page.matching,
        search=search,
        first_href=page.first_href,
        after_href=page.after_href,
    )


DESTINATIONS_SHOWN = 20
RATE_LIMITED = "hookline_collect_rate_limited_total"

TABS = (("", "Set-up"), ("schema", "Schema"), ("keys", "Keys"), ("rejected", "Rejected"), ("settings", "Settings"))
"""Path below the source and title of each tab."""


class Fed(NamedTuple):
    """A destination that the source feeds."""

    id: str
    name: str


class SourcePage(NamedTuple):
    """The whole page; ``tabs`` are (title, address, whether it is this one), ``keys`` are numbered.
    ``rate_limited`` calls were answered 429 since collect started; ``usual_rate`` is what holds where the source says
    nothing.

    ``owner`` is set where a file owns the source; with ``etag`` a change is refused after somebody else's.
    """

    source: SourceView
    tabs: Sequence[tuple[str, str, bool]]
    owner: str
    etag: str
    keys: Sequence[tuple[int, str]]
    feeds: Sequence[Fed]
    feeds_more: int
    last_event_at: str
    rate_limit: RateLimit
    usual_rate: str
    rate_limited: int
    rate_limited_since: str
    places: Sequence[Place]


def source_page(services: Services, stored: Stored[Source], tab: str) -> SourcePage:
    """Put together what is known of a source."""
    source = stored.object
    url = collect_url(services.settings)
    collect = role_metrics(services).reports().get("collect")
    usual = services.settings.collect.rate_limit
    every = (each.object for each in services.store.destinations())
    fed = sorted((each for each in every if source.id in each.sources), key=by_name)
    return SourcePage(
        source=source_view(source, url),
        tabs=_tabs(source.id, tab),
        owner=stored.owner or "",
        etag=object_tag(stored.since),
        keys=list(enumerate(source.write_keys, 1)),
        feeds=[Fed(each.id, each.name) for each in fed[:DESTINATIONS_SHOWN]],
        feeds_more=max(0, len(fed) - DESTINATIONS_SHOWN),
        last_event_at=last_heard(services, [source.id]).get(source.id, ""),
        rate_limit=source.rate_limit or RateLimit(),
        usual_rate="" if usual is None else str(usual),
        rate_limited=int(collect.by_label(RATE_LIMITED).get(source.id, 0)) if collect else 0,
        rate_limited_since=iso_seconds(collect.number(PROCESS_STARTED)) if collect else "",
        places=places_of_source(source.write_keys[0], url, source.type) if source.write_keys and not tab else [],
    )


def _tabs(id: str, here: str) -> list[tuple[str, str, bool]]:
    tabs = [(title, f"/sources/{id}" + (path and f"/{path}"), path == here) for path, title in TABS]
    return [tabs[0], ("Live", f"/events?source={id}", False), *tabs[1:]]


ITEMS_SHOWN = 50
SEARCH_SECONDS_MAX = 0.03
"""A page does not keep anybody waiting: what was not looked at by then is on the next one."""


class RejectedItem(NamedTuple):
    """One refused item; ``message`` says what was wrong with it."""

    key: str
    href: str
    received_at: str
    type: str
    name: str
    code: str
    message: str


class RejectedItems(NamedTuple):
    """Some items; ``after_href`` leads to older ones, and is empty when everything was looked at."""

    items: Sequence[RejectedItem]
    first_href: str
    after_href: str


async def rejected_items(services: Services, source: str, after: str | None) -> RejectedItems:
    """Look for the newest ones, or those older than the cursor ``after``."""
    wanted = EventFilter(source=source, status="rejected")
    page = await event_log(services).newest(wanted, ITEMS_SHOWN, after, SEARCH_SECONDS_MAX)
    here = f"/sources/{source}/rejected"
    return RejectedItems(
        items=[_item(logged) for logged in page.events],
        first_href=here if after else "",
        after_href=f"{here}?after={quote(page.after)}" if page.after else "",
    )


def _item(logged: LoggedEvent) -> RejectedItem:
    event = logged.status
    return RejectedItem(
        key=logged.cursor,
        href=event_href(event.message_id, event.source),
        received_at=event.received_at,
        type=logged.record.type,
        name=event_name(logged.record) or event.message_id,
        code=event.rejection.code if event.rejection else "",
        message=event.rejection.message if event.rejection else "",
    )


NAMES_SHOWN = 50
PROPERTIES_SHOWN = 50
"""Of a name; the rest is in the API."""

PageRequest = Request[Any, Any, Any]
Search = Annotated[str, QueryParameter(max_length=200)]


class SourceScreens(Controller):
    """Reading only; what they change goes through the admin API."""

    path = "/sources"

    @get(needs="viewer")
    async def show_list(
        self, request: PageRequest, services: FromServices, search: Search = "", after: After = None
    ) -> Response[str]:
        """Show the sources."""
        return screen(request, "sources.html", "sources", view=source_list(services, search, after or ""))

    @get("/{id:str}", needs="viewer")
    async def show_setup(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show how to send to it."""
        return _show(request, services, id, "", "source.html")

    @get("/{id:str}/schema", needs="viewer")
    async def show_schema(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[str]:
        """Show which events it sends, and with which properties."""
        schema = await list_thread(services).run(schema_of, services, id, NAMES_SHOWN, after)
        shown = {"schema": schema, "asked": after or "", "properties_shown": PROPERTIES_SHOWN}
        return _show(request, services, id, "schema", "source_schema.html", **shown)

    @get("/{id:str}/keys", needs="viewer")
    async def show_keys(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show its write keys."""
        return _show(
            request, services, id, "keys", "source_keys.html", new_key=new_write_key(), keys_max=WRITE_KEYS_MAX
        )

    @get("/{id:str}/rejected", needs="viewer")
    async def show_rejected(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[str]:
        """Show what it sent and was refused."""
        items = await rejected_items(services, id, after)
        return _show(request, services, id, "rejected", "source_rejected.html", rejected=items)

    @get("/{id:str}/settings", needs="viewer")
    async def show_settings(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[str]:
        """Show what can be changed about it."""
        return _show(request, services, id, "settings", "source_settings.html")


def _show(
    request: PageRequest, services: Services, id: str, tab: str, template: str, **values: object
) -> Response[str]:
    stored = services.store.source(id)
    if stored is None:
        hint = "It was never created, or it was deleted."
        return unknown(request, "sources", "Source", "There is no source with this id", id, hint)
    return screen(request, template, "sources", view=source_page(services, stored, tab), **values)


SCREENS = Screens(
    (SourceScreens,),
    (Stop("sources", "Sources", "/sources", "s", "M12 4v10M7 10l5 5 5-5M5 20h14"),),
    docs={"sources": "reference/collection"},
)
