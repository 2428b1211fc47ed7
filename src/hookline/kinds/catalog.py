"""The kinds there are: Hookline's own folders, and those of packages that are installed beside it.

A folder holds ``kind.yaml`` and, if it likes, ``guide.md`` and ``icon.svg``. Another package brings a kind by an entry
point of the group ``hookline.destinations``: its name is the kind's, its value a package that is such a folder. One
that cannot be used is left out and told in the log; it never keeps a role from starting. A kind is read when it is
first asked for, all of them only for who lists them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from typing import NamedTuple

import msgspec

from hookline.extras import install_extra
from hookline.kinds.headers import check_static_headers
from hookline.kinds.model import Manifest
from hookline.telemetry.log import logger

GROUP = "hookline.destinations"
OWN = "webhook"
OWN_PUBLISHED_NAME = "Webhooks"
KINDS_MAX = 200
FILE_CHARACTERS_MAX = 64 * 1024
MANIFEST = "kind.yaml"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class Kind(NamedTuple):
    """One kind: ``origin`` is the package that brought it, and its version."""

    id: str
    manifest: Manifest
    guide: str
    icon: str
    origin: str


class LeftOut(NamedTuple):
    """A kind of a package that cannot be used, and why."""

    id: str
    origin: str
    reason: str


@cache
def kinds() -> dict[str, Kind]:
    """Return every kind by its id: the webhook first, then Hookline's others by name, then those of packages."""
    found = {id: own for id in own_ids() if (own := _own(id)) is not None}
    published = {kind.manifest.published_name for kind in found.values()}
    _left_out.clear()
    for kind in _installed():
        if kind.id in found or kind.manifest.published_name in published:
            _leave_out(kind.id, kind.origin, "the name is taken")
        elif len(found) < KINDS_MAX:
            found[kind.id] = kind
            published.add(kind.manifest.published_name)
    return found


def left_out() -> tuple[LeftOut, ...]:
    """Return the kinds of packages that cannot be used."""
    kinds()
    return tuple(_left_out)


_left_out: list[LeftOut] = []


def _leave_out(id: str, origin: str, reason: str) -> None:
    if len(_left_out) < KINDS_MAX:
        _left_out.append(LeftOut(id, origin, reason))
    logger().warning("destination_kind_left_out", kind=id, package=origin, reason=reason)


def kind_of(id: str) -> Kind | None:
    """Return one kind, None where there is no such kind."""
    return _own(id) or kinds().get(id)


def published_name(kind: str) -> str:
    """Return what ``integrations`` calls a kind; of one that is no longer installed, its id."""
    if kind == OWN:  # nearly always: no role needs to read manifests for it
        return OWN_PUBLISHED_NAME
    found = kind_of(kind)
    return kind if found is None else found.manifest.published_name


def missing_extra(kind: str) -> str | None:
    """Return what to install before a kind can be used here, as a sentence; None where it can be used."""
    found = kind_of(kind)
    needs = None if found is None else found.manifest.needs
    if needs is None or all(find_spec(module) is not None for module in needs.modules):
        return None
    return f"the kind {kind} needs the extra named {needs.extra}: {install_extra(needs.extra)}"


def request_headers(kind: str) -> dict[str, str]:
    """Return what is sent with each request of a kind."""
    found = None if kind == OWN else kind_of(kind)
    return {} if found is None else found.manifest.headers


@cache
def own_ids() -> tuple[str, ...]:
    """Return the ids of Hookline's own kinds, the webhook first."""
    folders = [each for each in resources.files(__package__).iterdir() if each.joinpath(MANIFEST).is_file()]
    return OWN, *sorted(each.name for each in folders if each.name != OWN)


@cache
def _own(id: str) -> Kind | None:
    if id not in own_ids():
        return None
    return read_kind(id, resources.files(__package__).joinpath(id), "hookline")


def _installed() -> Iterator[Kind]:
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda each: each.name):
        distribution = point.dist
        origin = f"{distribution.name} {distribution.version}" if distribution is not None else point.value
        try:
            if not _NAME.fullmatch(point.name):
                raise ValueError("a kind's name has small letters, digits, - and _")
            yield read_kind(point.name, resources.files(point.value), origin)
        except Exception as error:  # noqa: BLE001 - the border to code that is not ours
            _leave_out(point.name, origin, str(error))


def read_kind(id: str, folder: Traversable, origin: str) -> Kind:
    """Read a kind's folder; raise ValueError or OSError saying what is wrong with it."""
    manifest = msgspec.yaml.decode(_text(folder, MANIFEST), type=Manifest)
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
