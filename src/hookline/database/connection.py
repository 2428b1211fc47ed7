"""Say what the rooms may ask of a connection, on SQLite and on PostgreSQL.

Statements are SQLite's, with ``?`` or ``?1`` for values, as far as PostgreSQL can be taught to understand them
(decision 0025). A connection is in autocommit mode: statements that belong together run in a ``transaction`` (to write;
one at a time in a database) or a ``one_moment`` (to read). On SQLite it is the engine's own object. Errors are those of
``database.sqlite``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
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


@contextmanager
def transaction(connection: Connection) -> Iterator[Callable[..., Cursor]]:
    """Run statements in one transaction that writes, by what is yielded or by the connection; an exception undoes all.

    It waits for its turn, and is refused with DatabaseAway where the process has lost its role's turn, or the database
    lacks what the process had committed before (``database.commits``). Where the answer to the commit is lost, which a
    file never does, DatabaseAway leaves open whether it was done.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection.execute
        connection.execute("COMMIT")
    except BaseException:
        # A connection that broke, or an engine that undid it by itself, has none to undo.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """Read one state of the database. Keep it under 10 ms: the write-ahead log cannot be cut meanwhile."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("COMMIT")


def replacing(table: str, key: Sequence[str], others: Sequence[str]) -> str:
    """Return a statement that takes the values of ``key`` and ``others``, and replaces those of a row that is there."""
    columns = (*key, *others)
    values = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values}) {overwriting(key, others)}"


def overwriting(key: Sequence[str], others: Sequence[str]) -> str:
    """Return the clause of an ``INSERT`` that replaces ``others`` of a row that has the key."""
    sets = ", ".join(f"{column} = excluded.{column}" for column in others)
    return f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sets}"
