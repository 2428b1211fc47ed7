"""Facts of some thousand people at once, for judging them one after the other: a few queries for all of them, and for
fewer at a time where their traits or their history are long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from hookline.people.definitions.definition import CompiledDefinition, Key
from hookline.people.definitions.feature import Entry, Feature, Purpose
from hookline.people.store import traits
from hookline.people.store.history import (
    ENTRY_BYTES,
    Chunk,
    by_bucket,
    chunks_of,
    ordered,
    unpack_between,
    unpack_of,
)
from hookline.people.store.store import ProfileStore
from hookline.people.store.traits import pieces, trait_chunks_of

BYTES_PER_PART = 16 << 20
"""Of the traits of people, as they are stored, that are in memory at a time."""
ENTRY_BYTES_PER_PART = 32 << 20
"""Of the entries of people likewise, in which they take up to seven times as much: 200 of each of 5,000 people fit."""
DECODED_BYTES_MAX = 4 << 20
"""Of the traits of groups, as they are stored, that stay decoded from one person to the next, rounded up to a group."""
HELD_BYTES = 200
"""Of a group there, whatever its traits."""
_GROUP_TRAITS = "SELECT id, traits FROM groups WHERE id IN "
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
    """Hold what is known of one person of a slice, until the next one is taken."""

    __slots__ = ("_person", "_slice", "_traits")

    def __init__(self, of: Slice, person: int) -> None:
        self._slice = of
        self._person = person
        self._traits: Mapping[str, object] | None = None

    def entries(self, feature: Feature) -> Sequence[Entry]:
        """Return the events of a feature, sorted by time and position."""
        return self._slice.entries[feature].get(self._person, _NOTHING)

    @property
    def traits(self) -> Mapping[str, object]:
        """Return the person's traits as plain JSON values."""
        if self._traits is None:  # decoded they take five times as much, so those of one person at a time are
            stored = self._slice.traits.get(self._person)
            self._traits = traits.plain(traits.together(stored)) if stored else _NO_TRAITS
        return self._traits

    @property
    def group_traits(self) -> Iterator[Mapping[str, object]]:
        """Yield the traits of each group the person belongs to."""
        return self._slice.traits_of_groups(self._person)

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
        self._features = ready.features
        self.entries: dict[Feature, dict[int, Sequence[Entry]]] = {}
        """Of the people who are judged now, and of some who follow them."""
        self._asks_traits, self._asks_groups = ready.asks_traits, ready.asks_groups
        self.traits: dict[int, list[bytes]] = {}
        """As they are stored, of the people who are judged now; groups likewise."""
        self._groups_of: dict[int, set[str]] = {}
        self._group_bytes: dict[str, int] = {}
        self._group_traits: dict[str, bytes | None] = {}
        self._decoded: dict[str, Mapping[str, object]] = {}
        """Traits of groups whose members follow each other, as plain JSON values."""
        self._decoded_bytes = 0
        self.values = {key: self._values(numbers[key]) for key in ready.needs if key in numbers}
        self.user_ids = dict(store.many("SELECT id, user_id FROM persons WHERE user_id IS NOT NULL AND id IN ", people))

    def facts(self) -> Iterator[tuple[int, PersonInSlice]]:
        """Yield everybody, with what is known until the next one is taken."""
        for some in self._parts_with_entries(self.people):
            for people in self._parts(some):
                self._load(people)
                for person in people:
                    yield person, PersonInSlice(self, person)

    def traits_of_groups(self, person: int) -> Iterator[Mapping[str, object]]:
        """Yield the traits of a person's groups as plain JSON values; of one who has very many, they are never in
        memory all at once."""
        lengths = self._group_bytes
        for piece in pieces([(group, lengths[group]) for group in self._groups_of.get(person, ())]):
            known = self._decoded
            stored = self._group_traits or dict(self._store.many(_GROUP_TRAITS, [g for g in piece if g not in known]))
            for group in piece:
                yield known[group] if group in known else self._decode(group, stored[group])

    def _decode(self, group: str, stored: bytes | None) -> Mapping[str, object]:
        found = traits.plain(traits.unpacked(stored))
        length = HELD_BYTES + self._group_bytes[group]
        if self._decoded_bytes + length > DECODED_BYTES_MAX:
            self._decoded, self._decoded_bytes = {}, 0
        self._decoded[group] = found
        self._decoded_bytes += length
        return found

    def _parts_with_entries(self, people: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield people in parts whose entries take no more than ``ENTRY_BYTES_PER_PART``, each with one person or more,
        once they are loaded. People share rows, so how long a part's history is shows when it is loaded."""
        first, count = 0, len(people)
        while first < len(people):
            some = people[first : first + count]
            if self._load_entries(some):
                yield some
                first += count
                count *= 2  # those who follow may have done far less
            else:
                count = len(some) // 2

    def _parts(self, people: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield people in parts whose traits take no more than ``BYTES_PER_PART``, each with one person at least."""
        if len(people) > 1 and self._bytes_of(people) > BYTES_PER_PART:
            yield from self._parts(people[: len(people) // 2])
            yield from self._parts(people[len(people) // 2 :])
        else:
            yield people

    def _bytes_of(self, people: Sequence[int]) -> int:
        found = 0
        if self._asks_traits:
            for query, column in self._trait_queries("length(traits)"):
                found += sum([length for _, length in self._rows(people, query, column)])
        if self._asks_groups:
            found += sum(self._bytes_of_groups(set().union(*self._find_groups(people).values())).values())
        return found

    def _load(self, people: Sequence[int]) -> None:
        self.traits, self._groups_of, self._group_bytes, self._group_traits = {}, {}, {}, {}
        if self._asks_traits:
            for query, column in self._trait_queries("traits"):
                for person, stored in self._rows(people, query, column):
                    self.traits.setdefault(person, []).append(stored)
        if self._asks_groups:
            found = self._find_groups(people)
            lengths = self._group_bytes = self._bytes_of_groups(set().union(*found.values()))
            self._groups_of = {person: groups & lengths.keys() for person, groups in found.items()}
            if sum(lengths.values()) <= BYTES_PER_PART:
                self._group_traits = dict(self._store.many(_GROUP_TRAITS, lengths))

    def _load_entries(self, people: Sequence[int]) -> bool:
        """Return whether the entries of some of these who follow each other are loaded: not where they are too much."""
        self.entries = {}
        first, last = people[0], people[-1]
        known = {number: person for number, person in self._known.items() if first <= person <= last}
        left = ENTRY_BYTES_PER_PART
        for feature in self._features:
            row = self._store.connection.execute(
                "SELECT id FROM features WHERE (type, name, condition, value) = (?, ?, ?, ?) AND purpose <= ?"
                " ORDER BY purpose DESC LIMIT 1",
                (*feature, self._purpose),
            ).fetchone()
            found: defaultdict[int, list[Entry]] = defaultdict(list)
            for chunk in chunks_of(self._store.connection) if row else ():
                for has_texts, some in self._in_chunk(row[0], chunk, first, last, known):
                    left -= ENTRY_BYTES * len(some)
                    if has_texts:
                        left -= sum([len(entry.value) for _, entry in some if isinstance(entry.value, str)])
                    if left < 0 and len(people) > 1:
                        return False
                    for number, entry in some:
                        if number in known:
                            found[known[number]].append(entry)
            self.entries[feature] = {
                person: entries if len(entries) == 1 else ordered(entries) for person, entries in found.items()
            }
        return True

    def _in_chunk(
        self, feature: int, chunk: Chunk, first: int, last: int, known: Mapping[int, int]
    ) -> Iterator[tuple[bool, list[tuple[int, Entry]]]]:
        """Yield the entries of a feature in each row, each with the number under which it was written: ``known`` ones,
        and others between the first person and the last. And whether texts are among their values."""
        query = (
            "SELECT bucket, entries, entry_values FROM history"
            f" WHERE feature = {feature:d} AND chunk = {chunk.number:d} AND bucket"
        )
        numbers: Iterable[int] = known
        if self._in_a_row:
            between = f"{query} BETWEEN {first >> chunk.shift:d} AND {last >> chunk.shift:d}"
            for _, *row in self._store.connection.execute(between):
                yield _has_texts(*row), unpack_between(first, last, *row)
            numbers = (number for number in known if not first <= number <= last)
        buckets = by_bucket(numbers, chunk.shift)
        for bucket, *row in self._store.many(f"{query} IN ", buckets):
            yield _has_texts(*row), unpack_of(buckets[bucket], *row)

    def _trait_queries(self, what: str) -> Iterator[tuple[str, str]]:
        """Yield the queries that find this of traits, for ``_rows``, each with the column of the person."""
        yield f"SELECT id, {what} FROM persons WHERE traits IS NOT NULL AND", "id"
        for chunk in trait_chunks_of(self._store.connection):
            yield f"SELECT person, {what} FROM new_traits WHERE chunk = {chunk:d} AND", "person"

    def _find_groups(self, people: Sequence[int]) -> dict[int, set[str]]:
        found: defaultdict[int, set[str]] = defaultdict(set)
        for person, group in self._rows(people, "SELECT person, group_id FROM memberships WHERE", "person"):
            found[person].add(group)
        return found

    def _bytes_of_groups(self, groups: Iterable[str]) -> dict[str, int]:
        return dict(self._store.many("SELECT id, coalesce(length(traits), 0) FROM groups WHERE id IN ", groups))

    def _rows(self, people: Sequence[int], query: str, column: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that goes on with the condition on the person, who is then the one merged into.
        ``people`` are some of these who follow each other."""
        first, last = people[0], people[-1]
        numbers = [number for number, person in self._known.items() if first <= person <= last]
        if self._in_a_row:
            for number, *row in self._store.connection.execute(f"{query} {column} BETWEEN {first:d} AND {last:d}"):
                person = self._known.get(number)
                if person is not None and first <= person <= last:
                    yield person, *row
            numbers = [number for number in numbers if not first <= number <= last]
        for number, *row in self._store.many(f"{query} {column} IN ", numbers):
            yield self._known[number], *row

    def _values(self, definition: int) -> dict[int, str]:
        query = f"SELECT person, value FROM members WHERE definition = {definition:d} AND person IN "
        return dict(self._store.many(query, self.people))


def _has_texts(_: bytes, values: bytes | None) -> bool:
    return values is not None and b'"' in values
