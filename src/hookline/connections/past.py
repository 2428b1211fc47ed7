"""Show the connections version by version: who changed what, field by field with secrets masked, and what would lead
back to an earlier one."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum, auto
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from hookline.connections.edits import Delete, Edit, Put
from hookline.connections.history import KINDS, Kind, Row
from hookline.connections.model import Destination, LaneConfig
from hookline.connections.notification_secrets import hidden, restored
from hookline.connections.notifications import Notification
from hookline.connections.rotation import carry_rotations, with_rotated
from hookline.connections.secrets import NothingToKeep, redact, restore
from hookline.connections.state import Object, decode_object, kind_of
from hookline.connections.store import Store
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso

Action = Literal["create", "change", "delete", "keep"]


class FieldChange(msgspec.Struct, frozen=True):
    """One field before and after; null if it has no value."""

    path: str
    before: Any
    after: Any


class Change(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One change of an object. ``note`` says why, if that is not obvious. ``staleSecret`` means that the file contains
    a secret that was rotated out; it was ignored.
    """

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
    if isinstance(object, Notification) and hide:
        object = hidden(object)
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


LISTED_CHANGES_MAX = 10
"""Changes of one version that a list shows; the version by itself shows them all."""

ALL = 1 << 62
"""More changes than there are."""

_TOUCHED = "SELECT kind, id FROM objects WHERE since = ?1 UNION SELECT kind, id FROM objects WHERE until = ?1"
_ROWS = (
    "SELECT kind, id, since, until, document, owner, lane FROM objects"
    " WHERE kind = ?2 AND id = ?3 AND (since = ?1 OR until = ?1)"
)


class FieldsOf(Enum):
    """Of which objects the fields are told: of none, of those that are there after the change, or of all."""

    NONE = auto()
    THERE = auto()
    ALL = auto()


class Version(msgspec.Struct, frozen=True, rename="camel"):
    """One change of the connections: when, by whom, how many objects, and what changed."""

    version: int
    at: str
    author: str
    objects: int
    changes: tuple[Change, ...]


class Past:
    """Reads the versions in the control database at ``place``; not thread-safe."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)

    def newest(self, limit: int, below: int | None = None) -> list[Version]:
        """So many versions, newest first, below one of them; changes without their fields."""
        connection = self._database.open()
        if connection is None:
            return []
        rows = connection.execute(
            "SELECT version, at, author FROM versions WHERE version < ?1 OR ?1 IS NULL ORDER BY version DESC LIMIT ?2",
            (below, limit),
        ).fetchall()
        return [self._read(connection, row, LISTED_CHANGES_MAX, with_fields=False) for row in rows]

    def version(self, number: int, limit: int = ALL) -> Version | None:
        """Return one version with what it changed, field by field, of so many objects; None when there is none."""
        connection = self._database.open()
        if connection is None or not 0 < number < 1 << 63:  # as many as SQLite has
            return None
        found = connection.execute("SELECT version, at, author FROM versions WHERE version = ?", (number,)).fetchone()
        return None if found is None else self._read(connection, found, limit, with_fields=True)

    def changes(self, number: int, limit: int) -> list[Change]:
        """Return what became of the first so many objects of a version, field by field, those included that it
        deleted."""
        connection = self._database.open()
        if connection is None:
            return []
        touched = connection.execute(f"{_TOUCHED} ORDER BY kind DESC, id LIMIT ?", (number, limit)).fetchall()
        return [self._change(connection, number, kind, id, FieldsOf.ALL) for kind, id in touched]

    def had(self, kind: Kind, id: str) -> bool:
        """Return whether there is or ever was an object of this id."""
        connection = self._database.open()
        query = "SELECT 1 FROM objects WHERE kind = ? AND id = ? LIMIT 1"
        return connection is not None and connection.execute(query, (kind, id)).fetchone() is not None

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._database.close()

    def _read(self, connection: Connection, found: tuple[int, int, str], limit: int, *, with_fields: bool) -> Version:
        number, at_ms, author = found
        ((count,),) = connection.execute(f"SELECT count(*) FROM ({_TOUCHED}) AS touched", (number,)).fetchall()
        touched = connection.execute(f"{_TOUCHED} ORDER BY kind DESC, id LIMIT ?", (number, limit)).fetchall()
        fields_of = FieldsOf.THERE if with_fields else FieldsOf.NONE
        changes = (self._change(connection, number, kind, id, fields_of) for kind, id in touched)
        return Version(number, iso(at_ms), author, count, tuple(changes))

    def _change(self, connection: Connection, number: int, kind: Kind, id: str, fields_of: FieldsOf) -> Change:
        left = came = None
        for row in map(Row._make, connection.execute(_ROWS, (number, kind, id))):
            left, came = (row, came) if row.until == number else (left, row)
        action: Action = "create" if left is None else "delete" if came is None else "change"
        wanted = fields_of is FieldsOf.ALL or (fields_of is FieldsOf.THERE and action != "delete")
        fields = compare(_object(left), _object(came)) if wanted else ()
        return Change(action, kind, id, fields, _note(left, came))


def way_back(store: Store, version: int) -> tuple[list[Change], list[Edit]]:
    """Return what makes the objects be as they were at a version, which must exist.

    Secrets that were rotated out since stay out, and those that the history no longer holds are the ones of now. How
    far each destination has come is left alone: a destination made anew gets events from now on.
    """
    then = store.snapshot(version)
    changes: list[Change] = []
    edits: list[Edit] = []
    objects: list[Object] = [*then.sources, *then.destinations, *then.audiences, *then.computed_traits]
    objects += then.notifications
    for object in objects:
        stored = store.stored(kind_of(object), object.id)
        now = None if stored is None else stored.object
        wanted = _with_secrets_of_now(object, now)
        if wanted == now:
            continue
        put = Put(wanted)
        edits.append(put)
        changes.append(Change("create" if now is None else "change", put.kind, put.id, compare(now, wanted)))
    kept = {(kind_of(object), object.id) for object in objects}
    deletes = [each for kind in reversed(KINDS) for each in _all(store, kind) if (each.kind, each.id) not in kept]
    return changes + [Change("delete", each.kind, each.id) for each in deletes], [*edits, *deletes]


def _all(store: Store, kind: Kind) -> list[Delete]:
    return [Delete(kind, stored.object.id) for stored in store.in_force(kind)]


def _with_secrets_of_now(object: Object, now: Object | None) -> Object:
    if isinstance(object, Notification):
        with suppress(NothingToKeep):
            return restored(object, now if isinstance(now, Notification) else None)
    if not isinstance(object, Destination):
        return object
    stored = now if isinstance(now, Destination) else None
    with suppress(NothingToKeep):  # the store's own check says where
        object = restore(object, stored)
    object, _ = with_rotated(object, stored)
    return carry_rotations(object, stored)


def _object(row: Row | None) -> Object | None:
    if row is None:
        return None
    decoded: Object = decode_object(row.kind, row.document)
    return decoded


def _note(left: Row | None, came: Row | None) -> str | None:
    """Return what changed beside the object's own fields."""
    if left is None or came is None:
        return None
    before, after = _lane(left), _lane(came)
    if left.owner != came.owner:
        return "belongs to the file from then on" if came.owner else "belongs to no file from then on"
    if before is None or after is None or before == after:
        return None
    if (before.paused is None) != (after.paused is None):
        return "resumed" if after.paused is None else f"paused: {after.paused.reason}"
    return "disabled, still sends what was accepted before" if before.until != after.until else None


def _lane(row: Row) -> LaneConfig | None:
    return None if row.lane is None else msgspec.json.decode(row.lane, type=LaneConfig)
