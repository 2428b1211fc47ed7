"""``/audiences`` and ``/traits``: the lists, the forms, and each definition with its tabs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.calls import list_thread, the_caller
from hookline.api.handlers import FromServices
from hookline.api.listing import After
from hookline.api.services import Services
from hookline.connections.definitions.model import DESTINATIONS_MAX, Audience, Definition, trait_name
from hookline.connections.state import Stored
from hookline.expressions.parse import write_path
from hookline.features.audiences.api.members import ID_CHARACTERS_MAX
from hookline.features.audiences.pages.compare import comparison_page
from hookline.features.audiences.pages.listing import definition_list
from hookline.features.audiences.pages.progress import (
    AUDIENCE,
    TRAIT,
    DefinitionProgress,
    DefinitionSection,
    progress_of,
)
from hookline.features.audiences.pages.tabs import (
    change_words,
    overview_tab,
    people_tab,
    syncs_tab,
    why_tab,
)
from hookline.features.connections.api.objects import object_tag
from hookline.features.sources.service import schema_log
from hookline.insights.schema import NAME_CHARACTERS_MAX, PROPERTY_CHARACTERS_MAX, Name, NameSchema
from hookline.web.lists import by_name
from hookline.web.rendering import Screens, Stop, screen, unknown

SOURCES_MAX = 100
"""Sources whose schemas are looked at."""
NAMES_MAX = 300
"""Names that are offered of each type, those sent most often."""
PATHS_MAX = 60
"""Properties that are offered of each name, or of persons and groups, by their own names."""


class NameChoice(msgspec.Struct, frozen=True):
    """A name, and the paths of the properties that came with it, as expressions write them."""

    name: str
    paths: tuple[str, ...]


class DefinitionChoice(msgspec.Struct, frozen=True):
    """Another definition."""

    id: str
    name: str


class Choices(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything, read once when the form is opened: what is not offered can be typed."""

    event: tuple[NameChoice, ...]
    page: tuple[NameChoice, ...]
    screen: tuple[NameChoice, ...]
    traits: tuple[str, ...]
    group_traits: tuple[str, ...]
    computed: tuple[DefinitionChoice, ...]
    audiences: tuple[DefinitionChoice, ...]


class _SeenNames(NamedTuple):
    counts: dict[str, int]
    paths: dict[str, set[str]]


def choices(services: Services, leaving_out: Definition | None) -> Choices:
    """Look it up; reads files, so not on an event loop. A definition is not offered to itself."""
    seen = _together(schema_log(services).names(stored.object.id) for stored in services.store.sources()[:SOURCES_MAX])
    return Choices(
        event=_sent(seen["track"]),
        page=_sent(seen["page"]),
        screen=_sent(seen["screen"]),
        traits=_paths("", seen["identify"].paths.get("", set())),
        group_traits=_paths("", seen["group"].paths.get("", set())),
        computed=_known(services, "computedTrait", leaving_out),
        audiences=_known(services, "audience", leaving_out),
    )


def _together(schemas: Iterable[Mapping[Name, NameSchema]]) -> dict[str, _SeenNames]:
    seen = {type: _SeenNames({}, {}) for type in ("track", "page", "screen", "identify", "group")}
    for names in schemas:
        for name, schema in names.items():
            # What was cut off when it was noted names nothing.
            if name.type in seen and len(name.name) < NAME_CHARACTERS_MAX:
                counts, paths = seen[name.type]
                counts[name.name] = counts.get(name.name, 0) + schema.count
                known = paths.setdefault(name.name, set())
                known.update(path for path in schema.properties if len(path) < PROPERTY_CHARACTERS_MAX)
    return seen


def _sent(seen: _SeenNames) -> tuple[NameChoice, ...]:
    often = sorted((name for name in seen.counts if name), key=lambda name: (-seen.counts[name], name))
    return tuple(NameChoice(name, _paths("properties", seen.paths[name])) for name in often[:NAMES_MAX])


def _paths(first: str, properties: Iterable[str]) -> tuple[str, ...]:
    before = [first] if first else []
    return tuple(write_path((*before, *path.split("."))) for path in sorted(properties)[:PATHS_MAX])


def _known(services: Services, kind: str, leaving_out: Definition | None) -> tuple[DefinitionChoice, ...]:
    stored = services.store.in_force("audience" if kind == "audience" else "computedTrait")
    return tuple(
        DefinitionChoice(each.object.id, each.object.name) for each in stored if each.object is not leaving_out
    )


DESTINATIONS_SHOWN = 200
FIRST_CONDITION = '{"event": "", "within": "30d"}'
"""Without a name, which has to be filled in."""
FIRST_TRAIT = '{"event": "", "aggregate": "count", "within": "90d"}'
_OF_FORM = ("id", "name", "destinations", "syncEvery", "enabled")


class FormPage(NamedTuple):
    """``begins`` is what the builder begins with, ``choices`` what it offers, both as JSON; ``destinations`` are id,
    name and whether it is synced to."""

    section: DefinitionSection
    definition: Definition | None
    begins: str
    choices: str
    destinations: Sequence[tuple[str, str, bool]]
    etag: str
    owner: str


