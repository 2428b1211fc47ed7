"""The form that makes an audience or computed trait, or changes one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.connections.definitions.model import DESTINATIONS_MAX, Audience, Definition
from hookline.connections.state import Stored
from hookline.control.objects import object_tag
from hookline.control.services import Services
from hookline.web.definitions.choices import choices
from hookline.web.definitions.section import DefinitionSection

DESTINATIONS_SHOWN = 200
FIRST_CONDITION = '{"event": "", "within": "30d"}'
FIRST_TRAIT = '{"event": "", "aggregate": "count", "within": "90d"}'
_OF_FORM = ("id", "name", "destinations", "syncEvery", "enabled")


class FormPage(NamedTuple):
    """``begins`` is what the builder begins with, ``choices`` what it offers, both as JSON; ``destinations`` are id,
    name and whether it is told."""

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
    offered = await asyncio.to_thread(choices, services, definition)
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


def _destinations(services: Services, told: Sequence[str]) -> list[tuple[str, str, bool]]:
    every = [stored.object for stored in services.store.destinations()]
    ordered = sorted(every, key=lambda destination: (destination.id not in told, destination.id))
    room = max(DESTINATIONS_SHOWN, min(len(told), DESTINATIONS_MAX))
    return [(each.id, each.name, each.id in told) for each in ordered[:room]]
