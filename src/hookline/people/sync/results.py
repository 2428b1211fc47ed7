"""Reading what syncs came to: who is a member of an audience, what was sent, and the syncs there were."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from hookline.connections.definitions.model import Audience, Definition
from hookline.database.connection import Connection
from hookline.events import untyped
from hookline.people.definitions.aggregates import EMPTY
from hookline.people.definitions.definition import Key, as_json
from hookline.people.definitions.feature import Feature, Purpose
from hookline.people.store.people import Person, PersonFacts

TRUE = "true"


class Member(NamedTuple):
    """A person in an audience: since which sync, until when if nothing new happens, and whether that was sent."""

    person: int
    user_id: str | None
    since_ms: int
    until_ms: int | None
    synced: bool


class EndedSync(NamedTuple):
    """A sync that has ended: when it looked, when it ended, for how many the value came, or went, and how many had one
    then; ``people`` is None for a sync from before that was written down."""

    number: int
    at_ms: int
    finished_ms: int
    came: int
    went: int
    people: int | None


class SyncResult(NamedTuple):
    """The state in which syncs left a person: value as JSON, since when, until when, and what was sent."""

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
            "SELECT number, at, finished_at, came, went, people FROM syncs"
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

    def sent_about(self, person: Person) -> set[Key]:
        """Return the definitions whose syncs have sent something about the person, those that were deleted since among
        them; also under numbers that were merged since and have not been looked at yet."""
        numbers = ",".join(map(str, person.numbers))
        query = (
            "SELECT d.kind, d.name FROM definitions d CROSS JOIN members m"
            f" WHERE m.definition = d.id AND m.person IN ({numbers}) AND m.sent IS NOT NULL"
            f" UNION SELECT kind, name FROM sent_before WHERE person IN ({numbers})"
        )
        return set(self._connection.execute(query))

    def facts(self, person: Person) -> PersonFacts:
        """Return what is known of a person, with values and memberships as the last syncs left them."""
        query = (
            "SELECT d.kind, d.name, m.value FROM definitions d CROSS JOIN members m"
            " WHERE m.definition = d.id AND m.person = ?"
        )
        rows = self._connection.execute(query, (person.number,)).fetchall()
        computed = {name: untyped.decode(value) for kind, name, value in rows if kind == "trait"}
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


ROWS_PER_COUNT = 20_000
"""Looked at in one step of counting: a few milliseconds."""


class SyncState(NamedTuple):
    """The last sync's number (0 before the first), when the next one is due, and whether one is under way;
    ``is_anew`` while everybody is still to be looked at."""

    number: int
    next_ms: int
    is_telling: bool
    is_anew: bool


class Held(NamedTuple):
    """A person for whom a definition has a value: the value as JSON, since which sync, until when if nothing new
    happens, and whether that was sent."""

    person: int
    user_id: str | None
    value: str
    since_ms: int
    until_ms: int | None
    synced: bool


class Counted(NamedTuple):
    """One step of counting: how many there are, and the last person that was looked at, None at the end."""

    people: int
    last: int | None


class OverlapStep(NamedTuple):
    """One step of comparing: members of an audience with whether they are in the other one too, and the last person
    that was looked at, None at the end."""

    members: list[tuple[int, bool]]
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
            Held(person, user_id, value, since, until, bool(sent))
            for person, user_id, value, since, until, sent in rows
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

    def overlap(self, audience: str, other: str, after: int = 0, rows: int = ROWS_PER_COUNT) -> OverlapStep:
        """Return the members among an audience's next rows above the person ``after``, each with whether they are
        members of another audience too."""
        number = "(SELECT id FROM definitions WHERE kind = 'audience' AND name = ?)"
        query = (
            "SELECT m.person, m.value = 'true' AND NOT EXISTS (SELECT 1 FROM merged g WHERE g.person = m.person),"
            f" EXISTS (SELECT 1 FROM members o WHERE o.definition = {number} AND o.person = m.person"
            " AND o.value = 'true')"
            f" FROM members m WHERE m.definition = {number} AND m.person > ? ORDER BY m.person LIMIT ?"
        )
        found = self._connection.execute(query, (other, audience, after, rows)).fetchall()
        members = [(person, bool(is_in_other)) for person, is_member, is_in_other in found if is_member]
        return OverlapStep(members, found[-1][0] if len(found) == rows else None)


def empty_value(definition: Definition) -> str:
    """Return the value, as JSON, of somebody of whom nothing is known."""
    return "false" if isinstance(definition, Audience) else as_json(EMPTY.get(definition.aggregate))


FOLDER = "sync-now"


class SyncRequests:
    """At most one for each definition."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder / FOLDER

    def ask(self, key: Key) -> None:
        """Ask for a sync of a definition; again is the same."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path(key).touch(mode=0o600)

    def asked(self) -> list[Key]:
        """Return the definitions whose sync is asked for."""
        found: list[Key] = []
        try:
            names = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return found
        for name in names:
            kind, _, id = name.partition(".")
            if kind == "audience":
                found.append(("audience", id))
            elif kind == "trait":
                found.append(("trait", id))
        return found

    def done(self, key: Key) -> None:
        """It is due now, or cannot be."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: Key) -> Path:
        return self._folder / ".".join(key)
