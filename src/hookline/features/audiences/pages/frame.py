"""What stands above every tab of an audience or computed trait: name, how it is doing, and the tabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from hookline.api.calls import the_caller
from hookline.api.services import Services
from hookline.connections.definitions.model import Audience, Definition
from hookline.connections.definitions.together import DefinitionKind
from hookline.connections.definitions.trait_name import trait_name
from hookline.connections.state import Stored
from hookline.features.audiences.pages.progress import DefinitionProgress, progress_of
from hookline.features.connections.api import object_tag
from hookline.people.definitions.definition import Key, KindName


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


class DefinitionSection(NamedTuple):
    """One of the two; ``id`` is its entry in the rail, ``people`` the tab with the people it is about."""

    kind: DefinitionKind
    profile_kind: KindName
    id: str
    path: str
    api: str
    title: str
    noun: str
    people: str

    def href(self, id: str, tab: str = "") -> str:
        """Return the page of one of them, or a tab of it."""
        return f"{self.path}/{quote(id, safe='')}" + (f"/{tab}" if tab else "")

    def api_of(self, id: str) -> str:
        """Return where the admin API has it."""
        return f"{self.api}/{quote(id, safe='')}"

    def stored(self, services: Services, id: str) -> Stored[Any] | None:
        """Return the one with an id."""
        return services.store.stored(self.kind, id)

    def key(self, id: str) -> Key:
        """Return what profiles know it by."""
        return self.profile_kind, id


AUDIENCE = DefinitionSection(
    "audience", "audience", "audiences", "/audiences", "/api/v1/audiences", "Audiences", "audience", "members"
)
TRAIT = DefinitionSection(
    "computedTrait", "trait", "traits", "/traits", "/api/v1/computed-traits", "Traits", "computed trait", "values"
)


def section_of(definition: Definition) -> DefinitionSection:
    """Return which of the two a definition is."""
    return AUDIENCE if isinstance(definition, Audience) else TRAIT
