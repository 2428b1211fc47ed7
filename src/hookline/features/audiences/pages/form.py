"""The form of an audience or computed trait, and what it offers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hookline.api.services import Services
from hookline.connections.definitions.model import DESTINATIONS_MAX, Audience, Definition
from hookline.connections.state import Stored
from hookline.expressions.write import write_path
from hookline.features.audiences.pages.progress import DefinitionSection
from hookline.features.connections.api.objects import object_tag
from hookline.features.sources.service import schema_log
from hookline.insights.schema import NAME_CHARACTERS_MAX, PROPERTY_CHARACTERS_MAX, Name, NameSchema

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
