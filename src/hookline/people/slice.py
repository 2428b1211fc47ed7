"""Facts of some thousand people at once, for judging them one after the other: a few queries for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.people.definitions.definition import CompiledDefinition, Key
from hookline.people.definitions.feature import Entry, Feature, Purpose
from hookline.people.store import traits
from hookline.people.store.history import Chunk, by_bucket, chunks_of, ordered, unpack, unpack_of
from hookline.people.store.store import ProfileStore
from hookline.people.store.traits import Traits, trait_chunks_of

_NOTHING: tuple[Entry, ...] = ()
_NO_TRAITS: dict[str, object] = {}


def everybody(store: ProfileStore, people_per_slice: int) -> Iterator[list[int]]:
    """Yield the numbers of everybody there is, those merged into others left out, in a row and in order."""
    query = (
        "SELECT id FROM persons WHERE id > ? AND NOT EXISTS (SELECT 1 FROM merged WHERE person = id)"
        " ORDER BY id LIMIT ?"
    )
    last = 0
    while people := [person for (person,) in store.connection.execute(query, (last, people_per_slice))]:
        last = people[-1]
        yield people


class PersonInSlice:
    """Hold what is known of one person of a slice."""

    __slots__ = ("_person", "_slice")

    def __init__(self, of: Slice, person: int) -> None:
        self._slice = of
        self._person = person

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Return the events of a feature, sorted by time and position."""
        return self._slice.entries[feature].get(self._person, _NOTHING)

    @property
    def traits(self) -> Mapping[str, object]:
        """Return the person's traits as plain JSON values."""
        found = self._slice.traits.get(self._person)
        return traits.plain(found) if found else _NO_TRAITS

    @property
    def group_traits(self) -> Sequence[Mapping[str, object]]:
        """Return the traits of each group the person belongs to."""
        return [traits.plain(each) for each in self._slice.groups.get(self._person, {}).values()]

    def computed(self, id: str) -> object:
        """Return the value of a computed trait, None when it has none."""
        text = self._slice.values.get(("trait", id), {}).get(self._person)
        return None if text is None else msgspec.json.decode(text)

    def is_member(self, audience_id: str) -> bool:
        """Return whether the person is a member of an audience."""
        return self._slice.values.get(("audience", audience_id), {}).get(self._person) == "true"


class Slice:
    """The people with these numbers, none of which was merged into another; loads what one definition asks for.

    ``in_a_row`` says that they are all there are from the first to the last, ``purpose`` whose features are looked at.
    """

    def __init__(
        self,
        store: ProfileStore,
        people: Sequence[int],
        ready: CompiledDefinition,
        numbers: Mapping[Key, int],
        in_a_row: bool,
        purpose: Purpose = Purpose.DEFINITIONS,
    ) -> None:
        self.people = people
        self._purpose = purpose
        self._store = store
        self._in_a_row = in_a_row
        self.merged = dict(store.many("SELECT person, into_person FROM merged WHERE into_person IN ", people))
        self._known = {person: person for person in people} | self.merged
        self.entries = {feature: self._entries(feature) for feature in ready.features}
        self.traits = self._traits() if ready.asks_traits else {}
        self.groups = self._groups() if ready.asks_groups else {}
        self.values = {key: self._values(numbers[key]) for key in ready.needs if key in numbers}
        self.user_ids = dict(store.many("SELECT id, user_id FROM persons WHERE user_id IS NOT NULL AND id IN ", people))

    def facts(self) -> Iterator[tuple[int, PersonInSlice]]:
        """Everybody, with what is known."""
        for person in self.people:
            yield person, PersonInSlice(self, person)

    def _entries(self, feature: Feature) -> dict[int, Sequence[Entry]]:
        row = self._store.connection.execute(
            "SELECT id FROM features WHERE (type, name, condition, value) = (?, ?, ?, ?) AND purpose <= ?"
            " ORDER BY purpose DESC LIMIT 1",
            (*feature, self._purpose),
        ).fetchone()
        found: defaultdict[int, list[Entry]] = defaultdict(list)
        for chunk in chunks_of(self._store.connection) if row else ():
            for number, entry in self._in_chunk(row[0], chunk):
                found[self._known[number]].append(entry)
        return {person: entries if len(entries) == 1 else ordered(entries) for person, entries in found.items()}

    def _in_chunk(self, feature: int, chunk: Chunk) -> Iterator[tuple[int, Entry]]:
        """Yield the entries of a feature, each with the number under which it was written."""
        query = (
            "SELECT bucket, entries, entry_values FROM history"
            f" WHERE feature = {feature:d} AND chunk = {chunk.number:d} AND bucket"
        )
        numbers: Iterable[int] = self._known
        if self._in_a_row:
            first, last = self.people[0], self.people[-1]
            between = f"{query} BETWEEN {first >> chunk.shift:d} AND {last >> chunk.shift:d}"
            for _, *row in self._store.connection.execute(between):
                for number, entry in unpack(*row):
                    if first <= number <= last and number in self._known:
                        yield number, entry
            numbers = (number for number in self.merged if not first <= number <= last)
        buckets = by_bucket(numbers, chunk.shift)
        for bucket, *row in self._store.many(f"{query} IN ", buckets):
            yield from unpack_of(buckets[bucket], *row)

    def _traits(self) -> dict[int, Traits]:
        found: dict[int, Traits] = {}
        queries = [("SELECT id, traits FROM persons WHERE traits IS NOT NULL AND", "id")]
        for chunk in trait_chunks_of(self._store.connection):
            queries.append((f"SELECT person, traits FROM new_traits WHERE chunk = {chunk:d} AND", "person"))
        for query in queries:
            for person, stored in self._rows(*query):
                given = traits.unpacked(stored)
                if person in found:
                    traits.add(found[person], given)
                else:
                    found[person] = given
        return found

    def _groups(self) -> dict[int, dict[str, Traits]]:
        found: defaultdict[int, dict[str, Traits]] = defaultdict(dict)
        query = "SELECT m.person, m.group_id, g.traits FROM memberships m JOIN groups g ON g.id = m.group_id WHERE"
        for person, group, stored in self._rows(query, "m.person"):
            found[person][group] = traits.unpacked(stored)
        return found

    def _rows(self, query: str, column: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that goes on with the condition on the person, who is then the one merged into."""
        numbers: Iterable[int] = self._known
        if self._in_a_row:
            first, last = self.people[0], self.people[-1]
            for number, *row in self._store.connection.execute(f"{query} {column} BETWEEN {first:d} AND {last:d}"):
                person = self._known.get(number)
                if person is not None:
                    yield person, *row
            numbers = (number for number in self.merged if not first <= number <= last)
        for number, *row in self._store.many(f"{query} {column} IN ", numbers):
            yield self._known[number], *row

    def _values(self, definition: int) -> dict[int, str]:
        query = f"SELECT person, value FROM members WHERE definition = {definition:d} AND person IN "
        return dict(self._store.many(query, self.people))
