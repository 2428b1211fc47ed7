"""Takes people out of the database, as control's erasures ask: everything under all numbers of a person, and what their
events told of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from hookline.database.sqlite import DatabaseNotMade
from hookline.journal.port import JournalBackend
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.people.ingest.cpu_throttle import OrdinaryThread
from hookline.people.ingest.ingest import Ingest
from hookline.people.store import identities, traits
from hookline.people.store.batch import USER
from hookline.people.store.catalog import FeatureCatalog
from hookline.people.store.history import (
    ENTRIES_MAX,
    ENTRY_BYTES,
    ROW_BYTES,
    Chunk,
    by_bucket,
    chunks_of,
    to_keep,
    unpack,
    without,
    write,
)
from hookline.people.store.identities import key_of
from hookline.people.store.store import ProfileStore
from hookline.people.store.traits import Traits, trait_chunks_of
from hookline.privacy.identities import Identities
from hookline.privacy.shared_erased import Erasure, ErasureFeed
from hookline.replays.offset_set import OffsetSet
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger

EVERYTHING = (
    ("identities", "person"),
    ("repointed", "person"),
    ("memberships", "person"),
    ("touched", "person"),
    ("sent_before", "person"),
    ("preview_sample", "person"),
    ("merged", "person"),
    ("persons", "id"),
)
"""The tables that have rows of a person, and where in them the number stands; beside the history, and what follows."""
BY_DEFINITION = ("members", "membership_changes")
"""Those whose rows are found by the definition's number and the person's."""

BUCKETS_PER_QUERY = 64
"""Of a feature's history; a row of a large chunk has thousands of entries."""
SHARING_PER_STEP = 10_000
"""People who had an anonymous id of somebody who goes, in one transaction: half a second's work. A client that sends
the same id for everybody makes it all of them."""
SHARING_AT_ONCE = 500

Execute = Callable[..., Any]
ReadTo = tuple[str, int]
"""How far those who had an anonymous id were walked through: the id's key, and the position up to which they had it."""
BEGINNING: ReadTo = ("", -1)


class Erased(NamedTuple):
    """Count how many people, and entries of their history, were taken out."""

    people: int
    entries: int