async def form_page(services: Services, section: DefinitionSection, stored: Stored[Any] | None) -> FormPage:
    """Return the form, empty or filled in."""
    definition: Definition | None = None if stored is None else stored.object
    offered = await list_thread(services).run(choices, services, definition)
    return FormPage(
        section=section,
        definition=definition,
        begins=_begins(section, definition),
        choices=msgspec.json.encode(offered).decode(),
        destinations=_destinations(services, () if definition is None else definition.destinations),
        etag="" if stored is None else object_tag(stored.since),
        owner="" if stored is None else stored.owner or "",
    )


def _begins(section: DefinitionSection, definition: Definition | None) -> str:
    if definition is None:
        return FIRST_CONDITION if section.kind == "audience" else FIRST_TRAIT
    if isinstance(definition, Audience):
        return msgspec.json.encode(definition.condition).decode()
    built = msgspec.to_builtins(definition)
    return msgspec.json.encode(
        {key: value for key, value in built.items() if key not in _OF_FORM and value is not None}
    ).decode()


def _destinations(services: Services, chosen: Sequence[str]) -> list[tuple[str, str, bool]]:
    every = [stored.object for stored in services.store.destinations()]
    ordered = sorted(every, key=lambda destination: (destination.id not in chosen, by_name(destination)))
    room = max(DESTINATIONS_SHOWN, min(len(chosen), DESTINATIONS_MAX))
    return [(each.id, each.name, each.id in chosen) for each in ordered[:room]]


class DefinitionHead(NamedTuple):
    """``trait`` is the name that destinations see, ``owner`` is set where a file owns it; with ``etag`` a change is
    refused after somebody else's."""

    section: DefinitionSection
    definition: Definition
    href: str
    api: str
    trait: str
    tabs: Sequence[tuple[str, str, bool]]
    progress: DefinitionProgress
    owner: str
    etag: str


async def definition_head(
    services: Services, section: DefinitionSection, stored: Stored[Any], tab: str
) -> DefinitionHead:
    """Return the head of one page, with this tab open."""
    definition: Definition = stored.object
    (progress,) = await progress_of(services, [definition])
    return DefinitionHead(
        section=section,
        definition=definition,
        href=section.href(definition.id),
        api=section.api_of(definition.id),
        trait=trait_name(definition.name),
        tabs=_tabs(section, definition.id, tab),
        progress=progress,
        owner=stored.owner or "",
        etag=object_tag(stored.since),
    )


def _tabs(section: DefinitionSection, id: str, here: str) -> list[tuple[str, str, bool]]:
    named = [("", "Overview"), (section.people, section.people.title()), ("syncs", "Syncs"), ("why", "Why")]
    if the_caller().may("editor"):
        named.append(("edit", "Edit"))
    return [(title, section.href(id, tab), tab == here) for tab, title in named]


PageRequest = Request[Any, Any, Any]
Search = Annotated[str, QueryParameter(max_length=200)]
Sort = Annotated[str, QueryParameter(max_length=20)]
Compared = Annotated[str, QueryParameter(max_length=200)]
Tab = Callable[..., Awaitable[object]]
"""Services, definition and what is asked for, to what the tab shows."""
User = Annotated[str, QueryParameter(max_length=ID_CHARACTERS_MAX)]


class AudienceScreens(Controller):
    """Looking only; what they change goes through the admin API."""

    path = AUDIENCE.path

    @get(needs="viewer")
    async def show_audiences(
        self, request: PageRequest, services: FromServices, search: Search = "", sort: Sort = "", after: After = None
    ) -> Response[Any]:
        """List the audiences."""
        return await _show_list(request, services, AUDIENCE, search, sort, after)

    @get("/compare", needs="viewer")
    async def show_comparison(
        self, request: PageRequest, services: FromServices, a: Compared = "", b: Compared = ""
    ) -> Response[Any]:
        """Show who is in both of two audiences, and who only in one."""
        view = await comparison_page(services, a, b)
        return screen(request, "definition/compare.html", AUDIENCE.id, section=AUDIENCE, view=view)

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
        self, request: PageRequest, services: FromServices, search: Search = "", sort: Sort = "", after: After = None
    ) -> Response[Any]:
        """List the computed traits."""
        return await _show_list(request, services, TRAIT, search, sort, after)

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
    request: PageRequest, services: Services, section: DefinitionSection, search: str, sort: str, after: str | None
) -> Response[Any]:
    view = await definition_list(services, section, search, sort, after or "")
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


SCREENS = Screens(
    (
        AudienceScreens,
        TraitScreens,
    ),
    (
        Stop(
            "audiences",
            "Audiences",
            "/audiences",
            "a",
            "M4 19a5 5 0 0 1 10 0M6.5 9a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M15 7a2.5 2.5 0 0 1 0 5M17 15a5 5 0 0 1 3 4",
        ),
        Stop("traits", "Traits", "/traits", "r", "M4 12V5h7l9 9-7 7zM8 9h.01"),
    ),
    docs={"audiences": "how-to/make-an-audience", "traits": "reference/audiences"},
)
