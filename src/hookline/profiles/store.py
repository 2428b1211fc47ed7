"""profiles.db: people and their history. Its one writer is the profiles role.

A batch is one transaction with the places up to which the journal was read, so a restart applies nothing twice and
leaves nothing out. ``synchronous=NORMAL`` is enough: a power cut may take back the last batches as a whole, and the
journal still has the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from hookline.database.open import open_profiles
from hookline.profiles import traits
from hookline.profiles.batch import ANONYMOUS, BUCKET_BITS, BUCKET_MASK, USER, Batch, Kind, Place
from hookline.profiles.chunks import Chunks
from hookline.profiles.entries import ENTRY_BYTES, people_of
from hookline.profiles.trait_chunks import TraitChunks
from hookline.profiles.write_back import LOG_PAGES, WriteBack
from hookline.telemetry.crashpoints import crash_point

CACHE_KIB = 32 * 1024
LOG_PAGES_MAX = 4 * LOG_PAGES
"""Of the write-ahead log before a commit writes it back itself, which is otherwise done between batches."""
IDS_PER_QUERY = 500
ROWS_PER_INSERT = 50
"""Of the history; one statement for many rows costs two thirds."""


class ProfileStore:
    """Used from one thread."""

    def __init__(self, path: Path) -> None:
        self.connection = open_profiles(path)
        self.connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self.connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
        self.connection.execute("PRAGMA temp_store = MEMORY")
        # Whether what goes is about somebody who later asks to be forgotten is not known when it goes.
        self.connection.execute("PRAGMA secure_delete = ON")
        self.chunks = Chunks(self)
        self.trait_chunks = TraitChunks(self)
        self._write_back = WriteBack(path)
        query = (
            "SELECT max(coalesce(max(evaluated), 0), coalesce(max(sending_batch), 0),"
            " coalesce((SELECT max(batch) FROM touched), 0)) FROM definitions"
        )
        ((self.batch,),) = self.connection.execute(query).fetchall()
        """The number of the last batch that noted whom it touched."""
        self.tracks = self.connection.execute("SELECT 1 FROM definitions").fetchone() is not None
        """Whether anybody asks who was touched."""

    def places(self) -> dict[int, Place]:
        """How far each partition was read."""
        rows = self.connection.execute("SELECT partition, next_offset, missed FROM places")
        return {partition: Place(next_offset, missed) for partition, next_offset, missed in rows}

    def next_person(self) -> int:
        """The number of the next person that is met."""
        ((highest,),) = self.connection.execute("SELECT max(id) FROM persons").fetchall()
        return (highest or 0) + 1

    def person_count(self) -> int:
        """How many persons there are; those merged into others do not count."""
        query = "SELECT (SELECT count(*) FROM persons) - (SELECT count(*) FROM merged)"
        ((count,),) = self.connection.execute(query).fetchall()
        return int(count)

    def users(self, ids: Iterable[str]) -> dict[str, int]:
        """The persons of user ids, as far as there are any."""
        return self._persons_of(USER, ids)

    def anonymous(self, ids: Iterable[str]) -> dict[str, int]:
        """The persons of anonymous ids, as far as there are any."""
        return self._persons_of(ANONYMOUS, ids)

    def without_user_id(self, people: Iterable[int]) -> set[int]:
        """Those of these persons who have no user id."""
        rows = self.many("SELECT id FROM persons WHERE user_id IS NULL AND id IN ", people)
        return {person for (person,) in rows}

    def owners_before(self, ids: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
        """Of anonymous ids that changed hands: up to which place they were whose, in order."""
        found: dict[str, list[tuple[int, int]]] = {}
        query = (
            "SELECT r.id, r.place, coalesce(m.into_person, r.person) FROM repointed r"
            " LEFT JOIN merged m ON m.person = r.person WHERE r.id IN "
        )
        for id, place, person in self.many(query, ids):
            found.setdefault(id, []).append((place, person))
        for owners in found.values():
            owners.sort()
        return found

    def write(self, batch: Batch) -> None:
        """Write a batch in one transaction; on any error nothing of it is written."""
        self._write_back.wait()
        try:
            with self.transaction():
                self._write(batch)
                crash_point("profiles.before_commit")
        except BaseException:
            self.chunks.forget()
            raise
        crash_point("profiles.after_commit")
        self._write_back.begin(self.connection)

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., Any]]:
        """What runs statements in one transaction; an exception undoes them all."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection.execute
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._write_back.close()
        self.connection.close()

    def touch(self, people: Iterable[int]) -> None:
        """Note that these have to be looked at again; within a transaction."""
        numbers = sorted(people)
        if numbers:
            self.batch += 1
        for first in range(0, len(numbers), IDS_PER_QUERY):
            some = numbers[first : first + IDS_PER_QUERY]
            rows = ", ".join(f"({self.batch:d}, {person:d})" for person in some)
            self.connection.execute(f"INSERT OR IGNORE INTO touched (batch, person) VALUES {rows}")

    def _persons_of(self, kind: Kind, ids: Iterable[str]) -> dict[str, int]:
        query = (
            "SELECT i.id, coalesce(m.into_person, i.person) FROM identities i LEFT JOIN merged m ON m.person = i.person"
            f" WHERE i.kind = {kind:d} AND i.id IN "
        )
        return dict(self.many(query, ids))

    def _write(self, batch: Batch) -> None:
        many = self.connection.executemany
        many(
            "INSERT INTO persons (id, first_seen, user_id) VALUES (?, ?, ?)",
            [(person, first_seen, batch.user_ids.get(person)) for person, first_seen in batch.persons.items()],
        )
        many(
            "UPDATE persons SET user_id = ? WHERE id = ?",
            [(user_id, person) for person, user_id in batch.user_ids.items() if person not in batch.persons],
        )
        many(
            "INSERT INTO identities (kind, id, person) VALUES (?, ?, ?)"
            " ON CONFLICT (kind, id) DO UPDATE SET person = excluded.person",
            sorted((*identity, person) for identity, person in batch.identities.items()),
        )
        if self.tracks:  # who is known by another user id has been told nothing under it
            many(
                "UPDATE members SET sent = NULL WHERE person = ? AND definition IN (SELECT id FROM definitions)",
                [(person,) for person in batch.user_ids if person not in batch.persons],
            )
        many("INSERT OR REPLACE INTO repointed (id, place, person) VALUES (?, ?, ?)", batch.repointed)
        self._write_merged(batch.merged)
        self._write_traits(batch)
        self._write_history(batch)
        if self.tracks:
            self.touch(_touched(batch))
        many(
            "INSERT OR REPLACE INTO places (partition, next_offset, missed) VALUES (?, ?, ?)",
            [(partition, *place) for partition, place in batch.places.items()],
        )
        for (feature, partition), next_offset in batch.backfilled.items():
            values = (next_offset, feature, partition)
            self.connection.execute("UPDATE backfills SET next_offset = ? WHERE feature = ? AND partition = ?", values)
        if batch.backfilled:
            self.connection.execute("DELETE FROM backfills WHERE next_offset >= end_offset")

    def _write_merged(self, merged: dict[int, int]) -> None:
        # What was merged into a person that is merged now goes along, so that one look is always enough.
        self.connection.executemany(
            "UPDATE merged SET into_person = ? WHERE into_person = ?",
            [(into, person) for person, into in merged.items()],
        )
        self.connection.executemany("INSERT INTO merged (person, into_person) VALUES (?, ?)", merged.items())

    def _write_traits(self, batch: Batch) -> None:
        self.trait_chunks.add(batch.traits)
        known = dict(self.many("SELECT id, traits FROM groups WHERE id IN ", batch.groups))
        self.connection.executemany(
            "INSERT OR REPLACE INTO groups (id, traits) VALUES (?, ?)",
            [(group, traits.added(known.get(group), more)) for group, more in batch.groups.items()],
        )
        if self.tracks:
            query = "SELECT DISTINCT person FROM memberships WHERE group_id IN "
            self.touch(
                person for (person,) in self.many(query, [group for group, more in batch.groups.items() if more])
            )
        self.connection.executemany(
            "INSERT INTO memberships (group_id, person, since, place) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (group_id, person) DO UPDATE SET since = excluded.since, place = excluded.place"
            " WHERE (excluded.since, excluded.place) < (since, place)",
            [(*key, *earliest) for key, earliest in batch.memberships.items()],
        )

    def _write_history(self, batch: Batch) -> None:
        if not batch.entries:
            return
        chunk = self.chunks.open_for(sum(map(len, batch.entries.values())) // ENTRY_BYTES, batch.shift)
        entries, values, keys = batch.entries, batch.values, sorted(batch.entries)
        execute = self.connection.execute
        for first in range(0, len(keys), ROWS_PER_INSERT):
            row: list[Any] = []
            some = keys[first : first + ROWS_PER_INSERT]
            for key in some:
                row += (key >> BUCKET_BITS, chunk, key & BUCKET_MASK, entries[key], values.get(key))
            execute(_insert_history(len(some)), row)

    def has_erased(self, key: tuple[int, int, int]) -> bool:
        """Whether an erasure, by (request, asked ms, round), is done."""
        query = 'SELECT done_at FROM erasures WHERE request = ? AND asked_at = ? AND "round" = ?'
        row = self.connection.execute(query, key).fetchone()
        return row is not None and row[0] is not None

    def empty_log(self) -> bool:
        """Bring the write-ahead log into the file and cut it; False when a reader was in the way for too long."""
        self._write_back.wait()
        busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def many(self, query: str, keys: Iterable[Any], behind: str = "") -> Iterator[tuple[Any, ...]]:
        """The rows of a query that ends with ``IN``, for any number of keys, and goes on with ``behind``; few different
        statements are prepared."""
        left = iter(keys)
        while some := list(islice(left, IDS_PER_QUERY)):
            marks = len(some) if len(some) < 8 else min(IDS_PER_QUERY, 1 << (len(some) - 1).bit_length())
            some += [None] * (marks - len(some))
            yield from self.connection.execute(f"{query}({','.join('?' * marks)}){behind}", some)


def _touched(batch: Batch) -> set[int]:
    """Everybody for whom something may be different after a batch, those who were merged and those they went to."""
    people = set(batch.persons)
    for entries in batch.entries.values():
        people.update(people_of(entries))
    people.update(batch.user_ids, batch.traits, batch.merged, batch.merged.values())
    people.update(person for _, person in batch.memberships)
    return people


@cache
def _insert_history(rows: int) -> str:
    values = ", ".join(["(?, ?, ?, ?, ?)"] * rows)
    return (
        f"INSERT INTO history (feature, chunk, bucket, entries, entry_values) VALUES {values}"
        " ON CONFLICT (feature, chunk, bucket) DO UPDATE SET"
        " entries = CAST(entries || excluded.entries AS BLOB),"
        " entry_values = CAST(entry_values || excluded.entry_values AS BLOB)"
    )