class Erasing:
    """Works within one transaction; may be done twice."""

    def __init__(self, store: ProfileStore, execute: Execute, positions: Mapping[int, OffsetSet]) -> None:
        self._store = store
        self._execute = execute
        self._positions = positions

    def erase(self, ids: Mapping[str, bool], after: ReadTo | None = BEGINNING) -> Erased:
        """Take out everybody who is known by one of the ids; ``ids`` says of each whether it is a user id too.

        Those who had an anonymous id before are looked at from ``after`` on, None: all were.
        """
        shared_entries = 0
        while after is not None:
            more, after = self.look_at_sharing(ids, after)
            shared_entries += more
        wanted, users = _keys(ids)
        people, sharing = self._who(wanted, users)
        numbers = [*people, *(each for each, _ in self._store.many(_MERGED_INTO, people))]
        groups = {group for group, *_ in self._store.many(_GROUPS, numbers)}
        entries = self._history(numbers, lambda position: True)
        self._store.search.erase(numbers)
        for table, column in EVERYTHING:
            self._delete(table, column, numbers)
        for chunk in trait_chunks_of(self._store.connection):
            self._delete("new_traits", f"chunk = {chunk:d} AND person", numbers)
        for (definition,) in list(self._execute("SELECT id FROM definitions")):
            for table in BY_DEFINITION:
                self._delete(table, f"definition = {definition:d} AND person", numbers)
        self._delete("identities", "kind = 0 AND id", users)
        self._delete("identities", "kind = 1 AND id", wanted)
        self._delete("repointed", "id", wanted)
        entries += self._others(sharing - people)
        self._groups(groups)
        identities.forget(self._store.connection)
        return Erased(len(people), entries + shared_entries)

    def look_at_sharing(self, ids: Mapping[str, bool], after: ReadTo) -> tuple[int, ReadTo | None]:
        """Take what came from the erased positions out of the next ``SHARING_PER_STEP`` of those who had one of the
        anonymous ids before and stay; return how many entries went, and where to go on, None at the end.

        To be done before ``erase`` takes the ids, in the same transaction or in earlier ones: what is done twice, or
        has nobody to erase after it, takes nothing that is not erased in the journal.
        """
        wanted, users = _keys(ids)
        sharing: set[int] = set()
        left, next_after = SHARING_PER_STEP, None
        for key in sorted(each for each in wanted if each >= after[0]):
            position = after[1] if key == after[0] else BEGINNING[1]
            rows = self._execute(_BEFORE, (key, position, left)).fetchall()
            sharing.update(person for _, person in rows)
            left -= len(rows)
            if not left:
                next_after = key, rows[-1][0]
                break
        people, _ = self._who(wanted, users)
        return self._others(sharing - people), next_after

    def _who(self, keys: list[str], users: Collection[str]) -> tuple[set[int], set[int]]:
        """Return who goes, and who has one of the anonymous ids and is somebody else."""
        people: set[int] = set()
        sharing: set[int] = set()
        for kind, id, person, user_id in self._store.many(_WHO, keys):
            if kind != USER or id in users:
                (people if kind == USER or user_id is None else sharing).add(person)
        return people, sharing

    def _history(self, numbers: list[int], goes: Callable[[int], bool], changed: set[int] | None = None) -> int:
        """Take the entries of these numbers out of every chunk, those at the positions that go; ``changed`` gets those
        numbers in whose rows there were some."""
        features = [feature for (feature,) in self._execute("SELECT id FROM features")]
        return sum(
            self._bucket_rows(feature, chunk, {bucket: buckets[bucket] for bucket in some}, goes, changed)
            for chunk in chunks_of(self._store.connection)
            for buckets in [by_bucket(numbers, chunk.shift)]
            for first in range(0, len(buckets), BUCKETS_PER_QUERY)
            for some in [sorted(buckets)[first : first + BUCKETS_PER_QUERY]]
            for feature in features
        )

    def _bucket_rows(
        self,
        feature: int,
        chunk: Chunk,
        people: Mapping[int, list[int]],
        goes: Callable[[int], bool],
        changed: set[int] | None,
    ) -> int:
        """Return the same in the rows of some buckets, each with the people whose entries may go."""
        rows = f"FROM history WHERE feature = {feature:d} AND chunk = {chunk.number:d} AND bucket"
        erased = 0
        for bucket, entries, values in list(
            self._store.many(f"SELECT bucket, entries, entry_values {rows} IN ", people)
        ):
            left, left_values = without(people[bucket], entries, values, goes)
            if left and len(left) < len(entries):
                query = f"UPDATE history SET entries = ?, entry_values = ? {rows.removeprefix('FROM history ')} = ?"
                self._execute(query, (left, left_values, bucket))
            elif not left:
                self._execute(f"DELETE {rows} = ?", (bucket,))
            if changed is not None and len(left) < len(entries):
                changed.update(people[bucket])
            erased += (len(entries) - len(left)) // ENTRY_BYTES
        return erased

    def _others(self, people: Collection[int]) -> int:
        """Take what came from the erased positions out of people who stay, and out of their groups."""
        left, erased = iter(sorted(people)), 0
        while some := list(islice(left, SHARING_AT_ONCE)):
            erased += self._some_others(some)
        return erased

    def _some_others(self, people: list[int]) -> int:
        person_of = {each: each for each in people} | dict(self._store.many(_MERGED_INTO, people))
        changed: set[int] = set()
        erased = self._history(list(person_of), self._is_erased, changed)
        with_other_traits = set(self._without_erased("persons", "id", "id", person_of))
        for chunk in trait_chunks_of(self._store.connection):
            where = f"chunk = {chunk:d} AND person"
            with_other_traits.update(self._without_erased("new_traits", "person", where, person_of))
        self._store.search.renew(
            person_of, lambda person, held: person in with_other_traits or self._kept(held) is not None
        )
        groups: set[str] = set()
        for group, person, position in list(self._store.many(_GROUPS, person_of)):
            groups.add(group)
            if self._is_erased(position):
                self._execute("DELETE FROM memberships WHERE group_id = ? AND person = ?", (group, person))
                changed.add(person)
        self._groups(groups)
        self._store.touch(person_of[each] for each in changed | with_other_traits)
        return erased

    def _groups(self, groups: set[str]) -> None:
        """Delete those without members; of the others the traits that came from the erased positions."""
        left = {group for (group,) in self._store.many(_WITH_MEMBERS, groups)}
        self._delete("groups", "id", groups - left)
        changed = self._without_erased("groups", "id", "id", left)
        members = self._store.many("SELECT person FROM memberships WHERE group_id IN ", changed)
        while some := list(islice(members, SHARING_PER_STEP)):  # a group may have everybody
            self._store.touch(person for (person,) in some)

    def _without_erased(self, table: str, key: str, where: str, ids: Iterable[Any]) -> list[Any]:
        """Take the traits of these rows that came from the erased positions; return which rows had some."""
        rows = self._store.many(f"SELECT {key}, traits FROM {table} WHERE {where} IN ", ids)
        known = ((id, traits.unpacked(stored)) for id, stored in rows)
        changed = [(traits.packed(kept), id) for id, held in known if (kept := self._kept(held)) is not None]
        self._store.connection.executemany(f"UPDATE {table} SET traits = ? WHERE {where} = ?", changed)
        return [id for _, id in changed]

    def _kept(self, known: Traits) -> Traits | None:
        """Return the traits without those that came from the erased positions; None when there are none of these."""
        kept = {name: trait for name, trait in known.items() if not self._is_erased(trait.position)}
        return kept if len(kept) < len(known) else None

    def _delete(self, table: str, condition: str, keys: Iterable[Any]) -> None:
        for _ in self._store.many(f"DELETE FROM {table} WHERE {condition} IN ", keys):
            pass

    def _is_erased(self, position: int) -> bool:
        positions = self._positions.get(position >> POSITION_SHIFT)
        return positions is not None and position & OFFSET_MASK in positions


