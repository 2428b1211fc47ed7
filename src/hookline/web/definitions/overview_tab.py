"""The first tab of a definition: what it says, as a sentence and as text, who is told, and what it looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from hookline.connections.definitions.model import Audience, Definition
from hookline.connections.definitions.together import kind_of, references_of
from hookline.connections.definitions.walk import conditions_of
from hookline.control.services import Services
from hookline.web.definitions.section import AUDIENCE, TRAIT, section_of
from hookline.web.definitions.sentence import SentenceStep, sentence_of
from hookline.web.definitions.synced import SyncedDestination, synced_destinations
from hookline.web.definitions.syncs_tab import SyncsTab, syncs_tab

ASKED_BY_SHOWN = 20


class Named(NamedTuple):
    """An audience or computed trait that stands in relation to this one."""

    name: str
    href: str


class Written(NamedTuple):
    """The definition as text."""

    id: str
    title: str
    text: str
    install: str = ""


class OverviewTab(NamedTuple):
    """``written`` is the definition as in ``connections.yaml`` and as the API has it; ``asks`` is what it looks at,
    ``asked_by`` what looks at it, the first of them."""

    said: SentenceStep
    written: Sequence[Written]
    told: Sequence[SyncedDestination]
    asks: Sequence[Named]
    asked_by: Sequence[Named]
    asked_by_more: int
    syncs: SyncsTab


async def overview_tab(services: Services, definition: Definition) -> OverviewTab:
    """Everything but what the head says."""
    asked_by = _asked_by(services, definition)
    from hookline.connections.file import definition_text  # here: YAML is wanted rarely

    return OverviewTab(
        said=sentence_of(definition),
        written=[
            Written("yaml", "connections.yaml", definition_text(definition)),
            Written("json", "API", msgspec.json.format(msgspec.json.encode(definition), indent=2).decode()),
        ],
        told=synced_destinations(services, definition.destinations),
        asks=_asks(services, definition),
        asked_by=asked_by[:ASKED_BY_SHOWN],
        asked_by_more=max(0, len(asked_by) - ASKED_BY_SHOWN),
        syncs=await syncs_tab(services, definition, ""),
    )


def _asks(services: Services, definition: Definition) -> list[Named]:
    found = []
    for kind, id in dict.fromkeys((each.kind, each.id) for each in references_of(definition)):
        stored = services.store.stored(kind, id)
        section = AUDIENCE if kind == AUDIENCE.kind else TRAIT
        found.append(Named(id if stored is None else stored.object.name, section.href(id)))
    return found


def _asked_by(services: Services, definition: Definition) -> list[Named]:
    this = (kind_of(definition), definition.id)
    audiences: list[Audience] = [stored.object for stored in services.store.in_force(AUDIENCE.kind)]
    return [
        Named(each.name, section_of(each).href(each.id))
        for each in audiences
        if _mentions(each, definition.id) and any((found.kind, found.id) == this for found in references_of(each))
    ]


def _mentions(audience: Audience, id: str) -> bool:
    """Return whether it may look at the id: parsing the expressions of a thousand audiences would take too long."""
    return any(
        condition.audience == id or (condition.if_ is not None and id in condition.if_.replace("\\", ""))
        for _, condition in conditions_of(audience)
    )
