"""Reading what syncs came to: who is a member of an audience, what was told, and the syncs there were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hookline.database.connection import Connection
from hookline.people.definitions.definition import Key
from hookline.people.definitions.feature import Feature, Purpose
from hookline.people.store.people import Person, PersonFacts

TRUE = "true"


class Member(NamedTuple):
    """A person in an audience: since which sync, until when if nothing new happens, and whether that was told."""

    person: int
    user_id: str | None
    since_ms: int
    until_ms: int | None
    told: bool


class EndedSync(NamedTuple):
    """A sync all of which was told: when it looked, when it ended, and for how many the value came, or went."""

    number: int
    at_ms: int
    finished_ms: int
    came: int
    went: int


class SyncResult(NamedTuple):
    """What the syncs of a definition left of a person: value as JSON, since when, until when, and what was told."""

    kind: str
    name: str
    value: str
    since_ms: int
    until_ms: int | None
    sent: str | None


class SyncResults:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def members(self, audience: str, limit: int, after: int = 0) -> list[Member]:
        """Return the members by the person's number, above ``after``."""
        return self._members("m.person > ? ORDER BY m.person LIMIT ?", audience, after, limit)

    def member(self, audience: str, person: Person) -> Member | None:
        """Return the person as a member, None for somebody who is not."""
        found = self._members("m.person = ?", audience, person.number)
        return found[0] if found else None

    def syncs(self, key: Key, limit: int, before: int | None = None) -> list[EndedSync]:
        """Return the syncs of a definition, newest first, below the number ``before``."""
        query = (
            "SELECT number, at, finished_at, came, went FROM syncs"
            " WHERE definition = (SELECT id FROM definitions WHERE kind = ? AND name = ?)"
            " AND number < coalesce(?, number + 1) ORDER BY number DESC LIMIT ?"
        )
        return [EndedSync(*row) for row in self._connection.execute(query, (*key, before, limit))]

    def of_person(self, person: Person) -> list[SyncResult]:
        """Return what the last syncs left of a person, of each definition that has looked at them."""
        query = (
            "SELECT d.kind, d.name, m.value, m.since, m.until, m.sent FROM definitions d CROSS JOIN members m"
            " WHERE m.definition = d.id AND m.person = ?"
        )
        return [SyncResult(*row) for row in self._connection.execute(query, (person.number,))]

    def facts(self, person: Person) -> PersonFacts:
        """Return what is known of a person, with values and memberships as the last syncs left them."""
        query = (
            "SELECT d.kind, d.name, m.value FROM definitions d CROSS JOIN members m"
            " WHERE m.definition = d.id AND m.person = ?"
        )
        rows = self._connection.execute(query, (person.number,)).fetchall()
        computed = {name: msgspec.json.decode(value) for kind, name, value in rows if kind == "trait"}
        member_of = frozenset(name for kind, name, value in rows if kind == "audience" and value == TRUE)
        return PersonFacts(person, computed, member_of)

    def is_complete(self, features: Iterable[Feature]) -> bool:
        """Return whether the history of all these features is there, as far as the journal goes back."""
        query = (
            "SELECT f.id FROM features f WHERE (f.type, f.name, f.condition, f.value) = (?, ?, ?, ?)"
            f" AND f.purpose = {Purpose.DEFINITIONS:d} AND f.id NOT IN (SELECT feature FROM backfills)"
        )
        return all(self._connection.execute(query, feature).fetchone() is not None for feature in features)

    def _members(self, which: str, audience: str, *values: int) -> list[Member]:
        query = (
            "SELECT m.person, p.user_id, m.since, m.until, m.sent FROM members m JOIN persons p ON p.id = m.person"
            " WHERE m.definition = (SELECT id FROM definitions WHERE kind = 'audience' AND name = ?)"
            f" AND m.value = '{TRUE}' AND NOT EXISTS (SELECT 1 FROM merged g WHERE g.person = m.person) AND {which}"
        )
        rows = self._connection.execute(query, (audience, *values))
        return [Member(person, user_id, since, until, sent == TRUE) for person, user_id, since, until, sent in rows]
