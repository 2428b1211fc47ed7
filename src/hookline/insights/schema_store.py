"""The schemas of sources in ``insights.db``, with the places in the journal up to which they tell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import open_insights
from hookline.database.upsert import replacing
from hookline.insights.distinct import Distinct
from hookline.insights.schema import NameSchema, Properties

_COUNTED = ("count", "first_seen", "last_seen", "examined", "properties")
_COLUMNS = f"type, name, {', '.join(_COUNTED)}"


class Name(NamedTuple):
    """What schemas are kept by; both empty for what came after a source had as many names as are kept."""

    type: str
    name: str


OTHERS = Name("", "")


class SchemaPlace(NamedTuple):
    """The next offset of a partition to read, and how many events had gone before they were read."""

    next_offset: int
    missed: int = 0


class _StoredSchema(msgspec.Struct):
    properties: Properties = {}
    left_out: bool = False


_kept = msgspec.json.Decoder(_StoredSchema).decode


class SchemaStore:
    """The one writer of the schemas; used from one thread at a time."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = open_insights(location)

    def places(self) -> dict[int, SchemaPlace]:
        """Return the saved places."""
        rows = self._connection.execute("SELECT partition, next_offset, missed FROM schema_places")
        return {partition: SchemaPlace(next_offset, missed) for partition, next_offset, missed in rows}

    def names(self, source: str) -> dict[Name, NameSchema]:
        """Everything known of a source."""
        return read_names(self._connection, source)

    def users(self, month: str, source: str) -> Distinct:
        """Return the users of a source in a month."""
        query = "SELECT registers FROM tracked_users WHERE month = ? AND source = ?"
        row = self._connection.execute(query, (month, source)).fetchone()
        return Distinct(row[0] if row else b"")

    def save(
        self,
        names: Iterable[tuple[str, Name, NameSchema]],
        users: Mapping[tuple[str, str], Distinct],
        places: Mapping[int, SchemaPlace],
    ) -> None:
        """Replace what has changed, in one transaction with the places."""
        rows = [
            (source, *name, s.count, s.first_seen, s.last_seen, s.examined, _json(s.properties, s.left_out))
            for source, name, s in names
        ]
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(replacing("schema_names", ("source", "type", "name"), _COUNTED), rows)
            self._connection.executemany(
                replacing("tracked_users", ("month", "source"), ("registers",)),
                [(*key, bytes(each.registers)) for key, each in users.items()],
            )
            self._connection.executemany(
                replacing("schema_places", ("partition",), ("next_offset", "missed")),
                [(partition, *place) for partition, place in places.items()],
            )
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()


def read_names(connection: Connection, source: str) -> dict[Name, NameSchema]:
    """Everything known of a source, by type and name."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM schema_names WHERE source = ? ORDER BY type, name", (source,))
    found: dict[Name, NameSchema] = {}
    for type, name, count, first_seen, last_seen, examined, text in rows:
        kept = _kept(text)
        found[Name(type, name)] = NameSchema(count, first_seen, last_seen, examined, kept.properties, kept.left_out)
    return found


def _json(properties: Properties, left_out: bool) -> str:
    return msgspec.json.encode(_StoredSchema(properties, left_out)).decode()
