"""``/audiences`` and ``/traits``: the lists, the forms, and each definition with its tabs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, NamedTuple

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.listing import After
from hookline.api.services import FromServices, Services
from hookline.connections.definitions.model import Definition
from hookline.connections.state import Stored
from hookline.features.audiences.api.members import ID_CHARACTERS_MAX
from hookline.features.audiences.pages.form import form_page
from hookline.features.audiences.pages.frame import definition_head
from hookline.features.audiences.pages.progress import (
    AUDIENCE,
    TRAIT,
    DefinitionProgress,
    DefinitionSection,
    progress_of,
)
from hookline.features.audiences.pages.tabs import (
    SyncedDestination,
    change_words,
    overview_tab,
    people_tab,
    synced_destinations,
    syncs_tab,
    why_tab,
)
from hookline.web.lists import object_page
from hookline.web.screen import screen, unknown

PageRequest = Request[Any, Any, Any]
Search = Annotated[str, QueryParameter(max_length=200)]
Tab = Callable[..., Awaitable[object]]
"""Services, definition and what is asked for, to what the tab shows."""
User = Annotated[str, QueryParameter(max_length=ID_CHARACTERS_MAX)]


class AudienceScreens(Controller):
    """Looking only; what they change goes through the admin API."""

    path = AUDIENCE.path

    @get(needs="viewer")
    async def show_audiences(
        self, request: PageRequest, services: FromServices, search: Search = "", after: After = None
    ) -> Response[Any]:
        """List the audiences."""
        return await _show_list(request, services, AUDIENCE, search, after)

    @get("/new", needs="editor")
    async def show_new_audience(self, request: PageRequest, services: FromServices) -> Response[Any]:
        """Show the form that makes one."""
        return await _show_form(request, services, AUDIENCE, None)

    @get("/{id:str}", needs="viewer")
    async def show_audience(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[Any]:
        """Show what it says, and how it is doing."""
        return await _show(request, services, AUDIENCE, id, "", overview_tab)

    @get("/{id:str}/members", needs="viewer")
    async def show_members(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[Any]:
        """Show its members."""
        return await _show(request, services, AUDIENCE, id, "members", people_tab, after or "")

    @get("/{id:str}/syncs", needs="viewer")
    async def show_syncs(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[Any]:
        """Show its syncs."""
        return await _show(request, services, AUDIENCE, id, "syncs", syncs_tab, after or "")

    @get("/{id:str}/why", needs="viewer")
    async def show_why(
        self, request: PageRequest, services: FromServices, id: FromPath[str], user: User = ""
    ) -> Response[Any]:
        """Explain it for one person."""
        return await _show(request, services, AUDIENCE, id, "why", why_tab, user)

    @get("/{id:str}/edit", needs="editor")
    async def show_edit(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[Any]:
        """Show the form that changes it."""
        return await _show_edit(request, services, AUDIENCE, id)


class TraitScreens(Controller):
    """The same of computed traits."""

    path = TRAIT.path

    @get(needs="viewer")
    async def show_traits(
        self, request: PageRequest, services: FromServices, search: Search = "", after: After = None
    ) -> Response[Any]:
        """List the computed traits."""
        return await _show_list(request, services, TRAIT, search, after)

    @get("/new", needs="editor")
    async def show_new_trait(self, request: PageRequest, services: FromServices) -> Response[Any]:
        """Show the form that makes one."""
        return await _show_form(request, services, TRAIT, None)

    @get("/{id:str}", needs="viewer")
    async def show_trait(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[Any]:
        """Show what it says, and how it is doing."""
        return await _show(request, services, TRAIT, id, "", overview_tab)

    @get("/{id:str}/values", needs="viewer")
    async def show_values(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[Any]:
        """Show the value of each person."""
        return await _show(request, services, TRAIT, id, "values", people_tab, after or "")

    @get("/{id:str}/syncs", needs="viewer")
    async def show_trait_syncs(
        self, request: PageRequest, services: FromServices, id: FromPath[str], after: After = None
    ) -> Response[Any]:
        """Show its syncs."""
        return await _show(request, services, TRAIT, id, "syncs", syncs_tab, after or "")

    @get("/{id:str}/why", needs="viewer")
    async def show_trait_why(
        self, request: PageRequest, services: FromServices, id: FromPath[str], user: User = ""
    ) -> Response[Any]:
        """Explain the value of one person."""
        return await _show(request, services, TRAIT, id, "why", why_tab, user)

    @get("/{id:str}/edit", needs="editor")
    async def show_trait_edit(self, request: PageRequest, services: FromServices, id: FromPath[str]) -> Response[Any]:
        """Show the form that changes it."""
        return await _show_edit(request, services, TRAIT, id)


async def _show_list(
    request: PageRequest, services: Services, section: DefinitionSection, search: str, after: str | None
) -> Response[Any]:
    view = await definition_list(services, section, search, after or "")
    return screen(request, "definition/list.html", section.id, section=section, view=view)


async def _show(
    request: PageRequest, services: Services, section: DefinitionSection, id: str, tab: str, build: Tab, *asked: str
) -> Response[Any]:
    stored = section.stored(services, id)
    if stored is None:
        return _unknown(request, section, id)
    head = await definition_head(services, section, stored, tab)
    view = await build(services, stored.object, *asked)
    template = {"": "overview", section.people: "people"}.get(tab, tab)
    return screen(
        request,
        f"definition/{template}.html",
        section.id,
        head=head,
        view=view,
        changed=change_words(stored.object),
    )


async def _show_edit(request: PageRequest, services: Services, section: DefinitionSection, id: str) -> Response[Any]:
    stored = section.stored(services, id)
    if stored is None:
        return _unknown(request, section, id)
    return await _show_form(request, services, section, stored)


async def _show_form(
    request: PageRequest, services: Services, section: DefinitionSection, stored: Stored[Any] | None
) -> Response[Any]:
    head = None if stored is None else await definition_head(services, section, stored, "edit")
    view = await form_page(services, section, stored)
    return screen(request, "definition/form.html", section.id, section=section, head=head, view=view)


def _unknown(request: PageRequest, section: DefinitionSection, id: str) -> Response[Any]:
    hint = "It was never created, or it was deleted."
    return unknown(request, section.id, section.noun.capitalize(), f"There is no such {section.noun}", id, hint)


TOLD_SHOWN = 3


class DefinitionRow(NamedTuple):
    """One of the list, with the first few destinations that are told."""

    definition: Definition
    href: str
    progress: DefinitionProgress
    told: Sequence[SyncedDestination]
    told_more: int


class DefinitionList(NamedTuple):
    """One page of the list; ``total`` counts all there are, ``first`` and ``after`` are addresses, or empty."""

    rows: Sequence[DefinitionRow]
    search: str
    total: int
    matching: int
    first: str
    after: str


async def definition_list(services: Services, section: DefinitionSection, search: str, after: str) -> DefinitionList:
    """Gather one page."""
    every = services.store.in_force(section.kind)
    page = object_page(section.path, every, search, after)
    definitions: list[Definition] = [stored.object for stored in page.rows]
    found = await progress_of(services, definitions)
    return DefinitionList(
        rows=[
            DefinitionRow(
                definition=definition,
                href=section.href(definition.id),
                progress=progress,
                told=synced_destinations(services, definition.destinations[:TOLD_SHOWN]),
                told_more=max(0, len(definition.destinations) - TOLD_SHOWN),
            )
            for definition, progress in zip(definitions, found, strict=True)
        ],
        search=search,
        total=len(every),
        matching=page.matching,
        first=page.first_href,
        after=page.after_href,
    )
