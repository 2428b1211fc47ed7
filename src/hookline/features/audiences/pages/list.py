"""What the lists of audiences and of computed traits show: fifty at a time, searched by name and id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.definitions.model import Definition
from hookline.features.audiences.pages.frame import DefinitionSection
from hookline.features.audiences.pages.progress import DefinitionProgress, progress_of
from hookline.features.audiences.pages.tabs import SyncedDestination, synced_destinations
from hookline.web.object_list import object_page

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
