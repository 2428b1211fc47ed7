"""``/destinations``, ``/destinations/new`` and ``/destinations/{id}/{tab}``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.services import FromServices, Services
from hookline.connections.model import WEBHOOKS_MAX, DeliveryOptions, Destination
from hookline.connections.state import Stored
from hookline.features.destinations.api.views import CatalogKind, catalog_entry, catalog_kinds
from hookline.features.destinations.health import WINDOW_SECONDS, is_failing
from hookline.features.destinations.pages.delivery import Flow, delivery_tab, flows
from hookline.features.destinations.pages.frame import destination_head
from hookline.features.destinations.pages.tabs import (
    FAN_OUTS,
    ORDERS,
    Url,
    attempts_tab,
    dead_letters_tab,
    filters_tab,
    notices_tab,
    replay_tab,
    settings_tab,
    source_choices,
    tester_tab,
)
from hookline.features.fleet.service import fleet_log, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import BREAKER_OPEN
from hookline.features.overview.connections import DestinationView, destination_views
from hookline.insights.series_log import Recent
from hookline.web.guide_text import blocks_of
from hookline.web.lists import destination_href, object_page
from hookline.web.screen import query_of, screen, unknown

FIRST_TAB = "delivery"

Query = Mapping[str, str]
Tab = Callable[[Services, Stored[Destination], Query], Awaitable[object]]


async def _settings(services: Services, stored: Stored[Destination], _: Query) -> object:
    return settings_tab(services, stored.object)


TABS: dict[str, Tab] = {
    "attempts": attempts_tab,
    "delivery": delivery_tab,
    "dead-letters": dead_letters_tab,
    "filters": filters_tab,
    "tester": tester_tab,
    "replay": replay_tab,
    "settings": _settings,
    "notices": notices_tab,
}


class NewDestination(NamedTuple):
    """An empty form."""

    urls: list[Url]
    sources: list[tuple[str, str, bool]]
    fan_outs: tuple[tuple[str, str], ...]
    orders: tuple[tuple[str, str], ...]
    delivery: DeliveryOptions


@get("/destinations", needs="viewer")
async def show_destinations(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the list."""
    asked = query_of(request)
    view = destination_list(services, asked.get("search", ""), asked.get("state", ""), asked.get("after", ""))
    return screen(request, "destinations.html", "destinations", view=view)


@get("/destinations/new", needs="editor")
async def show_new_destination(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the form that makes one."""
    urls = [Url("", "")] * WEBHOOKS_MAX
    view = NewDestination(urls, source_choices(services, ()), FAN_OUTS, ORDERS, DeliveryOptions())
    return screen(request, "destination/new.html", "destinations", view=view)


@get("/destinations/{id:str}", needs="viewer")
async def show_destination(request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]) -> Response[str]:
    """Show one destination with its first tab."""
    return await _show(request, services, id, FIRST_TAB)


@get("/destinations/{id:str}/{tab:str}", needs="viewer")
async def show_destination_tab(
    request: Request[Any, Any, Any], services: FromServices, id: FromPath[str], tab: FromPath[str]
) -> Response[str]:
    """Show one destination with this tab."""
    return await _show(request, services, id, tab)


async def _show(request: Request[Any, Any, Any], services: Services, id: str, tab: str) -> Response[str]:
    stored = services.store.destination(id)
    if stored is None or tab not in TABS:
        hint = "It was never created, or it was deleted."
        return unknown(request, "destinations", "Destination", "There is no such destination", id, hint)
    view = await TABS[tab](services, stored, query_of(request))
    head = destination_head(services, stored, tab)
    return screen(request, f"destination/{tab}.html", "destinations", head=head, view=view)


PATH = "/destinations"
STATES = (("failing", "Failing"), ("paused", "Paused"), ("healthy", "Healthy"), ("off", "Off"))


class DestinationRow(NamedTuple):
    """One destination of the list."""

    view: DestinationView
    href: str
    flow: Flow


class DestinationList(NamedTuple):
    """One page of the list; ``first`` and ``after`` are addresses, or empty."""

    rows: Sequence[DestinationRow]
    asked: Mapping[str, str]
    states: Sequence[tuple[str, str]]
    total: int
    matched: int
    first: str
    after: str


def destination_list(services: Services, search: str, state: str, after: str) -> DestinationList:
    """Return the destinations that match, by id; states are taken from what deliver reports, so that no row is read
    twice."""
    every, failing = services.store.destinations(), _failing(services)
    wanted = every if not state else [stored for stored in every if _state(stored, failing) == state]
    page = object_page(PATH, wanted, search, after, state=state)
    flowing = flows(services.settings.data_path)
    return DestinationList(
        rows=[
            DestinationRow(view, destination_href(view.id), flowing.get(view.id, Flow()))
            for view in destination_views(services, page.rows)
        ],
        asked={"search": search, "state": state},
        states=STATES,
        total=len(every),
        matched=page.matching,
        first=page.first_href,
        after=page.after_href,
    )


def _failing(services: Services) -> set[str]:
    failing = set(fleet_log(services).open_breakers)
    recent = series_log(services).recent(WINDOW_SECONDS, services.store.now_ms() // 1000)
    retrying: dict[str, int] = {}
    deliver = role_metrics(services).reports().get("deliver")
    if deliver is not None:
        failing.update(id for id, value in deliver.by_label(BREAKER_OPEN).items() if value)
        retrying = {id: int(value) for id, value in deliver.by_label("hookline_deliver_retry_rows").items()}
    some = (id for id in recent.keys() | retrying.keys() if is_failing(recent.get(id, Recent()), retrying.get(id, 0)))
    return failing.union(some)


def _state(stored: Stored[Destination], failing: set[str]) -> str:
    if not stored.object.enabled or stored.lane is None:
        return "off"
    if stored.lane.paused is not None:
        return "paused"
    return "failing" if stored.object.id in failing else "healthy"


class CatalogScreens(Controller):
    """Reading only."""

    path = "/catalog"

    @get(needs="viewer")
    async def show_catalog(
        self,
        request: Request[Any, Any, Any],
        services: FromServices,
        search: Annotated[str, QueryParameter(max_length=200)] = "",
    ) -> Response[str]:
        """Show the kinds, those that match a search."""
        wanted = search.strip().casefold()
        kinds = [kind for kind in catalog_kinds() if wanted in _text_of(kind)]
        used = Counter(stored.object.kind for stored in services.store.destinations())
        return screen(request, "catalog.html", "catalog", kinds=kinds, used=used, search=search)

    @get("/{kind:str}", needs="viewer")
    async def show_kind(self, request: Request[Any, Any, Any], kind: FromPath[str]) -> Response[str]:
        """Show one kind with its guide."""
        entry = catalog_entry(kind)
        if entry is None:
            hint = "No installed package provides it."
            return unknown(request, "catalog", "Catalog", "There is no destination kind with this name", kind, hint)
        return screen(request, "catalog_kind.html", "catalog", kind=entry, guide=blocks_of(entry.guide))


def _text_of(kind: CatalogKind) -> str:
    return f"{kind.kind} {kind.name} {kind.published_name} {kind.description}".casefold()
