"""Connecting to a database wherever it is, and what is asked of it otherwise on SQLite than on PostgreSQL.

Imports nothing of PostgreSQL before a schema is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from hookline.database import sqlite
from hookline.database.commits import CountedConnection, commits_of
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation, Schema

if TYPE_CHECKING:
    from hookline.database.postgres.commit_mark import CommitMark


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


def commit_mark(connection: Connection) -> CommitMark | None:
    """Return what tells, after the answer to a ``COMMIT`` was lost, whether it was done; a file always answers."""
    if is_file(connection):
        return None
    from hookline.database.postgres.commit_mark import CommitMark

    return CommitMark(connection)


def is_file(connection: Connection) -> bool:
    """Return whether it is a connection to an SQLite file."""
    return isinstance(connection, sqlite.engine.Connection) or getattr(connection, "is_file", False)
