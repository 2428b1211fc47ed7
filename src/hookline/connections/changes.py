"""What a change does to an object, field by field, as people are shown it: secrets masked."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from hookline.connections.history import Kind
from hookline.connections.model import Destination
from hookline.connections.secrets import redact
from hookline.connections.state import Object

Action = Literal["create", "change", "delete", "keep"]


class FieldChange(msgspec.Struct, frozen=True):
    """One field's value before and after; None where there was or will be none."""

    path: str
    before: Any
    after: Any


class Change(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What happens to one object, and ``note`` why where that is not plain. ``stale_secret`` says that the file has a
    secret that was rotated out, which was left aside."""

    action: Action
    kind: Kind
    id: str
    fields: tuple[FieldChange, ...] = ()
    note: str | None = None
    stale_secret: bool = False


def compare(before: Object | None, after: Object | None) -> tuple[FieldChange, ...]:
    """Return the fields that differ between two states of one object."""
    old, new = _flat(before, hide=False), _flat(after, hide=False)
    shown_old, shown_new = _flat(before, hide=True), _flat(after, hide=True)
    return tuple(
        FieldChange(path, shown_old.get(path), shown_new.get(path))
        for path in dict.fromkeys([*old, *new])
        if old.get(path) != new.get(path)
    )


def _flat(object: Object | None, hide: bool) -> dict[str, Any]:
    if object is None:
        return {}
    if isinstance(object, Destination):
        # A secret that signs no more is nothing to show, and no difference.
        running = (replace(each, digest="") for each in object.rotations if each.previous is not None)
        object = redact(object) if hide else replace(object, rotations=tuple(running))
    leaves: dict[str, Any] = {}
    _collect(msgspec.to_builtins(object), "", leaves)
    return leaves


def _collect(value: Any, path: str, leaves: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _collect(inner, f"{path}.{name}" if path else name, leaves)
    elif isinstance(value, list | tuple) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            _collect(item, f"{path}[{index}]", leaves)
    elif value is not None:
        leaves[path] = value
