"""The objects in force, in memory: brought up to date from rows, and what a snapshot is made of.

Shared by the store, which writes, and the feed, which follows; it knows how rows decode and nothing about rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from hookline.connections import history
from hookline.connections.history import KINDS, Kind, Row
from hookline.connections.model import Destination, Lane, Snapshot, Source
from hookline.database.sqlite import Connection

Object = Source | Destination
ObjectT = TypeVar("ObjectT", Source, Destination)

_decode_source = msgspec.json.Decoder(Source).decode
_decode_destination = msgspec.json.Decoder(Destination).decode
_decode_lane = msgspec.json.Decoder(Lane).decode


@dataclass(frozen=True, slots=True)
class Stored(Generic[ObjectT]):
    """An object with what the database adds: the version it is in force since, its owner (None: made through the
    API), and a destination's lane."""

    object: ObjectT
    since: int
    owner: str | None = None
    lane: Lane | None = None


class State:
    """Sources and destinations by id, as in force at ``version``; only those of ``kinds``."""

    def __init__(self, kinds: Sequence[Kind] = KINDS) -> None:
        self.version = 0
        self.sources: dict[str, Stored[Source]] = {}
        self.destinations: dict[str, Stored[Destination]] = {}
        self._kinds = tuple(kinds)

    def refresh(self, connection: Connection) -> bool:
        """Go on to the version now in force, reading only what changed since; False when nothing did."""
        version = history.newest_version(connection)
        if version == self.version:
            return False
        if self.version == 0:
            self.load(connection, version)
        else:
            left, came = history.rows_between(connection, self.version, version, self._kinds)
            for row in left:
                (self.sources if row.kind == "source" else self.destinations).pop(row.id, None)
            self._put(came)
        self.version = version
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
            lanes={stored.object.id: stored.lane for stored in destinations if stored.lane is not None},
        )

    def _put(self, rows: Iterable[Row]) -> None:
        for row in rows:
            if row.kind == "source":
                self.sources[row.id] = Stored(_decode_source(row.document), row.since, row.owner)
            else:
                lane = None if row.lane is None else _decode_lane(row.lane)
                self.destinations[row.id] = Stored(_decode_destination(row.document), row.since, row.owner, lane)
