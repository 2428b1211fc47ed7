"""``/api/v1/catalog``: the kinds of destination there are, how each is set up, and the settings it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromPath

from hookline.api.listing import Listing
from hookline.api.problem import not_found
from hookline.connections.catalog.kinds import Kind, kinds
from hookline.connections.catalog.manifest import Call, FieldGuide
from hookline.connections.model import WEBHOOKS_MAX, WebhookSettings


class CatalogKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind: ``publishedName`` is what the ``integrations`` object of an event calls it. ``origin`` is
    the package that brought it."""

    kind: str
    name: str
    published_name: str
    description: str
    mode: str
    component: str
    source_types: Sequence[str]
    calls: Sequence[Call]
    fields: Sequence[FieldGuide]
    url_prefixes: Sequence[str]
    headers: dict[str, str]
    webhooks_max: int
    settings_schema: dict[str, Any]
    has_icon: bool
    origin: str


class CatalogEntry(CatalogKind, frozen=True, kw_only=True, rename="camel"):
    """One kind with its set-up guide, in Markdown."""

    guide: str


def catalog_kinds() -> list[CatalogKind]:
    """Return the kinds of destination there are."""
    return [CatalogKind(**_facts(kind)) for kind in kinds().values()]


def catalog_entry(id: str) -> CatalogEntry | None:
    """Return one kind; None when there is none of this id."""
    kind = kinds().get(id)
    return None if kind is None else CatalogEntry(guide=kind.guide, **_facts(kind))


@get("/catalog", needs="viewer")
async def list_catalog() -> Listing[CatalogKind]:
    """List the kinds of destination."""
    return Listing(catalog_kinds())


@get("/catalog/{kind:str}", needs="viewer")
async def get_kind(kind: FromPath[str]) -> CatalogEntry:
    """Return one kind of destination with its set-up guide."""
    entry = catalog_entry(kind)
    if entry is None:
        raise not_found("kind of destination", kind)
    return entry


@get("/catalog/{kind:str}/icon.svg", needs="viewer", media_type="image/svg+xml")
async def get_icon(kind: FromPath[str]) -> Response[str]:
    """Return the icon of a kind of destination."""
    found = kinds().get(kind)
    if found is None or not found.icon:
        raise not_found("icon of a kind", kind)
    return Response(found.icon, media_type="image/svg+xml")


def _facts(kind: Kind) -> dict[str, Any]:
    manifest = kind.manifest
    return {
        "kind": kind.id,
        "name": manifest.name,
        "published_name": manifest.published_name,
        "description": manifest.description,
        "mode": manifest.mode,
        "component": manifest.component,
        "source_types": manifest.source_types,
        "calls": manifest.calls,
        "fields": manifest.fields,
        "url_prefixes": manifest.url_prefixes,
        "headers": manifest.headers,
        "webhooks_max": WEBHOOKS_MAX,
        "settings_schema": msgspec.json.schema(WebhookSettings),
        "has_icon": bool(kind.icon),
        "origin": kind.origin,
    }
