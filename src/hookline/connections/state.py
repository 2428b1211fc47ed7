"""Keep the objects in force in memory, brought up to date from rows, and follow them from other roles: loaded once,
then only what changed.

Shared by the store, which writes, and the feed, which follows; it knows how rows decode and nothing about rules.

Reads the control database and never writes it. Start-up order does not matter: as long as it is missing, too old or of
a version whose tables are not known here, every question is answered by DatabaseUnreadable, for connections that cannot
be read are not "no connections".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from hookline.connections import history
from hookline.connections.definitions.model import Audience, ComputedTrait, with_any_named
from hookline.connections.history import KINDS, ROUTED_KINDS, Kind, Row, Version
from hookline.connections.model import Destination, LaneConfig, Offsets, Snapshot, Source
from hookline.connections.notifications import Notification
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ChangeFeed
from hookline.kinds.catalog import OWN
from hookline.kinds.model import KindSettings

Object = Source | Destination | Audience | ComputedTrait | Notification
ObjectT = TypeVar("ObjectT", Source, Destination, Audience, ComputedTrait, Notification)

TYPES: dict[Kind, type[Object]] = {
    "source": Source,
    "destination": Destination,
    "audience": Audience,
    "computedTrait": ComputedTrait,
    "notification": Notification,
}
_CHECKED = ("id", "sources", "destinations", "writeKeys")
"""The keys whose values are held to a pattern."""
_KIND_OF: dict[type, Kind] = {type: kind for kind, type in TYPES.items()}
_ANY_WEBHOOK = {"webhooks": [{"url": "https://webhook.invalid/"}]}
_decode_lane = msgspec.json.Decoder(LaneConfig).decode


def kind_of(object: Object) -> Kind:
    """Return the kind of an object."""
    return _KIND_OF[type(object)]


def decode_object(kind: Kind, document: str) -> Any:
    """Return the object that a row's document describes, of the type of its kind."""
    try:
        found = _decoder(kind).decode(document)
    except msgspec.ValidationError:
        found = _as_once_accepted(kind, document)
    if isinstance(found, Audience | ComputedTrait) and '":""' in document:
        return with_any_named(found)
    return found


def _as_once_accepted(kind: Kind, document: str) -> Any:
    """Return the object where ids or write keys end in a line end, which none may have any more, or where the kind of a
    destination takes webhooks since its package was exchanged.

    Ids stay as they are, for events and lanes go by them; ``hookline doctor`` names them. So do settings that are not
    the kind's any more: nothing is sent until somebody enters others (``unfit_settings``).
    """
    tree = msgspec.json.decode(document)
    settings = tree.get("settings")
    if kind == "destination" and tree.get("kind", OWN) != OWN and "webhooks" not in settings:
        return msgspec.structs.replace(
            msgspec.convert(tree | {"settings": _ANY_WEBHOOK}, Destination), settings=KindSettings(settings)
        )
    names = {field.encode_name: field.name for field in msgspec.structs.fields(TYPES[kind])}
    kept = {name: tree[name] for name in _CHECKED if name in tree}
    tree |= {name: _without_line_end(value) for name, value in kept.items()}
    object = msgspec.convert(tree, TYPES[kind])
    stored = {names[name]: tuple(value) if isinstance(value, list) else value for name, value in kept.items()}
    return msgspec.structs.replace(object, **stored)


def _without_line_end(value: Any) -> Any:
    return value.removesuffix("\n") if isinstance(value, str) else [_without_line_end(each) for each in value]


@cache
def _decoder(kind: Kind) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(TYPES[kind])


@dataclass(frozen=True, slots=True)
class Stored(Generic[ObjectT]):
    """An object with what the database adds: the version it is in force since, its owner (None: made through the
    API), and a destination's lane."""

    object: ObjectT
    since: int
    owner: str | None = None
    lane: LaneConfig | None = None


