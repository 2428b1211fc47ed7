"""What transactions leave behind, so that one can tell whether they were committed.

Of one whose ``COMMIT`` was never answered: the connection may break between the two, and what adds to rows must not be
written twice. So each transaction leaves a mark, and before it is written again one looks whether that stands there.

Of all that were confirmed: each counts one number up (``database.commits``), so that a server that went back in time,
with or without those marks, is noticed.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

import psycopg

from hookline.database.commits import Commits, schemas_counted
from hookline.database.connection import Connection, Cursor, replacing
from hookline.database.location import Which

KEPT_MS = 30 * 86_400_000
"""Marks of processes that are gone."""

COUNTS = """
CREATE TABLE IF NOT EXISTS hookline.commits
(folder TEXT NOT NULL, database TEXT NOT NULL, number BIGINT NOT NULL, at BIGINT NOT NULL,
PRIMARY KEY (folder, database))
"""
"""The number of each data folder's last commit to each schema, and when it was (ms)."""

_TABLE = "CREATE TABLE IF NOT EXISTS commit_marks (writer TEXT PRIMARY KEY, number BIGINT NOT NULL, at BIGINT NOT NULL)"
_PUT = replacing("commit_marks", ("writer",), ("number", "at"))


class CommitMark:
    """Of one writer, which writes one thing after another."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._writer = uuid4().hex
        self._number = 0
        self._written: Any = None
        connection.execute(_TABLE)
        connection.execute("DELETE FROM commit_marks WHERE at < ?", (_now_ms() - KEPT_MS,))

    def put(self, cursor: Cursor, written: object) -> None:
        """Mark the open transaction as the one that writes this."""
        self._written = written
        self._number += 1
        cursor.execute(_PUT, (self._writer, self._number, _now_ms()))

    def holds(self, written: object) -> bool:
        """Return whether this was committed before; asks only if it was tried."""
        if self._written is not written:
            return False
        row = self._connection.execute("SELECT number FROM commit_marks WHERE writer = ?", (self._writer,)).fetchone()
        return row is not None and row[0] == self._number


def counting(which: Which, commits: Commits) -> str:
    """Return the statement that counts the open transaction, and tells its number and the time of the one before."""
    key = f"folder = '{commits.writer.hex()}' AND database = '{which}'"
    return (
        f"WITH last AS (SELECT at FROM hookline.commits WHERE {key})"
        f" INSERT INTO hookline.commits AS c VALUES ('{commits.writer.hex()}', '{which}', 1, {_now_ms()})"
        " ON CONFLICT (folder, database) DO UPDATE SET number = c.number + 1, at = excluded.at"
        " RETURNING number, coalesce((SELECT at FROM last), 0)"
    )


def begin_count(session: psycopg.Connection[Any], which: Which, commits: Commits) -> None:
    """Take up the count from what the schema has."""
    found = _found(session, which, commits)
    if found is not None:
        commits.begin(*found)


def look_back(session: psycopg.Connection[Any], url: str) -> None:
    """Raise DatabaseWentBack when a schema has not all that this process committed; for a new connection."""
    for schema, commits in schemas_counted(url):
        known = commits.known  # first: others commit meanwhile
        found = _found(session, schema.which, commits)
        if found is not None and found[0] < known:
            commits.check(found[0] + 1, found[1])


def _found(session: psycopg.Connection[Any], which: Which, commits: Commits) -> tuple[int, int] | None:
    """Return the number and time of the last commit; None of a standby, which may rightly be behind."""
    rows = session.execute(
        f"SELECT number, at FROM hookline.commits WHERE folder = '{commits.writer.hex()}' AND database = '{which}'"
        " UNION ALL SELECT 0, 0 ORDER BY 1 DESC LIMIT 1",
        prepare=False,
    ).fetchall()
    ((standby,),) = session.execute("SELECT pg_is_in_recovery()", prepare=False).fetchall()
    return None if standby else rows[0]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