_WHO = (
    "SELECT i.kind, i.id, p.id, p.user_id FROM identities i LEFT JOIN merged m ON m.person = i.person"
    " JOIN persons p ON p.id = coalesce(m.into_person, i.person) WHERE i.id IN "
)
_BEFORE = (
    "SELECT r.place, coalesce(m.into_person, r.person) FROM repointed r LEFT JOIN merged m ON m.person = r.person"
    " WHERE r.id = ? AND r.place > ? ORDER BY r.place LIMIT ?"
)
_MERGED_INTO = "SELECT person, into_person FROM merged WHERE into_person IN "
_GROUPS = "SELECT group_id, person, place FROM memberships WHERE person IN "
_WITH_MEMBERS = "SELECT id FROM groups g WHERE EXISTS (SELECT 1 FROM memberships WHERE group_id = g.id) AND id IN "


def _keys(ids: Mapping[str, bool]) -> tuple[list[str], frozenset[str]]:
    """Return the keys of all ids, and of those that are user ids too."""
    return [key_of(id) for id in ids], frozenset(key_of(id) for id, is_user in ids.items() if is_user)


ERASURES_AT_ONCE = 100
"""After so many the gaps of the file are overwritten, also when others wait: that reads the whole file."""


class _Walk(NamedTuple):
    """An erasure whose people share an anonymous id with many others, who are looked at in several transactions."""

    key: tuple[int, int, int]
    ids: Identities
    after: ReadTo


class Erasures:
    """Used from the thread of the one writer, which may have stepped back before everybody else; people are erased at
    the priority it had when this was made."""

    def __init__(self, store: ProfileStore, ingest: Ingest, feed: ErasureFeed, journal: JournalBackend) -> None:
        self._thread = OrdinaryThread()
        self._store = store
        self._ingest = ingest
        self._feed = feed
        self._journal = journal
        self._waiting: list[Erasure] = []
        self._walk: _Walk | None = None
        self._erased: list[Erasure] = []
        """Those whose rows are gone, though the file may still hold bytes of them."""

    @property
    def is_under_way(self) -> bool:
        """Return whether an erasure has begun that goes on with the next step."""
        return self._walk is not None

    def look(self) -> bool:
        """Look what is wanted; return whether there is something that was not at the last look."""
        try:
            wanted = self._feed.poll()
        except DatabaseNotMade:  # nobody could ask for one yet
            return False
        if wanted is None:
            return False
        keys = {erasure.key for erasure in wanted}
        self._erased = [erasure for erasure in self._erased if erasure.key in keys]
        erased = {erasure.key for erasure in self._erased}
        self._waiting = [each for each in wanted if each.key not in erased and not self._store.has_erased(each.key)]
        return bool(self._waiting)

    def follow(self, now_ms: int) -> bool:
        """Take a step of the oldest that is wanted, and answer those that are done; return whether one came further
        that others should wait for. One that fails is carried out again at the next step. While somebody reads for
        long, or has an anonymous id that very many have, the role goes on with its other work meanwhile."""
        self.look()
        return bool(self._waiting or self._erased) and self._thread.run(lambda: self._step(now_ms))

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.close()

    def _step(self, now_ms: int) -> bool:
        if self._waiting and len(self._erased) < ERASURES_AT_ONCE:
            if not self._erase(self._waiting[0]):
                return False
            self._erased.append(self._waiting.pop(0))
            if self._waiting and len(self._erased) < ERASURES_AT_ONCE:
                return True
        return self._answer(now_ms)

    def _answer(self, now_ms: int) -> bool:
        """Say what is erased, once no byte of it is left in the files; return whether that is so."""
        if not self._store.overwrite_gaps():
            return False
        crash_point("profiles.erased_before_answer")
        while self._erased:
            erasure = self._erased[0]
            query = 'UPDATE erasures SET done_at = ? WHERE request = ? AND asked_at = ? AND "round" = ?'
            self._store.connection.execute(query, (now_ms, *erasure.key))
            self._erased.pop(0)
            logger().info("erased", request=erasure.request, round=erasure.round)
        return True

    def _erase(self, erasure: Erasure) -> bool:
        """Erase somebody, or look at some more of those who share an id with them; return whether it is done."""
        walk = self._walk
        begins = walk is None or walk.key != erasure.key
        if walk is None or begins:
            walk = _Walk(erasure.key, self._feed.ids(erasure.request), BEGINNING)
            # Collect of this folder may hear of it later: nothing of these events is to be read from here on.
            for partition, positions in erasure.positions.items():
                self._journal.note_erased(partition, positions)
        with self._store.transaction() as execute:
            erasing = Erasing(self._store, execute, erasure.positions)
            entries, after = erasing.look_at_sharing(walk.ids, walk.after)
            erased = Erased(0, 0) if after is not None else erasing.erase(walk.ids, None)
            execute(
                'INSERT INTO erasures VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (request, asked_at, "round")'
                " DO UPDATE SET people = erasures.people + excluded.people,"
                " entries = erasures.entries + excluded.entries",
                (*erasure.key, erased.people, erased.entries + entries),
            )
        self._walk = None if after is None else walk._replace(after=after)
        if begins or after is None:  # what was read before may be of erased events
            self._ingest.forget()
        return after is None


