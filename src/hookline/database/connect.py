"""Connecting to a database wherever it is, and what is asked of it otherwise on SQLite than on PostgreSQL.

Imports nothing of PostgreSQL before a schema is asked for.

``Shared`` gives one connection to several stores and threads, one statement at a time; many rows are written at once by
statements of many rows on SQLite, by COPY on PostgreSQL.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from hookline.database import gaps, sqlite
from hookline.database.commits import CountedConnection, commits_of
from hookline.database.connection import Connection, transaction
from hookline.database.location import DatabaseLocation, Schema
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.database.postgres.commit_mark import CommitMark
    from hookline.database.postgres.connection import PostgresConnection

CACHE_KIB = 512


def connect(
    location: DatabaseLocation, read_only: bool = False, synchronous: Literal["FULL", "NORMAL"] = "FULL"
) -> Connection:
    """Open an existing database, as ``sqlite.connect`` does.

    Of a file that is missing it raises OperationalError at once; PostgreSQL is met by the first statement.
    """
    if isinstance(location, Schema):
        from hookline.database.postgres.connection import connect as connect_schema

        return connect_schema(location, read_only, synchronous)
    commits = None if read_only else commits_of(location)
    if commits is None:
        return sqlite.connect(location, read_only, synchronous)
    connection = sqlite.connect(location, synchronous=synchronous, factory=CountedConnection)
    assert isinstance(connection, CountedConnection)
    connection.commits = commits
    return connection


def change_mark(connection: Connection) -> Any:
    """Return what differs from an earlier answer when another connection committed something in between."""
    query = "PRAGMA data_version" if is_file(connection) else "SELECT pg_current_snapshot()::text"
    ((mark,),) = connection.execute(query).fetchall()
    return mark


def keep_few_pages(connection: Connection) -> None:
    """Keep at most ``CACHE_KIB`` of a file in memory for this connection, instead of SQLite's 2 MB: control has some
    thirty, which would come to hold 60 MB within hours, and the system has the file in memory already."""
    if is_file(connection):
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")


def overwrite_deleted(connection: Connection) -> None:
    """From now on, what this connection deletes is overwritten; PostgreSQL has no such thing (decision 0025)."""
    if is_file(connection):
        connection.execute("PRAGMA secure_delete = ON").fetchall()


def empty_log(connection: Connection) -> bool:
    """Bring the write-ahead log into the file and cut it, for deleted rows stand there still; False when a reader was
    in the way for too long. PostgreSQL sees to its own log."""
    if not is_file(connection):
        return True
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not busy


def overwrite_gaps(location: DatabaseLocation) -> bool:
    """Leave nothing of deleted rows in a file and its log, also not where they stood before they moved, once their
    deletion is committed; False when others were in the way for too long. PostgreSQL has no such thing."""
    return isinstance(location, Schema) or gaps.overwrite_gaps(location)


def commit_mark(connection: Connection) -> CommitMark | None:
    """Return what tells, after the answer to a ``COMMIT`` was lost, whether it was done; a file always answers."""
    if is_file(connection):
        return None
    from hookline.database.postgres.commit_mark import CommitMark

    return CommitMark(connection)


def is_file(connection: Connection) -> bool:
    """Return whether it is a connection to an SQLite file."""
    return isinstance(connection, sqlite.engine.Connection) or getattr(connection, "is_file", False)


ResultT = TypeVar("ResultT")


class Shared:
    """Rows are read and transactions run under one lock; none may begin inside another. What is deleted is overwritten,
    for rows of people are among them."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._location = location
        self._connection = connect(location)
        keep_few_pages(self._connection)
        overwrite_deleted(self._connection)  # of a row that changes, too, the old one may stand in its page
        self._lock = threading.Lock()

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return every row of a query."""
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def row(self, query: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query, None when it has none."""
        found = self.rows(query, values)
        return found[0] if found else None

    def read(self, work: Callable[[Connection], ResultT]) -> ResultT:
        """Do something that reads with the connection."""
        with self._lock:
            return work(self._connection)

    @contextmanager
    def transaction(self) -> Iterator[Callable[..., Any]]:
        """Run statements in one transaction; an exception undoes them all."""
        with self._lock, transaction(self._connection) as execute:
            yield execute

    def note(self, *statements: tuple[str, tuple[Any, ...]]) -> bool:
        """Write what may get lost, in one transaction; False when the disk refuses, which is no reason to fail."""
        try:
            with self.transaction() as execute:
                for statement, values in statements:
                    execute(statement, values)
        except OperationalError as error:
            logger().warning("note_not_written", reason=str(error))
            return False
        return True

    def overwrite_gaps(self) -> bool:
        """Leave nothing of deleted rows, as the function of that name; others use the connection meanwhile."""
        return overwrite_gaps(self._location)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        with self._lock:
            self._connection.close()


ROWS_PER_STATEMENT = 50
"""On SQLite one statement for many rows costs two thirds of one for each."""


def insert_many(
    connection: Connection, table: str, columns: tuple[str, ...], rows: Sequence[Sequence[Any]], conflict: str = ""
) -> None:
    """Write rows of a table, within a transaction; no two of them have the same key.

    ``conflict`` is the ``ON CONFLICT`` clause for those whose key is there already, where that may be.
    """
    if not is_file(connection):
        cast("PostgresConnection", connection).insert_many(table, columns, rows, conflict)
        return
    for first in range(0, len(rows), ROWS_PER_STATEMENT):
        some = rows[first : first + ROWS_PER_STATEMENT]
        values: list[Any] = []
        for row in some:
            values += row
        connection.execute(_insert(table, columns, len(some), conflict), values)


@cache
def _insert(table: str, columns: tuple[str, ...], rows: int, conflict: str) -> str:
    values = ", ".join([f"({', '.join('?' * len(columns))})"] * rows)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values} {conflict}"
