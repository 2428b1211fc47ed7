"""``/catalog``: the kinds of destination, and what each does and asks for."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.services import FromServices
from hookline.features.destinations.catalog import CatalogKind, catalog_entry, catalog_kinds
from hookline.web.guide_text import blocks_of
from hookline.web.screen import screen, unknown


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
