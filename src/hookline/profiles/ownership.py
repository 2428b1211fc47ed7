"""Which records are one person's: the question that ``Identities`` answers for one record, asked for one person.

A record with a user id is that user's. One with an anonymous id alone is the person's who had the id at its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.journal.record import Record
from hookline.profiles.doing import doing_of, text
from hookline.profiles.long_ids import id_of, key_of
from hookline.profiles.people import Person

EVER = (0, 1 << 63)


class Ownership(NamedTuple):
    """A person's user ids, and of each anonymous id the stretches of places, ``[first, until)``, that are theirs."""

    users: frozenset[str]
    anonymous: Mapping[str, tuple[tuple[int, int], ...]]

    @property
    def ids(self) -> frozenset[str]:
        """Every id that a record of the person may be found by."""
        return self.users.union(self.anonymous)

    def has(self, place: int, record: Record) -> bool:
        """Whether a record that was found by one of the ids is the person's."""
        doing = doing_of(record)
        user_id = text(doing.userId)
        if user_id:
            return user_id in self.users
        return any(first <= place < until for first, until in self.anonymous.get(text(doing.anonymousId), ()))


def of_user_id(user_id: str) -> Ownership:
    """Of somebody of whom nothing is known but the user id."""
    return Ownership(frozenset((user_id,)), {})


def of_anonymous_id(anonymous_id: str) -> Ownership:
    """Of somebody of whom nothing is known but the anonymous id."""
    return Ownership(frozenset(), {anonymous_id: (EVER,)})


def of_person(connection: Connection, person: Person) -> Ownership:
    """Of a person, devices that were handed on to others included."""
    numbers = set(person.numbers)
    identities = person.identities()
    held = {each.id for each in identities if each.kind == "anonymous"}
    marks = ",".join(map(str, person.numbers))
    query = f"SELECT DISTINCT id FROM repointed WHERE person IN ({marks})"
    ids = held | {id_of(connection, key) for (key,) in connection.execute(query).fetchall()}
    return Ownership(
        frozenset(each.id for each in identities if each.kind == "user"),
        {id: _stretches(connection, id, numbers, id in held) for id in ids},
    )


def _stretches(connection: Connection, id: str, numbers: set[int], is_held: bool) -> tuple[tuple[int, int], ...]:
    """The stretches of an anonymous id that was these numbers', and still is when it ``is_held``."""
    query = "SELECT place, person FROM repointed WHERE id = ? ORDER BY place"
    first, found = 0, []
    for until, person in connection.execute(query, (key_of(id),)):
        if person in numbers:
            found.append((first, until))
        first = until
    return (*found, (first, EVER[1])) if is_held else tuple(found)
