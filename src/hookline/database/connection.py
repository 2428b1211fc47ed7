"""What the rooms may ask of a connection, on SQLite and on PostgreSQL.

Statements are SQLite's, with ``?`` or ``?1`` for values, as far as PostgreSQL can be taught to understand them
(decision 0025). A connection is in autocommit mode: a transaction begins with ``BEGIN`` (to read at one moment) or
``BEGIN IMMEDIATE`` (to write; one at a time in a database) and ends with ``COMMIT`` or ``ROLLBACK``. On SQLite it is
the engine's own object. Errors are those of ``database.sqlite``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol


class Cursor(Protocol):
    """The rows of a statement, and how many it changed."""

    @property
    def rowcount(self) -> int:
        """Rows changed; of ``executemany``, by all together."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """As the connection's."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """As the connection's."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last one."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """One connection; it may pass between threads, one at a time."""

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """Run a statement that returns no rows once for each of ``parameters``."""

    def cursor(self) -> Cursor:
        """Return a cursor that runs statements on this connection."""

    def close(self) -> None:
        """Let go of the database; idempotent."""
