"""Reading people: who somebody is, the traits and groups with where they come from, and the facts that are judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookline.database.connection import Connection, replacing
from hookline.people.definitions.feature import Entry, Feature, Purpose
from hookline.people.store import traits
from hookline.people.store.batch import ANONYMOUS, USER, Kind
from hookline.people.store.history import ordered, unpack_of
from hookline.people.store.identities import id_of, key_of
from hookline.people.store.traits import Trait, Traits, stored_traits

NUMBERS_PER_QUERY = 100
"""A statement of SQLite is put together of 500 at most."""


EVERY = 1 << 62
IDS_MAX = 1_000
"""Ids of one person that are listed, and looked through for events: a user id such as ``undefined`` may have got the
devices of everybody."""


class Membership(NamedTuple):
    """A group of a person: since when, and by which record."""

    group: str
    since_ms: int
    position: int


class Identity(NamedTuple):
    """An id that leads to a person; ``kind`` is ``user`` or ``anonymous``."""

    kind: str
    id: str


class ListedPerson(NamedTuple):
    """A person in a list: one of the ids, and when the first record was received."""

    identity: Identity
    first_seen_ms: int


class People:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def by_user_id(self, user_id: str) -> Person | None:
        """Return the person of a user id."""
        return self._find(USER, user_id)

    def by_anonymous_id(self, anonymous_id: str) -> Person | None:
        """Return the person that an anonymous id belongs to now."""
        return self._find(ANONYMOUS, anonymous_id)

    def met_last(self, limit: int) -> list[ListedPerson]:
        """Those who were met last, newest first; those merged into others since are left out."""
        query = (
            "SELECT id, user_id, first_seen FROM persons p WHERE NOT EXISTS"
            " (SELECT 1 FROM merged WHERE person = p.id) ORDER BY id DESC LIMIT ?"
        )
        rows = self._connection.execute(query, (limit,)).fetchall()
        return [
            ListedPerson(Identity("user", user_id) if user_id else self._anonymous(number), first_seen)
            for number, user_id, first_seen in rows
        ]

    def person(self, number: int) -> Person:
        """Return the person with a number, or the one it was merged into."""
        execute = self._connection.execute
        row = execute("SELECT into_person FROM merged WHERE person = ?", (number,)).fetchone()
        number = row[0] if row else number
        rows = execute("SELECT person FROM merged WHERE into_person = ? ORDER BY person", (number,)).fetchall()
        return Person(self._connection, number, (number, *(each for (each,) in rows)))

    def _anonymous(self, number: int) -> Identity:
        return Identity("anonymous", self.person(number).anonymous_id() or "")

    def _find(self, kind: Kind, id: str) -> Person | None:
        query = "SELECT person FROM identities WHERE kind = ? AND id = ?"
        row = self._connection.execute(query, (kind, key_of(id))).fetchone()
        return None if row is None else self.person(row[0])


class Person:
    """One person; ``numbers`` are all under which something was written, the person's own first."""

    def __init__(self, connection: Connection, number: int, numbers: tuple[int, ...]) -> None:
        self.number = number
        self.numbers = numbers
        self._connection = connection
        self._in = f"({','.join(str(each) for each in numbers)})"

    @property
    def user_id(self) -> str | None:
        """Return the user id, None while there are only anonymous ids; after an alias the newer one."""
        row = self._connection.execute("SELECT user_id FROM persons WHERE id = ?", (self.number,)).fetchone()
        return row[0] if row else None

    @property
    def first_seen_ms(self) -> int:
        """Return when the person's first record was received."""
        rows = self._connection.execute(f"SELECT min(first_seen) FROM persons WHERE id IN {self._in}").fetchall()
        return int(rows[0][0] or 0)

    def identities(self) -> list[Identity]:
        """Return the ids that lead here, user ids first; of more than ``IDS_MAX`` the first ones."""
        query = f"SELECT kind, id FROM identities WHERE person IN {self._in} ORDER BY kind, id LIMIT ?"
        rows = self._connection.execute(query, (IDS_MAX,)).fetchall()
        return [Identity("user" if kind == USER else "anonymous", id_of(self._connection, key)) for kind, key in rows]

    def identity_count(self) -> int:
        """Return how many ids lead here."""
        query = f"SELECT count(*) FROM identities WHERE person IN {self._in}"
        return int(self._connection.execute(query).fetchall()[0][0])

    def anonymous_id(self) -> str | None:
        """Return one of the anonymous ids that lead here, None when there is none."""
        query = f"SELECT id FROM identities WHERE person IN {self._in} AND kind = ? ORDER BY id LIMIT 1"
        row = self._connection.execute(query, (ANONYMOUS,)).fetchone()
        return None if row is None else id_of(self._connection, row[0])

    def traits(self) -> Traits:
        """Return the traits with where they come from, the ones that were taken back included."""
        return traits.together(stored_traits(self._connection, self.numbers))

    def written_traits(self) -> Traits:
        """Return the same with each value as the JSON that is stored."""
        return traits.together(stored_traits(self._connection, self.numbers), _written)

    def groups(self, limit: int = EVERY) -> list[Membership]:
        """Return at most so many groups, by their ids."""
        first = "row_number() OVER (PARTITION BY group_id ORDER BY since, place)"
        query = (
            f"SELECT group_id, since, place FROM (SELECT group_id, since, place, {first} AS number FROM memberships"
            f" WHERE person IN {self._in}) AS found WHERE number = 1 ORDER BY group_id LIMIT ?"
        )
        rows = self._connection.execute(query, (limit,)).fetchall()
        return [Membership(id_of(self._connection, key), *row) for key, *row in rows]

    def group_count(self) -> int:
        """Return how many groups there are."""
        query = f"SELECT count(DISTINCT group_id) FROM memberships WHERE person IN {self._in}"
        return int(self._connection.execute(query).fetchall()[0][0])

    def group_traits(self, group: str) -> Traits:
        """Return the traits of a group."""
        return traits.together(self._stored_of(group))

    def written_group_traits(self, group: str) -> Traits:
        """Return the same with each value as the JSON that is stored."""
        return traits.together(self._stored_of(group), _written)

    def _stored_of(self, group: str) -> list[bytes]:
        query = "SELECT traits FROM groups WHERE id = ? AND traits IS NOT NULL"
        return [stored for (stored,) in self._connection.execute(query, (key_of(group),)).fetchall()]

    def entries(self, feature: Feature) -> list[Entry]:
        """Return the events of a feature, sorted by time and position; none of a feature that is not kept."""
        # A look for each chunk, also where nobody has counted the rows for the planner of PostgreSQL.
        row = "FROM history h WHERE h.feature = f.id AND h.chunk = c.chunk AND h.bucket = p.number >> c.shift"
        rows: set[tuple[bytes | None, bytes | None]] = set()  # several numbers may share one
        for first in range(0, len(self.numbers), NUMBERS_PER_QUERY):
            some = self.numbers[first : first + NUMBERS_PER_QUERY]
            numbers = " UNION ALL ".join(["SELECT ? AS number"] * len(some))
            query = (
                f"SELECT (SELECT entries {row}), CASE WHEN f.value <> '' THEN (SELECT entry_values {row}) END"
                f" FROM features f CROSS JOIN chunks c CROSS JOIN ({numbers}) AS p"
                f" WHERE (f.type, f.name, f.condition, f.value) = (?, ?, ?, ?) AND f.purpose = {Purpose.DEFINITIONS:d}"
            )
            rows.update(self._connection.execute(query, (*some, *feature)))
        return ordered(
            entry for entries, values in rows if entries for _, entry in unpack_of(self.numbers, entries, values)
        )


