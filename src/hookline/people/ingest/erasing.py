"""Takes people out of the database, as control's erasures ask: everything under all numbers of a person, and what their
events told of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
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
from hookline.people.store.traits import trait_chunks_of
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

Execute = Callable[..., Any]


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

    def erase(self, ids: Mapping[str, bool]) -> Erased:
        """Take out everybody who is known by one of the ids; ``ids`` says of each whether it is a user id too."""
        wanted = [key_of(id) for id in ids]
        users = [key_of(id) for id, is_user in ids.items() if is_user]
        people, sharing = self._who(wanted, frozenset(users))
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
        entries += self._others(sharing - people, groups)
        self._groups(groups)
        identities.forget(self._store.connection)
        return Erased(len(people), entries)

    def _who(self, keys: list[str], users: Collection[str]) -> tuple[set[int], set[int]]:
        """Return who goes, and who has, or had, one of the anonymous ids and is somebody else."""
        people: set[int] = set()
        sharing: set[int] = set()
        for kind, id, person, user_id in self._store.many(_WHO, keys):
            if kind != USER or id in users:
                (people if kind == USER or user_id is None else sharing).add(person)
        sharing.update(person for (person,) in self._store.many(_BEFORE, keys))
        return people, sharing

    def _history(self, numbers: list[int], goes: Callable[[int], bool]) -> int:
        """Take the entries of these numbers out of every chunk, those at the positions that go."""
        features = [feature for (feature,) in self._execute("SELECT id FROM features")]
        return sum(
            self._bucket_rows(feature, chunk, {bucket: buckets[bucket] for bucket in some}, goes)
            for chunk in chunks_of(self._store.connection)
            for buckets in [by_bucket(numbers, chunk.shift)]
            for first in range(0, len(buckets), BUCKETS_PER_QUERY)
            for some in [sorted(buckets)[first : first + BUCKETS_PER_QUERY]]
            for feature in features
        )

    def _bucket_rows(
        self, feature: int, chunk: Chunk, people: Mapping[int, list[int]], goes: Callable[[int], bool]
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
            erased += (len(entries) - len(left)) // ENTRY_BYTES
        return erased

    def _others(self, people: set[int], groups: set[str]) -> int:
        """Take what came from the erased positions out of people who stay; their groups are added to ``groups``."""
        numbers = [*people, *(each for each, _ in self._store.many(_MERGED_INTO, people))]
        erased = self._history(numbers, self._is_erased)
        for person, stored in list(self._store.many("SELECT id, traits FROM persons WHERE id IN ", numbers)):
            self._traits("persons", "id", person, stored)
        for chunk in trait_chunks_of(self._store.connection):
            where = f"chunk = {chunk:d} AND person"
            for person, stored in list(
                self._store.many(f"SELECT person, traits FROM new_traits WHERE {where} IN ", numbers)
            ):
                self._traits("new_traits", where, person, stored)
        self._store.search.renew(numbers)
        for group, person, position in list(self._store.many(_GROUPS, numbers)):
            groups.add(group)
            if self._is_erased(position):
                self._execute("DELETE FROM memberships WHERE group_id = ? AND person = ?", (group, person))
        self._store.touch(people)
        return erased

    def _groups(self, groups: set[str]) -> None:
        """Delete those without members; of the others the traits that came from the erased positions."""
        left = {group for (group,) in self._store.many(_WITH_MEMBERS, groups)}
        self._delete("groups", "id", groups - left)
        changed = [
            group
            for group, stored in list(self._store.many("SELECT id, traits FROM groups WHERE id IN ", left))
            if self._traits("groups", "id", group, stored)
        ]
        members = "SELECT DISTINCT person FROM memberships WHERE group_id IN "
        self._store.touch({person for (person,) in self._store.many(members, changed)})

    def _traits(self, table: str, where: str, id: int | str, stored: bytes | None) -> bool:
        known = traits.unpacked(stored)
        kept = {name: trait for name, trait in known.items() if not self._is_erased(trait.position)}
        if len(kept) == len(known):
            return False
        self._execute(f"UPDATE {table} SET traits = ? WHERE {where} = ?", (traits.packed(kept), id))
        return True

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
    "SELECT coalesce(m.into_person, r.person) FROM repointed r LEFT JOIN merged m ON m.person = r.person WHERE r.id IN "
)
_MERGED_INTO = "SELECT person, into_person FROM merged WHERE into_person IN "
_GROUPS = "SELECT group_id, person, place FROM memberships WHERE person IN "
_WITH_MEMBERS = "SELECT DISTINCT group_id FROM memberships WHERE group_id IN "


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

    def look(self) -> bool:
        """Look what is wanted; return whether there is something that was not at the last look."""
        try:
            wanted = self._feed.poll()
        except DatabaseNotMade:  # nobody could ask for one yet
            return False
        if wanted is None:
            return False
        self._waiting = [erasure for erasure in wanted if not self._store.has_erased(erasure.key)]
        return bool(self._waiting)

    def follow(self, now_ms: int) -> bool:
        """Carry out the oldest that is wanted; return whether there was one. One that fails, or whose bytes are still
        in the log because somebody reads there, is carried out again at the next look."""
        self.look()
        if not self._waiting:
            return False
        self._thread.run(lambda: self._carry_out(self._waiting[0], now_ms))
        return True

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.close()

    def _carry_out(self, erasure: Erasure, now_ms: int) -> None:
        self._erase(erasure)
        if self._store.overwrite_gaps():
            crash_point("profiles.erased_before_answer")
            query = 'UPDATE erasures SET done_at = ? WHERE request = ? AND asked_at = ? AND "round" = ?'
            self._store.connection.execute(query, (now_ms, *erasure.key))
            self._waiting.pop(0)
            logger().info("erased", request=erasure.request, round=erasure.round)

    def _erase(self, erasure: Erasure) -> None:
        ids = self._feed.ids(erasure.request)
        # Collect of this folder may hear of it later: nothing of these events is to be read from here on.
        for partition, positions in erasure.positions.items():
            self._journal.note_erased(partition, positions)
        with self._store.transaction() as execute:
            erased = Erasing(self._store, execute, erasure.positions).erase(ids)
            execute(
                'INSERT INTO erasures VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (request, asked_at, "round")'
                " DO UPDATE SET people = erasures.people + excluded.people,"
                " entries = erasures.entries + excluded.entries",
                (*erasure.key, *erased),
            )
        self._ingest.forget()


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