ROWS_PER_STEP = 2_000
BYTES_PER_STEP = 2 << 20
"""Of entries and values that are looked at in one step, rounded up to a row."""
PASS_MS = 6 * 3_600_000
"""From the start of one pass to that of the next."""

_Key = tuple[int, int, int]
"""Feature, chunk and bucket of a row."""


class Trim:
    """Used from the thread of the one writer, while there is nothing else to do."""

    def __init__(self, store: ProfileStore, registry: FeatureCatalog) -> None:
        self._store = store
        self._registry = registry
        self._key: _Key | None = None
        self._next_pass_ms = 0

    def step(self, now_ms: int) -> bool:
        """Look at some rows; return whether a pass is under way."""
        if self._key is None:
            if now_ms < self._next_pass_ms:
                return False
            self._next_pass_ms = now_ms + PASS_MS
            self._key = (0, 0, 0)
        last = self._last_of_step(self._key)
        if last is None:
            self._key = None
            return False
        query = (
            "SELECT feature, chunk, bucket, entries, entry_values FROM history"
            " WHERE (feature, chunk, bucket) > (?, ?, ?) AND (feature, chunk, bucket) <= (?, ?, ?)"
        )
        rows = self._store.connection.execute(query, (*self._key, *last)).fetchall()
        windows = self._registry.windows()
        changed = [change for row in rows if (change := _trimmed(row, windows, now_ms)) is not None]
        if changed:
            self._write(changed)
        self._key = last
        return True

    def _last_of_step(self, key: _Key) -> _Key | None:
        """Return the last row behind a key that is looked at in this step, None when there is none left."""
        query = (
            f"SELECT feature, chunk, bucket, {ROW_BYTES} FROM history"
            " WHERE (feature, chunk, bucket) > (?, ?, ?) ORDER BY feature, chunk, bucket LIMIT ?"
        )
        last, left = None, BYTES_PER_STEP
        for *row, length in self._store.connection.execute(query, (*key, ROWS_PER_STEP)):
            last = (row[0], row[1], row[2])
            left -= length
            if left <= 0:
                break
        return last

    def _write(self, changed: list[tuple[bytes, bytes | None, int, int, int]]) -> None:
        with self._store.transaction():
            many = self._store.connection.executemany
            many(
                "UPDATE history SET entries = ?, entry_values = ? WHERE feature = ? AND chunk = ? AND bucket = ?",
                [change for change in changed if change[0]],
            )
            many(
                "DELETE FROM history WHERE feature = ? AND chunk = ? AND bucket = ?",
                [change[2:] for change in changed if not change[0]],
            )


def _trimmed(
    row: tuple[int, int, int, bytes, bytes | None], windows: dict[int, int | None], now_ms: int
) -> tuple[bytes, bytes | None, int, int, int] | None:
    """Return the row as it should be, None when it is so already."""
    feature, chunk, bucket, entries, values = row
    window_ms = windows.get(feature)
    if window_ms is None and len(entries) <= ENTRIES_MAX * ENTRY_BYTES:
        return None
    known = unpack(entries, values)
    left = to_keep(known, None if window_ms is None else now_ms - window_ms)
    if len(left) == len(known):
        return None
    return *write(left, values is not None), feature, chunk, bucket
