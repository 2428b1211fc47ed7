"""``/destinations``, ``/destinations/new`` and ``/destinations/{id}/{tab}``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.services import FromServices, Services
from hookline.connections.model import WEBHOOKS_MAX, DeliveryOptions, Destination
from hookline.connections.state import Stored
from hookline.features.destinations.pages.delivery import delivery_tab
from hookline.features.destinations.pages.frame import destination_head
from hookline.features.destinations.pages.list import destination_list
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