class State:
    """The objects by id, as in force at ``version``; only those of ``kinds``."""

    def __init__(self, kinds: Sequence[Kind] = KINDS) -> None:
        self.version = 0
        self.sources: dict[str, Stored[Source]] = {}
        self.destinations: dict[str, Stored[Destination]] = {}
        self.audiences: dict[str, Stored[Audience]] = {}
        self.computed_traits: dict[str, Stored[ComputedTrait]] = {}
        self.notifications: dict[str, Stored[Notification]] = {}
        self.at = history.Version()
        """The same, told from another one of its number."""
        self._kinds = tuple(kinds)
        self._by_kind: dict[Kind, dict[str, Any]] = {
            "source": self.sources,
            "destination": self.destinations,
            "audience": self.audiences,
            "computedTrait": self.computed_traits,
            "notification": self.notifications,
        }

    def of_kind(self, kind: Kind) -> dict[str, Any]:
        """Return the objects of a kind by id, as they are stored."""
        return self._by_kind[kind]

    def refresh(self, connection: Connection) -> bool:
        """Go on to the version now in force, reading only what changed since; False when nothing did."""
        newest = history.newest_version(connection)
        if newest == self.at:
            return False
        if history.has_version(connection, self.at):
            left, came = history.rows_between(connection, self.version, newest.number, self._kinds)
            for row in left:
                self._by_kind[row.kind].pop(row.id, None)
            self._put(came)
        else:  # at the beginning, and when the database went back behind what is known here
            for objects in self._by_kind.values():
                objects.clear()
            self.load(connection, newest.number)
        self.version, self.at = newest.number, newest
        return True

    def load(self, connection: Connection, version: int) -> None:
        """Read everything that was in force at ``version``, into a state that is empty yet."""
        self._put(history.rows_at(connection, version, self._kinds))
        self.version = version

    def snapshot(self) -> Snapshot:
        """Everything in force, each list in the order of ids."""
        destinations = [self.destinations[id] for id in sorted(self.destinations)]
        return Snapshot(
            version=self.version,
            sources=tuple(self.sources[id].object for id in sorted(self.sources)),
            destinations=tuple(stored.object for stored in destinations),
            audiences=tuple(self.audiences[id].object for id in sorted(self.audiences)),
            computed_traits=tuple(self.computed_traits[id].object for id in sorted(self.computed_traits)),
            notifications=tuple(self.notifications[id].object for id in sorted(self.notifications)),
            lanes={stored.object.id: stored.lane for stored in destinations if stored.lane is not None},
        )

    def _put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            lane = None if row.lane is None else _decode_lane(row.lane)
            stored = Stored(decode_object(row.kind, row.document), row.since, row.owner, lane)
            self._by_kind[row.kind][row.id] = stored


def next_lane(
    lane: LaneConfig | None, destination: Destination, ends: Offsets, new_number: Callable[[], int]
) -> LaneConfig | None:
    """Return the destination's lane after a change: ``lane`` is the one before it, ``ends`` the journal's ends within
    it.

    A disabled destination has none, unless it is still getting what was accepted before. An enabled one keeps the
    number and the begin of each source it already had; what it is connected to anew begins at ``ends``. A number is
    drawn only for a new lane.
    """
    if not destination.enabled:
        return lane if lane is not None and lane.until is not None else None
    number = new_number() if lane is None else lane.number
    before = {} if lane is None else lane.sources
    sources = {id: before[id] if id in before else dict(ends) for id in destination.sources}
    if lane is None:
        return LaneConfig(number=number, sources=sources, since=dict(ends))
    return replace(lane, sources=sources)


class Feed(ChangeFeed[Snapshot]):
    """A view of the configured objects; for one thread. ``kinds`` are those that the role has a use for.

    All methods raise DatabaseUnreadable, or DatabaseAway, when they cannot look.
    """

    def __init__(self, location: DatabaseLocation, kinds: Sequence[Kind] = ROUTED_KINDS) -> None:
        self._kinds = tuple(kinds)
        self._state = State(kinds)
        super().__init__(location, "control", self._refresh, lambda _: self._state.snapshot())
        self.forget(self._state.at)

    def load(self) -> Snapshot:
        """Return everything in force now, read anew."""
        self._state = State(self._kinds)
        self.forget(self._state.at)
        return self.poll() or self._state.snapshot()

    def at(self, version: int) -> Snapshot:
        """Everything as it was in force at ``version``; before the first, and without a database, nothing was."""
        state = State(self._kinds)
        if version:
            with self.reading() as connection:
                state.load(connection, version)
        return state.snapshot()

    def made(self) -> dict[tuple[Kind, str], int]:
        """Return the version in which each object was made, by kind and id; what was deleted may be among them."""
        with self.reading() as connection:
            return history.made_in(connection, self._kinds)

    def definitions_after(self, version: int) -> list[tuple[int, Audience | ComputedTrait]]:
        """Return the definitions as they were at ``version`` or later and are not any more, each with the version in
        which it ended."""
        with self.reading() as connection:
            rows = history.ended_after(connection, version, ("audience", "computedTrait"))
            return [(row.until or 0, decode_object(row.kind, row.document)) for row in rows]

    def lanes_after(self, version: int) -> dict[int, str]:
        """Return the destination of each lane, by number, that was there at ``version`` or later and has ended or
        changed since."""
        with self.reading() as connection:
            rows = history.ended_after(connection, version, ("destination",))
            return {_decode_lane(row.lane).number: row.id for row in rows if row.lane is not None}

    def ready(self, boot_id: str | None = None) -> bool:
        """Return whether control has finished start-up, the ``--connections`` file included.

        With ``boot_id``: in this boot; a marker that an earlier one left does not count.
        """
        with self.reading() as connection:
            row = connection.execute("SELECT boot_id FROM control_ready").fetchone()
            return row is not None and (boot_id is None or row[0] == boot_id)

    def _refresh(self, connection: Connection) -> Version:
        self._state.refresh(connection)
        return self._state.at
