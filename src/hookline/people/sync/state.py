"""How far a definition's syncs are, and what they left: for those who show it.

Reads with a connection of the caller's, in short steps; the profiles role goes on writing meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hookline.connections.definitions.model import Audience, Definition
from hookline.database.connection import Connection
from hookline.people.definitions.aggregates import EMPTY
from hookline.people.definitions.definition import Key, as_json
from hookline.people.definitions.feature import Feature, Purpose

ROWS_PER_COUNT = 20_000
"""Looked at in one step of counting: a few milliseconds."""


class SyncState(NamedTuple):
    """The last sync's number (0 before the first), when the next one is due, and whether one is being told;
    ``is_anew`` while everybody is still to be looked at."""

    number: int
    next_ms: int
    is_telling: bool
    is_anew: bool


class Held(NamedTuple):
    """A person for whom a definition has a value: the value as JSON, since which sync, until when if nothing new
    happens, and whether that was told."""

    person: int
    user_id: str | None
    value: str
    since_ms: int
    until_ms: int | None
    told: bool


class Counted(NamedTuple):
    """One step of counting: how many there are, and the last person that was looked at, None at the end."""

    people: int
    last: int | None


class SyncStates:
    """The definitions by kind and id; ``empty`` is a value as JSON that stands for none."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, key: Key) -> SyncState | None:
        """Return where a definition's syncs are; None before the profiles role knows it."""
        query = (
            "SELECT number, next_at, sending_at IS NOT NULL, coalesce(evaluated, sending_batch) IS NULL"
            " FROM definitions WHERE kind = ? AND name = ?"
        )
        row = self._connection.execute(query, key).fetchone()
        return None if row is None else SyncState(row[0], row[1], bool(row[2]), bool(row[3]))

    def unread(self, features: Iterable[Feature]) -> int:
        """Return how many stored events are still to be read for the history that these features ask for."""
        query = (
            "SELECT coalesce(sum(b.end_offset - b.next_offset), 0) FROM features f JOIN backfills b ON b.feature = f.id"
            f" WHERE (f.type, f.name, f.condition, f.value) = (?, ?, ?, ?) AND f.purpose = {Purpose.DEFINITIONS:d}"
        )
        # One pass over the journal serves all features that begin together.
        return max((int(self._connection.execute(query, each).fetchone()[0]) for each in features), default=0)

    def held(self, key: Key, empty: str, limit: int, after: int = 0) -> list[Held]:
        """Those with a value, by the person's number, above ``after``."""
        query = (
            "SELECT m.person, p.user_id, m.value, m.since, m.until, m.sent IS NOT DISTINCT FROM m.value FROM members m"
            " JOIN persons p ON p.id = m.person"
            " WHERE m.definition = (SELECT id FROM definitions WHERE kind = ? AND name = ?) AND m.person > ?"
            " AND m.value <> ? AND NOT EXISTS (SELECT 1 FROM merged g WHERE g.person = m.person)"
            " ORDER BY m.person LIMIT ?"
        )
        rows = self._connection.execute(query, (*key, after, empty, limit))
        return [
            Held(person, user_id, value, since, until, bool(told))
            for person, user_id, value, since, until, told in rows
        ]

    def count(self, key: Key, empty: str, after: int = 0, rows: int = ROWS_PER_COUNT) -> Counted:
        """Count those with a value among the next rows above the person ``after``."""
        query = (
            "SELECT count(*) FILTER (WHERE value <> ? AND NOT EXISTS"
            " (SELECT 1 FROM merged g WHERE g.person = m.person)),"
            " max(person), count(*) FROM (SELECT person, value FROM members WHERE definition ="
            " (SELECT id FROM definitions WHERE kind = ? AND name = ?) AND person > ? ORDER BY person LIMIT ?) AS m"
        )
        people, last, looked = self._connection.execute(query, (empty, *key, after, rows)).fetchone()
        return Counted(people, last if looked == rows else None)


def empty_value(definition: Definition) -> str:
    """Return the value, as JSON, of somebody of whom nothing is known."""
    return "false" if isinstance(definition, Audience) else as_json(EMPTY.get(definition.aggregate))
