"""Writing many rows at once: statements of many rows on SQLite, COPY on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from hookline.database.connect import is_file
from hookline.database.connection import Connection

if TYPE_CHECKING:  # nothing of PostgreSQL is imported where there is none
    from hookline.database.postgres.connection import PostgresConnection

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
