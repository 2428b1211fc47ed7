"""``/sources``: the list, and one source with a tab for each thing one does with it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.connections.model import WRITE_KEYS_MAX
from hookline.connections.write_key import new_write_key
from hookline.control.listing import After
from hookline.control.services import FromServices, Services
from hookline.control.source_schema import schema_of
from hookline.web.rejected_items import rejected_items
from hookline.web.screen import screen, unknown
from hookline.web.source_list import source_list
from hookline.web.source_page import source_page

NAMES_SHOWN = 50

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
        schema = await asyncio.to_thread(schema_of, services, id, NAMES_SHOWN, after)
        return _show(request, services, id, "schema", "source_schema.html", schema=schema, asked=after or "")

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
        return unknown(request, "sources", "Source", "There is no source of this id", id, hint)
    return screen(request, template, "sources", view=source_page(services, stored, tab), **values)
