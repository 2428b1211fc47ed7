"""Share one connection to a database between several stores and threads, one statement at a time, and write many rows
at once: statements of many rows on SQLite, COPY on PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hookline.database.connect import connect, is_file
from hookline.database.connection import Connection, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import OperationalError
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.database.postgres.connection import PostgresConnection


ResultT = TypeVar("ResultT")


class Shared:
    """Rows are read and transactions run under one lock; none may begin inside another."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._connection = connect(location)
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
