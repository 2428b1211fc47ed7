"""``/catalog``: the kinds of destination by category, and ``/catalog/{kind}`` with the guide of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.handlers import FromServices
from hookline.features.catalog.api import CatalogKind, catalog_entry, catalog_kinds
from hookline.features.catalog.settings_form import settings_form
from hookline.web.guide_text import blocks_of
from hookline.web.lists import by_name
from hookline.web.rendering import Screens, Stop, screen, unknown


class Shelf(NamedTuple):
    """The kinds of one category."""

    category: str
    anchor: str
    kinds: Sequence[CatalogKind]


class CatalogScreens(Controller):
    """Reading only."""

    path = "/catalog"

    @get(needs="viewer")
    async def show_catalog(
        self,
        request: Request[Any, Any, Any],
        services: FromServices,
        search: Annotated[str, QueryParameter(max_length=200)] = "",
        category: Annotated[str, QueryParameter(max_length=200)] = "",
    ) -> Response[str]:
        """Show the kinds of a category that match a search."""
        wanted = search.strip().casefold()
        every = catalog_kinds()
        kinds = [kind for kind in every if wanted in _text_of(kind) and category in ("", kind.category)]
        used = Counter(stored.object.kind for stored in services.store.destinations())
        categories = [shelf.category for shelf in _shelves(every)]
        return screen(
            request,
            "catalog.html",
            "catalog",
            shelves=_shelves(kinds),
            used=used,
            search=search,
            category=category,
            categories=categories,
        )

    @get("/{kind:str}", needs="viewer")
    async def show_kind(
        self, request: Request[Any, Any, Any], services: FromServices, kind: FromPath[str]
    ) -> Response[str]:
        """Show one kind with its guide."""
        entry = catalog_entry(kind)
        if entry is None:
            hint = "No installed package provides it."
            return unknown(request, "catalog", "Catalog", "There is no destination kind with this name", kind, hint)
        every = (stored.object for stored in services.store.destinations())
        used = sorted((each for each in every if each.kind == kind), key=by_name)
        form = [] if entry.form == "webhook" else settings_form(entry.settings_schema, {})
        guide = blocks_of(entry.guide)
        return screen(
            request, "catalog_kind.html", "catalog", kind=entry, form=form, guide=guide, used=used[:USED_SHOWN]
        )


USED_SHOWN = 20


def _shelves(kinds: Sequence[CatalogKind]) -> list[Shelf]:
    """Return the kinds by category, in the order in which each is met first."""
    categories = dict.fromkeys(kind.category for kind in kinds)
    return [
        Shelf(category, f"category-{number}", [kind for kind in kinds if kind.category == category])
        for number, category in enumerate(categories, 1)
    ]


def _text_of(kind: CatalogKind) -> str:
    words = (kind.kind, kind.name, kind.published_name, kind.description, kind.category, *kind.calls)
    return " ".join(words).casefold()


SCREENS = Screens(
    (CatalogScreens,),
    (Stop("catalog", "Catalog", "/catalog", "c", "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z"),),
    docs={"catalog": "how-to/add-a-destination-kind"},
)
