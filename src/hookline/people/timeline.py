"""What a person did, newest first by when it was received: found by the index of users, never by reading everything."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.events.untyped import text
from hookline.index.lookup import Stretch, newest_of
from hookline.journal.port import SearchableReader
from hookline.journal.record import Record
from hookline.outcomes.progress import POSITION_SHIFT
from hookline.people.ingest.extraction import view_of
from hookline.people.store.identities import id_of, key_of
from hookline.people.store.people import IDS_MAX, Identity, Person

EVER = (0, 1 << 63)
IDS_PER_QUERY = 500

Stretches = tuple[tuple[int, int], ...]
"""Of positions, each ``[first, until)``, in order."""


class Ownership(NamedTuple):
    """A person's user ids, and of each anonymous id the stretches of positions that are theirs."""

    users: frozenset[str]
    anonymous: Mapping[str, Stretches]

    @property
    def ids(self) -> frozenset[str]:
        """Return every id that a record of the person may be found by."""
        return self.users.union(self.anonymous)

    def has(self, position: int, record: Record) -> bool:
        """Return whether a record that was found by one of the ids is the person's."""
        doing = view_of(record)
        user_id = text(doing.userId)
        if user_id:
            return user_id in self.users
        stretches = self.anonymous.get(text(doing.anonymousId), ())
        begun = bisect_right(stretches, position, key=itemgetter(0))
        return begun > 0 and position < stretches[begun - 1][1]


def of_user_id(user_id: str) -> Ownership:
    """Of somebody of whom nothing is known but the user id."""
    return Ownership(frozenset((user_id,)), {})


def of_anonymous_id(anonymous_id: str) -> Ownership:
    """Of somebody of whom nothing is known but the anonymous id."""
    return Ownership(frozenset(), {anonymous_id: (EVER,)})


def of_person(connection: Connection, person: Person, asked: Identity | None = None) -> Ownership:
    """Of a person, devices that were handed on to others included: of either at most ``IDS_MAX``, and the id that was
    asked for."""
    identities = {*person.identities(), *((asked,) if asked is not None else ())}
    held = {each.id for each in identities if each.kind == "anonymous"}
    marks = ",".join(map(str, person.numbers))
    query = f"SELECT DISTINCT id FROM repointed WHERE person IN ({marks}) ORDER BY id LIMIT ?"
    handed_on = {id_of(connection, key) for (key,) in connection.execute(query, (IDS_MAX,)).fetchall()}
    return Ownership(
        frozenset(each.id for each in identities if each.kind == "user"),
        _stretches(connection, held | handed_on, set(person.numbers), held),
    )


def _stretches(
    connection: Connection, ids: Collection[str], numbers: Collection[int], held: Collection[str]
) -> dict[str, Stretches]:
    """Return the stretches of anonymous ids that were these numbers', and still are of the ``held`` ones."""
    by_key = {key_of(id): id for id in ids}
    found: dict[str, list[tuple[int, int]]] = {id: [] for id in ids}
    ends = dict.fromkeys(ids, 0)
    left = iter(by_key)
    while some := list(islice(left, IDS_PER_QUERY)):
        marks = ",".join("?" * len(some))
        query = f"SELECT id, place, person FROM repointed WHERE id IN ({marks}) ORDER BY place"
        for key, until, person in connection.execute(query, some):
            id = by_key[key]
            if person in numbers:
                found[id].append((ends[id], until))
            ends[id] = until
    for id in held:
        found[id].append((ends[id], EVER[1]))
    return {id: tuple(stretches) for id, stretches in found.items()}


class Stored(NamedTuple):
    """A record and where it lies."""

    partition: int
    offset: int
    record: Record


class TimelinePage(NamedTuple):
    """Some records; ``before`` is where each partition goes on, empty when everything was looked at."""

    found: list[Stored]
    before: dict[int, int]


class Timeline:
    """Reads with a journal of the caller's; ``index_path`` is the folder of all partitions."""

    def __init__(
        self, journal: SearchableReader, index_path: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._journal = journal
        self._index_path = index_path
        self._clock = clock

    def page(
        self, owned: Ownership, limit: int, seconds: float, before: Mapping[int, int] | None = None
    ) -> TimelinePage:
        """At most ``limit`` records, older than ``before`` (offsets by partition; by default from every end)."""
        journal, deadline = self._journal, self._clock() + seconds
        starts = {each: journal.end(each) for each in journal.partitions()} if before is None else before
        searches = [_Search(journal, self._index_path, owned, *each) for each in starts.items()]
        found: list[Stored] = []
        while len(found) < limit:
            for search in searches:
                while search.goes_on and self._clock() < deadline:
                    search.step()
            if any(search.goes_on for search in searches):  # out of time: who is the newest is not known
                break
            ready = [search.newest for search in searches if search.newest is not None]
            if not ready:
                break
            newest = max(ready, key=lambda stored: stored.record.received_at)
            found.append(newest)
            next(search for search in searches if search.newest is newest).take()
        return TimelinePage(found, {each.partition: each.before for each in searches if not each.is_over})


class _Search:
    """One partition from ``before`` backwards. ``newest`` is the record that was found and not taken yet."""

    def __init__(
        self, journal: SearchableReader, index_path: Path, owned: Ownership, partition: int, before: int
    ) -> None:
        self.partition = partition
        self.before = before
        self.newest: Stored | None = None
        self._journal = journal
        self._owned = owned
        self._stretches = newest_of(journal, index_path, partition, owned.ids, before)
        self._candidates: Iterator[tuple[int, Record | None]] = iter(())
        self._stretch: Stretch | None = None
        self._ended = False

    @property
    def goes_on(self) -> bool:
        """Return whether there is something to look through before more is known."""
        return self.newest is None and not self._ended

    @property
    def is_over(self) -> bool:
        """Return whether everything was found and taken."""
        return self.newest is None and self._ended

    def step(self) -> None:
        """Look at one record, or begin the next stretch."""
        candidate = next(self._candidates, None)
        if candidate is not None:
            offset, record = candidate
            self.before = offset
            record = self._theirs(offset, record)
            if record is not None:
                self.before = offset + 1
                self.newest = Stored(self.partition, offset, record)
            return
        if self._stretch is not None:
            self.before = self._stretch.first_offset
        self._stretch = next(self._stretches, None)
        self._candidates = iter(self._stretch.found if self._stretch is not None else ())
        self._ended = self._stretch is None

    def take(self) -> None:
        """The newest one was taken."""
        assert self.newest is not None, "something was found"
        self.before = self.newest.offset
        self.newest = None

    def _theirs(self, offset: int, record: Record | None) -> Record | None:
        record = record or self._journal.get(self.partition, offset)
        if record is None or record.erased or record.origin == "deletion":
            return None
        return record if self._owned.has(self.partition << POSITION_SHIFT | offset, record) else None
