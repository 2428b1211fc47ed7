"""``/audiences`` and ``/traits``: the lists, the forms, and each definition with its tabs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.listing import After
from hookline.api.services import FromServices, Services
from hookline.connections.state import Stored
from hookline.features.audiences.members import ID_CHARACTERS_MAX
from hookline.features.audiences.pages.form import form_page
from hookline.features.audiences.pages.frame import AUDIENCE, TRAIT, DefinitionSection, definition_head
from hookline.features.audiences.pages.list import definition_list
from hookline.features.audiences.pages.tabs import change_words, overview_tab, people_tab, syncs_tab, why_tab
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