class _WrittenTrait(Trait, array_like=True, frozen=True, gc=False):
    value: msgspec.Raw


_decode_written = msgspec.json.Decoder(dict[str, _WrittenTrait]).decode


def _written(stored: bytes) -> Traits:
    """Return traits with the values as they are stored: those of one may be 8 MB, which as Python's values are twenty
    times as much, and take most of a second in which no other thread goes on."""
    return dict(_decode_written(stored))


class PersonFacts:
    """Hold what is known of one person, read once when it is asked for."""

    def __init__(self, person: Person, computed: Mapping[str, object], member_of: frozenset[str]) -> None:
        self._person = person
        self._computed = computed
        self._member_of = member_of
        self._entries: dict[Feature, list[Entry]] = {}
        self._traits: dict[str, object] | None = None

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Return the events of a feature, sorted by time and position."""
        found = self._entries.get(feature)
        if found is None:
            found = self._entries[feature] = self._person.entries(feature)
        return found

    @property
    def traits(self) -> Mapping[str, object]:
        """Return the person's traits as plain JSON values."""
        if self._traits is None:
            self._traits = traits.plain(self._person.traits())
        return self._traits

    @property
    def group_traits(self) -> Iterator[Mapping[str, object]]:
        """Yield the traits of each group the person belongs to, one at a time: those of one may be 8 MB."""
        return (traits.plain(self._person.group_traits(each.group)) for each in self._person.groups())

    def computed(self, id: str) -> object:
        """Return the value of a computed trait, None when it has none."""
        return self._computed.get(id)

    def is_member(self, audience_id: str) -> bool:
        """Return whether the person is a member of an audience."""
        return audience_id in self._member_of


