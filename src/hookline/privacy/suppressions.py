"""Keep the suppression list in ``privacy.db`` (control alone writes it), and answer from it whether a person's events
are stored, as collect asks for every event, and profiles before it sends anything about somebody.

A list that cannot be read is not "nobody": DatabaseUnreadable says so, before control has made the database, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from hookline.database.connect import Shared
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.read_only import ChangeFeed, Followed, counted
from hookline.database.sqlite import DatabaseUnreadable, OperationalError
from hookline.privacy import id_digest
from hookline.privacy.id_digest import IdDigests, PrivacyKeyError
from hookline.privacy.shared_erased import NUMBER
from hookline.remembered import Remembered

REMEMBERED_BYTES_MAX = 4 * 1024 * 1024
"""Ids whose answer is kept, so that a busy user costs one look: some 20,000 of them."""
IDS_PER_QUERY = 500
REMEMBERED_ID_BYTES_MAX = 1_024
"""A longer id, which nobody's is, is hashed each time."""


class Suppressed:
    """Answers for ids of either kind; never empty, because where nobody is suppressed nobody is asked about."""

    def __init__(self, digests: Iterable[bytes], of: IdDigests) -> None:
        self.digests = frozenset(digests)
        self._of = of
        self._answers = Remembered(self._look_up, REMEMBERED_BYTES_MAX, REMEMBERED_ID_BYTES_MAX)
        self._anonymous = Remembered(self._look_up_anonymous, REMEMBERED_BYTES_MAX, REMEMBERED_ID_BYTES_MAX)

    @classmethod
    def of(cls, digests: Iterable[bytes], key: bytes) -> Suppressed:
        """Those with these hashes, by the key they were made with."""
        return cls(digests, IdDigests(key))

    @property
    def key(self) -> bytes:
        """Return what the hashes were made with."""
        return self._of.key

    def __len__(self) -> int:
        return len(self.digests)

    def __contains__(self, id: str) -> bool:
        return self._answers[id]

    def has_anonymous(self, id: str) -> bool:
        """Return whether somebody is suppressed by this id as an anonymous one; ``in`` says so of a user id."""
        return self._anonymous[id]

    def _look_up(self, id: str) -> bool:
        return self._of.of(id) in self.digests

    def _look_up_anonymous(self, id: str) -> bool:
        return self._of.of(id) in self.digests or self._of.of_anonymous(id) in self.digests


CHANGES = "suppressions"
"""The list's name in ``privacy_changes``."""


class SuppressionFeed(ChangeFeed[tuple[Suppressed, ...]]):
    """A view of the list; for one thread. The key of its hashes is in the data folder, or in PostgreSQL."""

    def __init__(self, location: DatabaseLocation, data_path: Path) -> None:
        super().__init__(location, "privacy", counted(NUMBER, CHANGES), self._list)
        self._data_path = data_path
        self.current: Suppressed | None = None
        """Who is suppressed as of the last ``poll`` that could look; None for nobody."""

    def changed(self) -> bool:
        """Look; return whether the list changed. Raise as ``poll`` does."""
        found = self.poll()
        if found is not None:
            self.current = next(iter(found), None)
        return found is not None

    def _list(self, connection: Connection) -> tuple[Suppressed, ...]:
        digests = {digest for (digest,) in connection.execute("SELECT digest FROM suppressions")}
        return (Suppressed(digests, _hashes(self._location, connection, self._data_path)),) if digests else ()


_BEING_ERASED = "r.state IN ('looking', 'erasing', 'clearing') AND r.action <> 'suppress'"


class SuppressionLookup(Followed):
    """Looks ids up in the list where it lies, for a role that asks for few of them at a time; for one thread."""

    def __init__(self, location: DatabaseLocation, data_path: Path) -> None:
        super().__init__(location, "privacy")
        self._data_path = data_path

    def withheld(self, ids: Iterable[str]) -> set[str]:
        """Return of which of these user ids nothing is to be sent: they are on the list now, or a request that names
        them is erasing what is stored. Raise DatabaseUnreadable, or DatabaseAway."""
        anybody = (
            f"SELECT 1 FROM suppressions UNION ALL SELECT 1 FROM deletion_requests r WHERE {_BEING_ERASED} LIMIT 1"
        )
        with self.reading() as connection:
            if connection.execute(anybody).fetchone() is None:
                return set()
            of = _hashes(self._location, connection, self._data_path)
            by_digest = {of.of(id): id for id in ids}
            found: set[str] = set()
            left = iter(by_digest)
            while some := list(islice(left, IDS_PER_QUERY)):
                marks = ",".join("?" * len(some))
                query = (
                    f"SELECT digest FROM suppressions WHERE digest IN ({marks})"
                    " UNION SELECT p.digest FROM deletion_requests r JOIN deletion_people p ON p.request = r.id"
                    f" WHERE {_BEING_ERASED} AND p.digest IN ({marks})"
                )
                found.update(by_digest[bytes(digest)] for (digest,) in connection.execute(query, some * 2))
            return found


