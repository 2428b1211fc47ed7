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
from typing import NamedTuple

import msgspec

from hookline.connections.catalog.manifest import Manifest
from hookline.connections.headers import check_static_headers
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
