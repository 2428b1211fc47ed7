"""What stands above every tab of an audience or computed trait: name, how it is doing, and the tabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hookline.api.calls import the_caller
from hookline.api.services import Services
from hookline.connections.definitions.model import Definition
from hookline.connections.definitions.times import trait_name
from hookline.connections.state import Stored
from hookline.features.audiences.pages.progress import DefinitionProgress, DefinitionSection, progress_of
from hookline.features.connections.api.objects import object_tag


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