def _hashes(location: DatabaseLocation, connection: Connection, data_path: Path) -> IdDigests:
    try:
        return id_digest.read_shared(location, connection, data_path)
    except (OSError, PrivacyKeyError) as error:
        raise DatabaseUnreadable(f"whose hashes are on the suppression list cannot be told: {error}") from error


class LogNotEmptied(Exception):
    """Deleted rows stand in a write-ahead log still, because somebody read for too long; it is to be tried again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"the write-ahead log of {name} still holds deleted rows, because it is being read; tried again"
        )


class PrivacyStore:
    """The shared connection, for whoever keeps a table of it."""

    def __init__(self, location: DatabaseLocation) -> None:
        ensure(location, "privacy")
        self.database = Shared(location)
        self._is_emptied = False
        # A process that was killed before it emptied the log has left deleted rows in it.
        self.empty_log_again()

    @contextmanager
    def change(self, name: str) -> Iterator[Callable[..., Any]]:
        """A transaction that readers of the thing with this name learn of."""
        with self.database.transaction() as execute:
            yield execute
            # The clock, not a count: a database that went back in time does not have the last numbers, and whoever
            # has seen one of them would take it for what was read already.
            execute(
                "INSERT INTO privacy_changes (name, next) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET next ="
                " CASE WHEN privacy_changes.next < excluded.next THEN excluded.next ELSE privacy_changes.next + 1 END",
                (name, time.time_ns() // 1_000_000),
            )

    def empty_log(self) -> None:
        """Bring the write-ahead log into the file and cut it: deleted rows stand there still. Raise LogNotEmptied."""
        self._is_emptied = False
        self._is_emptied = self.database.overwrite_gaps()
        if not self._is_emptied:
            raise LogNotEmptied("privacy.db")

    def empty_log_again(self) -> None:
        """Do so if it did not succeed the last time; may not succeed either."""
        if not self._is_emptied:
            with suppress(OperationalError):
                self._is_emptied = self.database.overwrite_gaps()

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self.database.close()


SUPPRESSED_MAX = 1_000_000
"""Ids on the list; collect holds them in memory, about 100 bytes each."""


class Suppression(NamedTuple):
    """One id on the list: since when, and who wanted it, by which request if by one."""

    digest: bytes
    at_ms: int
    author: str
    request: int | None


class TooManySuppressed(Exception):
    """The list is full."""

    code = "too_many_suppressed"

    def __init__(self) -> None:
        super().__init__(f"at most {SUPPRESSED_MAX:,} ids can be suppressed; lift some first")


class Suppressions:
    """Adds, lifts and lists; safe to share between threads."""

    def __init__(
        self, store: PrivacyStore, of: IdDigests, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    ) -> None:
        self._store = store
        self._of = of
        self._now_ms = now_ms

    def add(self, execute: Callable[..., Any], ids: Mapping[str, bool], author: str, request: int) -> None:
        """Suppress ids in a transaction of the caller's, who tells of the change; raise TooManySuppressed."""
        now_ms = self._now_ms()
        for id, is_user in ids.items():
            execute(
                "INSERT INTO suppressions (digest, at, author, request) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (self._of.of(id) if is_user else self._of.of_anonymous(id), now_ms, author, request),
            )
        ((count,),) = execute("SELECT count(*) FROM suppressions").fetchall()
        if count > SUPPRESSED_MAX:
            raise TooManySuppressed

    def lift(self, digests: Iterable[bytes]) -> int:
        """Store the events of these again from now on; return how many were on the list."""
        return self._lift((digest,) for digest in digests)

    def lift_ids(self, ids: Iterable[str]) -> int:
        """Do the same for ids, those that count as an anonymous id alone included; return how many were on the list."""
        return self._lift((self._of.of(id), self._of.of_anonymous(id)) for id in ids)

    def _lift(self, each_digests: Iterable[tuple[bytes, ...]]) -> int:
        lifted = 0
        with self._store.change(CHANGES) as execute:
            for digests in each_digests:
                marks = ",".join("?" * len(digests))
                lifted += execute(f"DELETE FROM suppressions WHERE digest IN ({marks})", digests).rowcount > 0
        return lifted

    def find(self, id: str, is_user: bool) -> Suppression | None:
        """Return the one that a user id is suppressed by, or an anonymous id."""
        both = self.get(self._of.of(id))
        return both if both is not None or is_user else self.get(self._of.of_anonymous(id))

    def get(self, digest: bytes) -> Suppression | None:
        """Return the one with this hash."""
        row = self._store.database.row(
            "SELECT digest, at, author, request FROM suppressions WHERE digest = ?", (digest,)
        )
        return None if row is None else Suppression(*row)

    def page(self, limit: int, before: tuple[int, bytes] | None = None) -> list[Suppression]:
        """At most so many, newest first, older than one by (at, digest)."""
        at, digest = before or (1 << 62, b"")
        rows = self._store.database.rows(
            "SELECT digest, at, author, request FROM suppressions WHERE (at, digest) < (?, ?)"
            " ORDER BY at DESC, digest DESC LIMIT ?",
            (at, digest, limit),
        )
        return [Suppression(*row) for row in rows]

    def count(self) -> int:
        """Return how many ids are on the list."""
        row = self._store.database.row("SELECT count(*) FROM suppressions")
        return int(row[0]) if row else 0
