"""``/api/v1/sources/{id}/schema``: which events a source sends, how often, since when, and with which properties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from hookline.api.calls import list_thread
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, OfType
from hookline.api.problem import not_found
from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.connections.service import journal_ends
from hookline.features.sources.service import schema_log
from hookline.insights.schema import Name, NameSchema, PropertyType

SEPARATOR = "/"


class SeenProperty(msgspec.Struct, frozen=True):
    """A property of ``properties`` (``traits`` of identify and group calls) by its path, and how often it had a value
    of each type."""

    path: str
    types: Mapping[PropertyType, int]


class SeenName(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The events of one type and name. Properties come from ``examined`` of them: the first ones, then samples."""

    type: str
    name: str
    count: int
    first_seen: str
    last_seen: str
    examined: int
    properties: Sequence[SeenProperty]
    properties_complete: bool


class SourceSchema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of names; ``names`` is their total. ``otherEvents`` have names beyond the limit. ``unread`` events of
    all sources are not examined yet; ``missed`` ones were deleted before they were."""

    source: str
    names: int
    other_events: int
    unread: int
    missed: int
    items: Sequence[SeenName]
    after: str | None = None


@get("/sources/{id:str}/schema", needs="viewer")
async def get_schema(
    services: FromServices,
    object_id: Id,
    limit: Limit = 50,
    after: After = None,
    type_: OfType = None,
    name: Annotated[str | None, QueryParameter(max_length=1_000, description="Only events with this name.")] = None,
) -> SourceSchema:
    """Return the events that a source sends, by type and name: how often, since when, and their properties."""
    if services.store.source(object_id) is None:
        raise not_found("source", object_id)
    return await list_thread(services).run(schema_of, services, object_id, limit, after, type_, name)


def schema_of(
    services: Services,
    source: str,
    limit: int,
    after: str | None = None,
    type: str | None = None,
    name: str | None = None,
) -> SourceSchema:
    """Look it up; reads files, so not on an event loop."""
    behind = None if after is None else Name(*after.partition(SEPARATOR)[::2])
    found = schema_log(services).page(source, limit + 1, behind, type, name)
    page = found.items[:limit]
    places, ends = schema_log(services).places(), journal_ends(services.settings)
    return SourceSchema(
        source=source,
        names=found.names,
        other_events=found.other_events,
        unread=sum(max(0, end - places.get(partition, 0)) for partition, end in ends.items()),
        missed=schema_log(services).missed(),
        items=[_seen(*each) for each in page],
        after=_cursor(page[-1][0]) if len(found.items) > limit else None,
    )


def _cursor(name: Name) -> str:
    return f"{name.type}{SEPARATOR}{name.name}"


def _seen(name: Name, schema: NameSchema) -> SeenName:
    return SeenName(
        type=name.type,
        name=name.name,
        count=schema.count,
        first_seen=iso(schema.first_seen),
        last_seen=iso(schema.last_seen),
        examined=schema.examined,
        properties=[SeenProperty(path, types) for path, types in sorted(schema.properties.items())],
        properties_complete=not schema.left_out,
    )
