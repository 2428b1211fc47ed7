"""Find people by the beginning of an id, or of a word of the traits that are chosen for it.

Ids are found where they stand, in ``identities``. Of traits there are terms: each value in one spelling, from each of
its words on, so that "lov" finds Ada Lovelace. The terms are written with the batch that brings the traits. A person's
row in ``search_people`` says which there are, so that they can be taken out again.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, NamedTuple, Protocol

import msgspec

from hookline.database.connect import insert_many
from hookline.database.connection import Connection, overwriting
from hookline.people.store import traits
from hookline.people.store.batch import ANONYMOUS, USER
from hookline.people.store.identities import id_of, key_of
from hookline.people.store.traits import Traits, stored_traits, trait_chunks_of

TRAITS = ("email", "name", "firstName", "lastName", "username", "company")
VERSION = 1
"""Of the terms; another one has them built anew."""
TERM_CHARACTERS_MAX = 80
WORDS_MAX = 4
"""Of one value: a term begins at each."""
PERSONS_PER_STEP = 500
CANDIDATES_MAX = 200
"""Terms or ids that are looked at for one search: more would begin with one or two letters alone."""
LAST = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


def normal(text: str) -> str:
    """Return text in the one spelling that is compared: compatible characters alike, small letters, single spaces."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text[: 4 * TERM_CHARACTERS_MAX]).casefold())
    plain = "".join(" " if unicodedata.category(each) in ("Cc", "Cs") else each for each in folded)
    return " ".join(plain.split())[:TERM_CHARACTERS_MAX]


def bounds(prefix: str) -> tuple[str, str | None]:
    """Return the first text with a prefix and the first behind all of them; None where nothing is behind."""
    for at in range(len(prefix) - 1, -1, -1):
        code = ord(prefix[at])
        if code < LAST:
            code += 1
            return prefix, prefix[:at] + chr(SURROGATES.stop if code in SURROGATES else code)
    return prefix, None


def terms_of(known: Traits) -> set[str]:
    """Return the terms of some traits."""
    found: set[str] = set()
    for trait in known.values():
        if isinstance(trait.value, str | int | float) and not isinstance(trait.value, bool):
            words = normal(str(trait.value)).split(" ", WORDS_MAX)
            found.update(" ".join(words[at:]) for at in range(min(len(words), WORDS_MAX)))
    return found - {""}


