"""The kinds there are: those of Hookline's own folders, and those of packages that are installed beside it.

Another package brings a kind by an entry point of the group ``hookline.destinations``: its name is the kind's, its
value a package that holds ``manifest.yaml`` and, if it likes, ``guide.md`` and ``icon.svg``. One that cannot be used is
left out and told in the log; it never keeps a role from starting. Kinds are read once per process, when asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from typing import Annotated, Literal, NamedTuple

import msgspec

from hookline.connections.model import Destination, check_static_headers
from hookline.telemetry.log import logger

GROUP = "hookline.destinations"
OWN = "webhook"
OWN_PUBLISHED_NAME = "Webhooks"
KINDS_MAX = 200
FILE_CHARACTERS_MAX = 64 * 1024

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Kind(NamedTuple):
    """One kind: ``origin`` is the package that brought it, and its version."""

    id: str
    manifest: Manifest
    guide: str
    icon: str
    origin: str


@cache
def kinds() -> dict[str, Kind]:
    """Return every kind by its id, Hookline's own first."""
    found = {OWN: _read(OWN, resources.files(__package__).joinpath(OWN), "hookline")}
    published = {OWN_PUBLISHED_NAME}
    for kind in _installed():
        if kind.id in found or kind.manifest.published_name in published:
            logger().warning("destination_kind_left_out", kind=kind.id, package=kind.origin, reason="the name is taken")
        elif len(found) < KINDS_MAX:
            found[kind.id] = kind
            published.add(kind.manifest.published_name)
    return found


def published_name(kind: str) -> str:
    """Return what ``integrations`` calls a kind; of one that is no longer installed, its id."""
    if kind == OWN:  # nearly always: no role needs to read manifests for it
        return OWN_PUBLISHED_NAME
    found = kinds().get(kind)
    return kind if found is None else found.manifest.published_name


def request_headers(kind: str) -> dict[str, str]:
    """Return what is sent with each request of a kind."""
    found = None if kind == OWN else kinds().get(kind)
    return {} if found is None else found.manifest.headers


def _installed() -> Iterator[Kind]:
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda each: each.name):
        distribution = point.dist
        origin = f"{distribution.name} {distribution.version}" if distribution is not None else point.value
        try:
            if not _NAME.fullmatch(point.name):
                raise ValueError("a kind's name has small letters, digits, - and _")
            yield _read(point.name, resources.files(point.value), origin)
        except Exception as error:  # noqa: BLE001 - the border to code that is not ours
            logger().warning("destination_kind_left_out", kind=point.name, package=origin, reason=str(error))


def _read(id: str, folder: Traversable, origin: str) -> Kind:
    manifest = msgspec.yaml.decode(_text(folder, "manifest.yaml"), type=Manifest)
    check_static_headers(manifest.headers)
    return Kind(id, manifest, _text(folder, "guide.md", needed=False), _text(folder, "icon.svg", needed=False), origin)


def _text(folder: Traversable, name: str, needed: bool = True) -> str:
    file = folder.joinpath(name)
    if not needed and not file.is_file():
        return ""
    text = file.read_text(encoding="utf-8")
    if len(text) > FILE_CHARACTERS_MAX:
        raise ValueError(f"{name} is longer than {FILE_CHARACTERS_MAX} characters")
    return text


Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sentence = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Call = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]


class FieldGuide(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One setting as a person is told of it; ``path`` is where it stands in a destination."""

    path: Line
    label: Line
    help: Sentence
    required: bool = False
    secret: bool = False
    example: Annotated[str, msgspec.Meta(max_length=200)] = ""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Every kind is a variant of the webhook request and has its settings.

    ``publishedName`` is what the ``integrations`` object of an event calls it. ``calls`` are the types that
    are of use to it; all are sent, filters keep others away. ``urlPrefixes`` are what its URLs begin with (none: any),
    ``headers`` are sent with each of its requests.
    """

    name: Line
    published_name: Line
    description: Sentence
    mode: Literal["cloud"] = "cloud"
    component: Literal["server"] = "server"
    source_types: tuple[Literal["web", "mobile", "server"], ...] = ("web", "mobile", "server")
    calls: tuple[Call, ...]
    fields: Annotated[tuple[FieldGuide, ...], msgspec.Meta(max_length=50)] = ()
    url_prefixes: Annotated[tuple[Line, ...], msgspec.Meta(max_length=20)] = ()
    headers: Annotated[dict[str, str], msgspec.Meta(max_length=20)] = {}


def kind_problems(
    destination: Destination,
) -> Iterator[tuple[Literal["unknown_kind", "invalid_url", "invalid_headers"], str, str]]:
    """Code, path and sentence of everything that does not fit."""
    if destination.kind == OWN:
        return
    kind = kinds().get(destination.kind)
    if kind is None:
        yield "unknown_kind", "kind", f"there is no kind {destination.kind!r}; installed are {', '.join(kinds())}"
        return
    prefixes, headers = kind.manifest.url_prefixes, {name.lower() for name in kind.manifest.headers}
    for index, webhook in enumerate(destination.settings.webhooks):
        place = f"settings.webhooks[{index}]"
        if prefixes and not webhook.url.startswith(prefixes):
            yield "invalid_url", f"{place}.url", f"a URL of {kind.manifest.name} begins with {' or '.join(prefixes)}"
        for name in webhook.headers:
            if name.lower() in headers:
                yield (
                    "invalid_headers",
                    f"{place}.headers",
                    f"header {name!r} is set by {kind.manifest.name}: leave it out",
                )