CHANGES_MAX = 50
"""Of one person and audience, beside what holds now; the oldest go first."""


class Change(NamedTuple):
    """Somebody became, or ceased to be, a member; the sync is None where it came before syncs were written down."""

    audience: str
    at_ms: int
    member: bool
    sync: int | None


class Held(NamedTuple):
    """Hold what a sync left for a number: from which instant on, a member or not, and the sync."""

    definition: int
    person: int
    at_ms: int
    member: bool
    sync: int | None


def changes_of(connection: Connection, person: Person, audience: str | None = None) -> list[Change]:
    """Return the changes of one person, newest first; in one audience or in all there are."""
    numbers = ",".join(str(each) for each in person.numbers)
    query = (
        "SELECT d.name, m.person, m.since, CASE m.value WHEN 'true' THEN 1 ELSE 0 END, m.since_sync"
        f" FROM definitions d CROSS JOIN members m WHERE m.definition = d.id AND m.person IN ({numbers})"
        " AND d.kind = 'audience' AND d.name = coalesce(?, d.name)"
        " UNION ALL SELECT d.name, c.person, c.at, c.member, c.sync FROM definitions d CROSS JOIN membership_changes c"
        f" WHERE c.definition = d.id AND c.person IN ({numbers})"
        " AND d.kind = 'audience' AND d.name = coalesce(?, d.name)"
        # At one instant who comes is before who goes: a merge moves a membership from one number to another.
        " ORDER BY 3, 4 DESC"
    )
    held: dict[str, set[int]] = {}
    found: list[Change] = []
    for name, number, at_ms, is_member, sync in connection.execute(query, (audience, audience)):
        under = held.setdefault(name, set())
        was = bool(under)
        (under.add if is_member else under.discard)(number)
        if bool(under) != was:
            found.append(Change(name, at_ms, bool(under), sync))
    return found[::-1]


def keep(connection: Connection, ended: Iterable[Held]) -> None:
    """Write down what held until now, and drop what is too old beside it; within a transaction."""
    rows = list(ended)
    query = replacing("membership_changes", ("definition", "person", "at"), ("member", "sync"))
    connection.executemany(query, [(*each[:3], int(each.member), each.sync) for each in rows])
    connection.executemany(
        "DELETE FROM membership_changes WHERE definition = ? AND person = ? AND at <="
        " (SELECT at FROM membership_changes WHERE definition = ? AND person = ?"
        f" ORDER BY at DESC LIMIT 1 OFFSET {CHANGES_MAX})",
        [(each.definition, each.person) * 2 for each in rows],
    )
