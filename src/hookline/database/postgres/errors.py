"""PostgreSQL's errors as the rooms know them: by the names that the errors of SQLite have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from hookline.database.sqlite import DatabaseAway, engine

_AWAY = ("08", "57P")
"""Of the codes of PostgreSQL's errors: connections that broke, and a server that stops or starts."""

# A write through a connection that only reads is an internal error to PostgreSQL, and a table that is missing one of
# programming: SQLite calls both operational.
_AS: tuple[tuple[type[psycopg.Error], type[Exception]], ...] = (
    (psycopg.IntegrityError, engine.IntegrityError),
    (psycopg.OperationalError, engine.OperationalError),
    (psycopg.InternalError, engine.OperationalError),
    (psycopg.ProgrammingError, engine.OperationalError),
    (psycopg.DataError, engine.DataError),
)


@contextmanager
def translating() -> Iterator[None]:
    """Let what is raised inside be one of SQLite's."""
    try:
        yield
    except psycopg.Error as error:
        raise as_ours(error) from error


def as_ours(error: psycopg.Error) -> Exception:
    """The error of SQLite that means the same, with PostgreSQL's own sentence, never with its values."""
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return engine.OperationalError("database is locked")
    if isinstance(error, psycopg.errors.IdleInTransactionSessionTimeout):
        return DatabaseAway("the transaction stood still, and the server ended it")
    message = error.diag.message_primary or " ".join(str(error).split())
    # Those that the client itself raises have no code.
    if isinstance(error, psycopg.OperationalError) and (error.sqlstate or _AWAY[0]).startswith(_AWAY):
        return DatabaseAway(message)
    for theirs, ours in _AS:
        if isinstance(error, theirs):
            return ours(message)
    return engine.DatabaseError(message)
