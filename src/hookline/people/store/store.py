"""The database of people and their history. Its one writer is the profiles role."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, suppress
from itertools import islice
from typing import Any

from hookline.database import connect
from hookline.database.connect import insert_many
from hookline.database.connection import Connection, overwriting, replacing, transaction
from hookline.database.location import DatabaseLocation, Schema
from hookline.database.open import open_profiles
from hookline.database.sqlite import engine
from hookline.people.store import identities, traits
from hookline.people.store.batch import ANONYMOUS, BUCKET_BITS, BUCKET_MASK, USER, Batch, Kind, ReadPosition
from hookline.people.store.history import ENTRY_BYTES, Chunks, people_of
from hookline.people.store.identities import any_long, key_of
from hookline.people.store.search import TRAITS, SearchIndex
from hookline.people.store.traits import TraitChunks
from hookline.telemetry.crashpoints import crash_point

LOG_PAGES = 4_000
"""Of the log before it is written back: in large steps, for the same pages change again and again; not in larger ones,
for collect waits for the disk meanwhile."""


class WriteBack:
    """Used from the thread of the one writer, which waits for it before it writes a batch; so the log begins anew."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._location = location
        self._threads: ThreadPoolExecutor | None = None
        self._running: Future[None] | None = None

    def begin(self, connection: Connection) -> None:
        """Begin once the log is long enough; no transaction is open."""
        if isinstance(self._location, Schema):
            return
        _, log, written = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
        if log - written >= LOG_PAGES:
            self._threads = self._threads or ThreadPoolExecutor(1, thread_name_prefix="profiles-write-back")
            self._running = self._threads.submit(self._run)

    def wait(self) -> None:
        """Wait until it is done."""
        if self._running is not None:
            self._running.result()
            self._running = None

    def close(self) -> None:
        """Let go of the thread; idempotent."""
        self.wait()
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _run(self) -> None:
        # What fails is tried again after the next batch, and by commits themselves where the log grows on.
        with suppress(engine.Error), closing(connect.connect(self._location, synchronous="NORMAL")) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


CACHE_KIB = 32 * 1024
LOG_PAGES_MAX = 4 * LOG_PAGES
"""Of the write-ahead log before a commit writes it back itself, which is otherwise done between batches."""
IDS_PER_QUERY = 500
GROUPS_NOTED_MAX = 10_000
"""Groups, rounded up to those of a batch, of which is known when their members were noted."""


