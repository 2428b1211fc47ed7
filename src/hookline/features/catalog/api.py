"""``/api/v1/catalog`` and ``/api/v1/kinds``: what people and forms need to know of the kinds of destination there are,
and what is wrong with one that is being written."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, JSONBody

from hookline.api.calls import the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import Listing
from hookline.api.problem import FieldError, not_found
from hookline.connections.model import WEBHOOKS_MAX, WebhookSettings
from hookline.features.catalog.check import manifest_faults
from hookline.kinds.catalog import FILE_CHARACTERS_MAX, Kind, kinds, left_out
from hookline.kinds.model import Call, FieldGuide, Manifest, Request
from hookline.kinds.settings import schema_of

Form = Literal["webhook", "requests", "sink"]


class CatalogKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind: ``publishedName`` is what the ``integrations`` object of an event calls it. ``origin`` is
    the package that brought it.

    ``form`` says how events leave: as the webhook request, as ``requests`` that the kind or a destination's ``mapping``
    describes, or into a ``sink`` (files, a database). ``settingsSchema`` is the JSON Schema of its settings; a string
    with ``secret: true`` is masked once it is saved. ``requests`` are those that events become where a destination has
    no mapping.
    """

    kind: str
    name: str
    published_name: str
    description: str
    category: str
    form: Form
    mode: str
    component: str
    source_types: Sequence[str]
    calls: Sequence[Call]
    fields: Sequence[FieldGuide]
    url_prefixes: Sequence[str]
    headers: dict[str, str]
    webhooks_max: int
    settings_schema: dict[str, Any]
    requests: Sequence[Request]
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


class InstalledKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind as it is installed: ``destinations`` counts those of it. ``problem`` says why a kind of a package cannot
    be used, null for one that can; ``name``, ``category`` and ``form`` are null then."""

    kind: str
    origin: str
    destinations: int
    name: str | None = None
    category: str | None = None
    form: Form | None = None
    problem: str | None = None


class KindToCheck(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind that is being written: the text of its ``kind.yaml``."""

    manifest: Annotated[str, msgspec.Meta(min_length=1, max_length=2 * FILE_CHARACTERS_MAX)]


class KindCheck(msgspec.Struct, frozen=True, rename="camel"):
    """The problems of a kind, each with its JSON pointer, and its name and form where it can be read."""

    problems: Sequence[FieldError]
    name: str | None
    form: Form | None


class Kinds(Controller):
    """The kinds as they are installed; ``/catalog`` has what people read of them."""

    path = "/kinds"

    @get(needs="viewer")
    async def list_kinds(self, services: FromServices) -> Listing[InstalledKind]:
        """List the kinds that are installed, and those of packages that cannot be used, with the reason."""
        used = Counter(stored.object.kind for stored in services.store.destinations())
        listed = [_installed(kind, used[kind.id]) for kind in kinds().values()]
        listed += [
            InstalledKind(kind=each.id, origin=each.origin, destinations=0, problem=each.reason) for each in left_out()
        ]
        return Listing(listed)

    @post("/check", status_code=200, needs="editor")
    async def check_kind(self, data: JSONBody[KindToCheck]) -> KindCheck:
        """Check the text of a `kind.yaml`: everything wrong with it, each with its place. Nothing is installed."""
        the_call().only_looked = True
        manifest, faults = await asyncio.to_thread(manifest_faults, data.manifest)
        problems = [FieldError(fault.pointer, fault.detail) for fault in faults]
        return KindCheck(problems, manifest.name if manifest else None, manifest.form if manifest else None)


def _installed(kind: Kind, destinations: int) -> InstalledKind:
    manifest = kind.manifest
    return InstalledKind(
        kind=kind.id,
        origin=kind.origin,
        destinations=destinations,
        name=manifest.name,
        category=manifest.category,
        form=manifest.form,
    )


def _facts(kind: Kind) -> dict[str, Any]:
    manifest = kind.manifest
    return {
        "kind": kind.id,
        "name": manifest.name,
        "published_name": manifest.published_name,
        "description": manifest.description,
        "category": manifest.category,
        "form": manifest.form,
        "mode": manifest.mode,
        "component": manifest.component,
        "source_types": manifest.source_types,
        "calls": manifest.calls,
        "fields": manifest.fields,
        "url_prefixes": manifest.url_prefixes,
        "headers": manifest.headers,
        "webhooks_max": WEBHOOKS_MAX if manifest.form == "webhook" else 0,
        "settings_schema": _schema(kind.id, manifest),
        "requests": manifest.requests or (),
        "has_icon": bool(kind.icon),
        "origin": kind.origin,
    }


def _schema(id: str, manifest: Manifest) -> dict[str, Any]:
    return msgspec.json.schema(WebhookSettings) if manifest.form == "webhook" else dict(schema_of(id))