class Keeps(Protocol):
    """Hold what is needed of the store."""

    connection: Connection

    def transaction(self) -> AbstractContextManager[Callable[..., Any]]:
        """Return a transaction that an exception undoes."""

    def many(self, query: str, keys: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query that ends with ``IN``."""


class SearchIndex:
    """Used by the one writer."""

    def __init__(self, store: Keeps, names: Collection[str] = TRAITS) -> None:
        self._store = store
        self._names = frozenset(names)
        self._holds = re.compile(b"|".join(re.escape(msgspec.json.encode(name) + b":") for name in sorted(names)))
        self._made_by = f"{VERSION} {msgspec.json.encode(sorted(names)).decode()}"
        self._begin()

    def add(self, given: Mapping[int, list[bytes]]) -> None:
        """Take in traits of people, as ``TraitChunks.add`` does; within the transaction of a batch."""
        if not self._names:
            return
        holds = self._holds.search
        found: dict[int, Traits] = {}
        for person, parts in given.items():
            for part in parts:
                if holds(part) is not None:
                    self._collect(found, person, part)
        self._write(found)

    def step(self) -> bool:
        """Build some more of it; return whether there was anything to build."""
        (row,) = self._store.connection.execute("SELECT next_person, end_person FROM search_build").fetchall()
        first, end = row
        if first >= end:
            return False
        last = min(first + PERSONS_PER_STEP, end)
        with self._store.transaction() as execute:
            self._build(first, last)
            execute("UPDATE search_build SET next_person = ?", (last,))
        return True

    def erase(self, numbers: Collection[int]) -> None:
        """Take out these persons; within a transaction."""
        query = "SELECT person, traits FROM search_people WHERE person IN "
        self._replace([(person, traits.unpacked(held), {}) for person, held in list(self._store.many(query, numbers))])

    def renew(self, numbers: Iterable[int], is_old: Callable[[int, Traits], bool]) -> None:
        """Make it as the stored traits are, for those of these persons of whom what it holds is old; within the
        transaction that took some of them away."""
        query, left = "SELECT person, traits FROM search_people WHERE person IN ", iter(numbers)
        while some := list(islice(left, PERSONS_PER_STEP)):
            held = ((person, traits.unpacked(stored)) for person, stored in self._store.many(query, some))
            old = [(person, known) for person, known in held if is_old(person, known)]
            self._replace([(person, known, self._stored(person)) for person, known in old])

    def _stored(self, person: int) -> Traits:
        found: dict[int, Traits] = {}
        for part in stored_traits(self._store.connection, [person]):
            self._collect(found, person, part)
        return found.get(person, {})

    def _begin(self) -> None:
        """Begin anew where the terms are of other traits, or made in another way."""
        connection = self._store.connection
        if connection.execute("SELECT made_by FROM search_build").fetchall() == [(self._made_by,)]:
            return
        with self._store.transaction() as execute:
            for table in ("search_terms", "search_people", "search_build"):
                execute(f"DELETE FROM {table}")
            end = "SELECT ?, 0, coalesce(max(id), -1) + 1 FROM persons"
            execute(f"INSERT INTO search_build (made_by, next_person, end_person) {end}", (self._made_by,))

    def _build(self, first: int, end: int) -> None:
        execute, found = self._store.connection.execute, dict[int, Traits]()
        query = "SELECT id, traits FROM persons WHERE traits IS NOT NULL AND id >= ? AND id < ?"
        for person, stored in execute(query, (first, end)):
            self._collect(found, person, stored)
        for chunk in trait_chunks_of(self._store.connection):
            query = "SELECT person, traits FROM new_traits WHERE chunk = ? AND person >= ? AND person < ?"
            for person, stored in execute(query, (chunk, first, end)):
                self._collect(found, person, stored)
        self._write(found)

    def _collect(self, found: dict[int, Traits], person: int, stored: bytes) -> None:
        more = {name: trait for name, trait in traits.unpacked(stored).items() if name in self._names}
        if more:
            traits.add(found.setdefault(person, {}), more)

    def _write(self, found: Mapping[int, Traits]) -> None:
        people = sorted(found.items())
        for first in range(0, len(people), PERSONS_PER_STEP):  # what is known of each may be long
            self._write_some(people[first : first + PERSONS_PER_STEP])

    def _write_some(self, found: Sequence[tuple[int, Traits]]) -> None:
        query = "SELECT person, traits FROM search_people WHERE person IN "
        people = [person for person, _ in found]
        known = {person: traits.unpacked(stored) for person, stored in self._store.many(query, people)}
        changed = []
        for person, more in found:
            before = known.get(person, {})
            after = dict(before)
            traits.add(after, more)
            if any(name not in before or before[name].value != trait.value for name, trait in after.items()):
                # The row is not written for a newer event with the same value, so only the stored traits know whether
                # another value is newer than that.
                changed.append((person, before, self._stored(person) if before else after))
        self._replace(changed)

    def _replace(self, changed: Sequence[tuple[int, Traits, Traits]]) -> None:
        connection = self._store.connection
        gone, new = [], []
        for person, before, after in changed:
            old, now = terms_of(before), terms_of(after)
            gone += [(term, person) for term in old - now]
            new += [(term, person) for term in now - old]
        connection.executemany("DELETE FROM search_terms WHERE term = ? AND person = ?", sorted(gone))
        insert_many(connection, "search_terms", ("term", "person"), sorted(new), "ON CONFLICT DO NOTHING")
        rows = [(person, traits.packed(after)) for person, _, after in changed if after]
        insert_many(connection, "search_people", ("person", "traits"), rows, overwriting(("person",), ("traits",)))
        left = [(person,) for person, _, after in changed if not after]
        connection.executemany("DELETE FROM search_people WHERE person = ?", left)


class PersonRow(NamedTuple):
    """A person in a list; the words are empty where nothing is known. ``matched`` is the trait that was searched for,
    empty where it was an id."""

    user_id: str | None
    anonymous_id: str | None
    name: str
    email: str
    first_seen_ms: int
    matched: str = ""
    value: str = ""

    @property
    def id(self) -> str:
        """Return the id that leads to the person."""
        return self.user_id or self.anonymous_id or ""


class PeopleSearch:
    """Reads with a connection of the caller's; the profiles role goes on writing meanwhile."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def built(self) -> float:
        """Return the share of the people whose traits can be searched for: 1.0 once it is all of them."""
        row = self._connection.execute("SELECT next_person, end_person FROM search_build").fetchone()
        return 0.0 if row is None else 1.0 if not row[1] else min(1.0, row[0] / row[1])

    def find(self, text: str, limit: int) -> list[PersonRow]:
        """Return who has an id or a trait that begins so: exact ids first, then user ids, traits, anonymous ids."""
        asked = text.strip()
        wanted = normal(asked)
        if not wanted:
            return []
        ids = [asked] if asked == wanted else [asked, wanted]
        by_id: list[int] = []
        for kind in (USER, ANONYMOUS):
            by_id += self._numbers("SELECT person FROM identities WHERE kind = ? AND id = ?", (kind, key_of(asked)))
        for id in ids:
            by_id += self._ids(USER, id, limit)
        of_terms = self._in_range("search_terms", "term", "", wanted, CANDIDATES_MAX, ())
        anonymous = [each for id in ids for each in self._ids(ANONYMOUS, id, limit)]
        people = self._merged([*by_id, *of_terms, *anonymous])
        direct = set(self._merged([*by_id, *anonymous]))
        rows = []
        for first in range(0, len(people), limit):  # who is left out below makes room for another
            rows += self._rows(people[first : first + limit], wanted, direct)
            if len(rows) >= limit:
                break
        return rows[:limit]

    def identified(self, limit: int, before: tuple[int, int] | None = None) -> tuple[list[PersonRow], str]:
        """Return people with a user id, newest first, and what ``before`` is for the next ones (empty: no more)."""
        when, what = ("", ()) if before is None else (" AND (p.first_seen, p.id) < (?, ?)", before)
        query = (
            "SELECT p.id, p.first_seen FROM persons p WHERE p.user_id IS NOT NULL"
            f"{when} AND NOT EXISTS (SELECT 1 FROM merged m WHERE m.person = p.id)"
            " ORDER BY p.first_seen DESC, p.id DESC LIMIT ?"
        )
        found = self._connection.execute(query, (*what, limit + 1)).fetchall()
        last = found[limit - 1] if len(found) > limit else None
        return self._rows([number for number, _ in found[:limit]]), f"{last[1]}:{last[0]}" if last else ""

    def _ids(self, kind: int, prefix: str, limit: int) -> list[int]:
        return self._in_range("identities", "id", "kind = ? AND ", prefix, limit, (kind,))

    def _in_range(
        self, table: str, column: str, where: str, prefix: str, limit: int, values: tuple[int, ...]
    ) -> list[int]:
        low, high = bounds(prefix)
        behind = "" if high is None else f" AND {column} < ?"
        ends = () if high is None else (high,)
        query = f"SELECT person FROM {table} WHERE {where}{column} >= ?{behind} ORDER BY {column} LIMIT ?"
        return self._numbers(query, (*values, low, *ends, limit))

    def _numbers(self, query: str, values: tuple[Any, ...]) -> list[int]:
        return [int(person) for (person,) in self._connection.execute(query, values)]

    def _merged(self, numbers: Sequence[int]) -> list[int]:
        """Return the persons that these went into, each once, in the same order."""
        if not numbers:
            return []
        query = f"SELECT person, into_person FROM merged WHERE person IN ({_listed(numbers)})"
        into = dict(self._connection.execute(query).fetchall())
        return list(dict.fromkeys(into.get(number, number) for number in numbers))

    def _rows(self, people: Sequence[int], wanted: str = "", direct: Collection[int] = ()) -> list[PersonRow]:
        """Return the people, without those whose newer traits do not begin so any more."""
        if not people:
            return []
        execute = self._connection.execute
        query = f"SELECT person, into_person FROM merged WHERE into_person IN ({_listed(people)})"
        of = {**{number: number for number in people}, **dict(execute(query).fetchall())}
        known: dict[int, Traits] = {}
        for number, stored in execute(f"SELECT person, traits FROM search_people WHERE person IN ({_listed(of)})"):
            traits.add(known.setdefault(of[number], {}), traits.unpacked(stored))
        query = f"SELECT id, user_id, first_seen FROM persons WHERE id IN ({_listed(of)})"
        persons: dict[int, str | None] = {}
        seen: dict[int, int] = {}
        for number, user_id, first_seen in execute(query):
            if number == of[number]:
                persons[number] = user_id
            seen[of[number]] = min(first_seen, seen.get(of[number], first_seen))
        rows = []
        for person in people:
            held = known.get(person, {})
            matched, value = _matching(held, wanted)
            if person in persons and (not wanted or person in direct or matched):
                user_id = persons[person]
                anonymous = None if user_id else self._anonymous(person)
                rows.append(PersonRow(user_id, anonymous, *_called(held), seen[person], matched, value))
        return rows

    def _anonymous(self, person: int) -> str | None:
        query = "SELECT id FROM identities WHERE person = ? AND kind = ? ORDER BY id LIMIT 1"
        row = self._connection.execute(query, (person, ANONYMOUS)).fetchone()
        return None if row is None else id_of(self._connection, row[0])


def _matching(known: Traits, wanted: str) -> tuple[str, str]:
    """Return the trait, and its value, of which a term begins so."""
    for name, trait in sorted(known.items()) if wanted else ():
        if any(term.startswith(wanted) for term in terms_of({name: trait})):
            return name, str(trait.value)
    return "", ""


def _called(known: Traits) -> tuple[str, str]:
    """Return name and e-mail."""
    text = {name: trait.value for name, trait in known.items() if isinstance(trait.value, str)}
    both = " ".join(text[each] for each in ("firstName", "lastName") if text.get(each))
    return text.get("name") or both or text.get("username") or "", text.get("email") or ""


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(f"{number:d}" for number in numbers)