class ProfileStore:
    """Used from one thread."""

    def __init__(self, location: DatabaseLocation, search_traits: Collection[str] = TRAITS) -> None:
        self._location = location
        self.connection = open_profiles(location)
        if connect.is_file(self.connection):
            self.connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
            self.connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES_MAX}")
            self.connection.execute("PRAGMA temp_store = MEMORY")
        # Whether what goes is about somebody who later asks to be forgotten is not known when it goes.
        connect.overwrite_deleted(self.connection)
        self.chunks = Chunks(self)
        self.trait_chunks = TraitChunks(self)
        self.search = SearchIndex(self, search_traits)
        self._write_back = WriteBack(location)
        query = (
            "SELECT coalesce(max(batch), 0) FROM (SELECT max(evaluated) AS batch FROM definitions"
            " UNION ALL SELECT max(sending_batch) FROM definitions UNION ALL SELECT max(batch) FROM touched) AS noted"
        )
        ((noted,),) = self.connection.execute(query).fetchall()
        self._noted = int(noted)
        """The number under which was noted last who was touched: everybody once, until a sync has looked."""
        self._is_looked_at = True
        self._groups_noted: dict[str, int] = {}
        """The number under which the members of groups were noted last, as they were then."""
        self.tracks = self.connection.execute("SELECT 1 FROM definitions").fetchone() is not None
        """Whether anybody asks who was touched."""

    def positions(self) -> dict[int, ReadPosition]:
        """Return how far each partition was read."""
        rows = self.connection.execute("SELECT partition, next_offset, missed FROM places")
        return {partition: ReadPosition(next_offset, missed) for partition, next_offset, missed in rows}

    def next_person(self) -> int:
        """Return the number of the next person that is met."""
        ((highest,),) = self.connection.execute("SELECT max(id) FROM persons").fetchall()
        return (highest or 0) + 1

    def person_count(self) -> int:
        """Return how many persons there are; those merged into others do not count."""
        query = "SELECT (SELECT count(*) FROM persons) - (SELECT count(*) FROM merged)"
        ((count,),) = self.connection.execute(query).fetchall()
        return int(count)

    def users(self, ids: Collection[str]) -> dict[str, int]:
        """Return the persons of user ids, as far as there are any."""
        return self._persons_of(USER, ids)

    def anonymous(self, ids: Collection[str]) -> dict[str, int]:
        """Return the persons of anonymous ids, as far as there are any."""
        return self._persons_of(ANONYMOUS, ids)

    def without_user_id(self, people: Iterable[int]) -> set[int]:
        """Those of these persons who have no user id."""
        rows = self.many("SELECT id FROM persons WHERE user_id IS NULL AND id IN ", people)
        return {person for (person,) in rows}

    def merged_into(self, person: int, count_max: int) -> int:
        """Return how many persons were merged into this one; no more than ``count_max`` are counted."""
        query = "SELECT count(*) FROM (SELECT 1 FROM merged WHERE into_person = ? LIMIT ?) AS merged_rows"
        ((count,),) = self.connection.execute(query, (person, count_max)).fetchall()
        return int(count)

    def owners_before(self, ids: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
        """Of anonymous ids that changed hands: up to which position they were whose, in order."""
        found: dict[str, list[tuple[int, int]]] = {}
        query = (
            "SELECT r.id, r.place, coalesce(m.into_person, r.person) FROM repointed r"
            " LEFT JOIN merged m ON m.person = r.person WHERE r.id IN "
        )
        by_key = {key_of(id): id for id in ids}
        for key, position, person in self.many(query, by_key):
            found.setdefault(by_key[key], []).append((position, person))
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
            self._groups_noted.clear()
            raise
        crash_point("profiles.after_commit")
        self._write_back.begin(self.connection)

    def has_written(self, batch: Batch) -> bool:
        """Return whether a batch was written although writing it failed: the answer to a commit may get lost."""
        positions = self.positions()
        return all(positions.get(partition) == position for partition, position in batch.positions.items())

    def transaction(self) -> AbstractContextManager[Callable[..., Any]]:
        """Run statements in one transaction; an exception undoes them all."""
        return transaction(self.connection)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._write_back.close()
        self.connection.close()

    def looked(self) -> int:
        """Return the number up to which who was touched is looked at now; whoever is from here on gets a higher one."""
        self._is_looked_at = True
        return self._noted

    def touch(self, people: Iterable[int]) -> None:
        """Note that these have to be looked at again; within a transaction."""
        self._next_number()
        rows = [(self._noted, each) for each in sorted(set(people))]
        insert_many(self.connection, "touched", ("batch", "person"), rows, "ON CONFLICT DO NOTHING")

    def _touch_members(self, groups: Iterable[str]) -> None:
        """Note the members of groups, in place of when that was done last: a short call may be about very many. Those
        who become members meanwhile are noted by that."""
        self._next_number()
        new = [group for group in groups if self._groups_noted.get(group) != self._noted]
        members: set[int] = set()
        before: defaultdict[int, set[int]] = defaultdict(set)
        for group, person in self.many("SELECT group_id, person FROM memberships WHERE group_id IN ", new):
            members.add(person)
            if group in self._groups_noted:
                before[self._groups_noted[group]].add(person)
        self.touch(members)
        for number, people in before.items():
            for _ in self.many(f"DELETE FROM touched WHERE batch = {number:d} AND person IN ", people):
                pass
        if len(self._groups_noted) > GROUPS_NOTED_MAX:
            self._groups_noted.clear()
        self._groups_noted.update(dict.fromkeys(new, self._noted))

    def _next_number(self) -> None:
        if self._is_looked_at:
            self._noted += 1
            self._is_looked_at = False

    def _persons_of(self, kind: Kind, ids: Collection[str]) -> dict[str, int]:
        query = (
            "SELECT i.id, coalesce(m.into_person, i.person) FROM identities i LEFT JOIN merged m ON m.person = i.person"
            f" WHERE i.kind = {kind:d} AND i.id IN "
        )
        if not any_long(ids):  # as nearly always
            return dict(self.many(query, ids))
        by_key = {key_of(id): id for id in ids}
        return {by_key[key]: person for key, person in self.many(query, by_key)}

    def _write(self, batch: Batch) -> None:
        many = self.connection.executemany
        insert_many(
            self.connection,
            "persons",
            ("id", "first_seen", "user_id"),
            [(person, first_seen, batch.user_ids.get(person)) for person, first_seen in batch.persons.items()],
        )
        many(
            "UPDATE persons SET user_id = ? WHERE id = ?",
            [(user_id, person) for person, user_id in batch.user_ids.items() if person not in batch.persons],
        )
        identities.remember(self.connection, batch.ids())
        insert_many(
            self.connection,
            "identities",
            ("kind", "id", "person"),
            sorted((kind, key_of(id), person) for (kind, id), person in batch.identities.items()),
            overwriting(("kind", "id"), ("person",)),
        )
        if self.tracks:  # who is known by another user id has been told nothing under it
            many(
                "UPDATE members SET sent = NULL WHERE person = ? AND definition IN (SELECT id FROM definitions)",
                [(person,) for person in batch.user_ids if person not in batch.persons],
            )
        many(  # who had it twice without an event of its own in between: all before are the first owner's
            "INSERT INTO repointed (id, place, person) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
            [(key_of(id), position, person) for id, position, person in batch.repointed],
        )
        self._write_merged(batch.merged_at_last())
        self._write_traits(batch)
        self._write_history(batch)
        if self.tracks:
            self.touch(_touched(batch))
        many(
            replacing("places", ("partition",), ("next_offset", "missed")),
            [(partition, *position) for partition, position in batch.positions.items()],
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
        self.search.add(batch.traits)
        groups = {key_of(group): more for group, more in batch.groups.items()}
        lengths = dict(self.many("SELECT id, coalesce(length(traits), 0) FROM groups WHERE id IN ", groups))
        self._write_groups((group, traits.merged(more)) for group, more in groups.items() if group not in lengths)
        for piece in traits.pieces(lengths.items()):
            known = dict(self.many("SELECT id, traits FROM groups WHERE id IN ", piece))
            self._write_groups((group, traits.merged(groups[group], known[group])) for group in piece)
        if self.tracks:
            self._touch_members(group for group, more in groups.items() if more)
        insert_many(
            self.connection,
            "memberships",
            ("group_id", "person", "since", "place"),
            [(key_of(group), person, *earliest) for (group, person), earliest in batch.memberships.items()],
            overwriting(("group_id", "person"), ("since", "place"))
            + " WHERE (excluded.since, excluded.place) < (memberships.since, memberships.place)",
        )

    def _write_groups(self, rows: Iterable[tuple[str, bytes]]) -> None:
        insert_many(self.connection, "groups", ("id", "traits"), list(rows), overwriting(("id",), ("traits",)))

    def _write_history(self, batch: Batch) -> None:
        if not batch.entries:
            return
        entries, values = batch.entries, batch.values
        count, value_bytes = sum(map(len, entries.values())) // ENTRY_BYTES, sum(map(len, values.values()))
        chunk = self.chunks.open_for(count, value_bytes, batch.shift)
        insert_many(
            self.connection,
            "history",
            ("feature", "chunk", "bucket", "entries", "entry_values"),
            [(key >> BUCKET_BITS, chunk, key & BUCKET_MASK, entries[key], values.get(key)) for key in sorted(entries)],
            _BEHIND_THE_ENTRIES,
        )

    def has_erased(self, key: tuple[int, int, int]) -> bool:
        """Return whether an erasure, by (request, asked ms, round), is done."""
        query = 'SELECT done_at FROM erasures WHERE request = ? AND asked_at = ? AND "round" = ?'
        row = self.connection.execute(query, key).fetchone()
        return row is not None and row[0] is not None

    def overwrite_gaps(self) -> bool:
        """Leave nothing of deleted rows in the file and its log; False when others were in the way for too long."""
        self._write_back.wait()
        return connect.overwrite_gaps(self._location)

    def many(self, query: str, keys: Iterable[Any], behind: str = "") -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query that ends with ``IN``, for any number of keys, and goes on with ``behind``; few
        different statements are prepared."""
        left = iter(keys)
        while some := list(islice(left, IDS_PER_QUERY)):
            marks = len(some) if len(some) < 8 else min(IDS_PER_QUERY, 1 << (len(some) - 1).bit_length())
            some += some[-1:] * (marks - len(some))
            yield from self.connection.execute(f"{query}({','.join('?' * marks)}){behind}", some)


def _touched(batch: Batch) -> set[int]:
    """Everybody for whom something may be different after a batch, those who were merged and those they went to."""
    people = set(batch.persons)
    for entries in batch.entries.values():
        people.update(people_of(entries))
    people.update(batch.user_ids, batch.traits, batch.merged, batch.merged.values())
    people.update(person for _, person in batch.memberships)
    return people


_BEHIND_THE_ENTRIES = (
    "ON CONFLICT (feature, chunk, bucket) DO UPDATE SET"
    " entries = CAST(history.entries || excluded.entries AS BLOB),"
    " entry_values = CAST(history.entry_values || excluded.entry_values AS BLOB)"
)
