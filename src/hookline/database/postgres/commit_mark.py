"""Telling whether a transaction was committed whose ``COMMIT`` was never answered.

The connection may break between the two, and what adds to rows must not be written twice. So each transaction leaves a
mark, and before it is written again one looks whether that stands there.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import uuid4

from hookline.database.connection import Connection, Cursor
from hookline.database.upsert import replacing

KEPT_MS = 30 * 86_400_000
"""Marks of processes that are gone."""

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
        """Whether this was committed before; asks only if it was tried."""
        if self._written is not written:
            return False
        row = self._connection.execute("SELECT number FROM commit_marks WHERE writer = ?", (self._writer,)).fetchone()
        return row is not None and row[0] == self._number


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
