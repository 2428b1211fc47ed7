"""PostgreSQL's errors as the rooms know them: by the names that the errors of SQLite have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from hookline.database import sqlite
from hookline.database.sqlite import engine

# Of the codes of PostgreSQL's errors the first that fits. Those that the client itself raises have none: the connection
# broke, or none could be made. A table in a schema whose use is forbidden "does not exist".
_PASSING: tuple[tuple[tuple[str, ...], type[sqlite.DatabaseAway]], ...] = (
    (("08", "57P", "53300", "25P03"), sqlite.DatabaseAway),
    (("55P03", "40001", "40P01"), sqlite.DatabaseLocked),
    (("57014", "25P04"), sqlite.DatabaseSlow),
    (("53",), sqlite.DatabaseFull),
    (("25006",), sqlite.DatabaseReadOnly),
    (("42501", "28", "3D000", "3F000", "42P01"), sqlite.DatabaseForbidden),
    (("58",), sqlite.DatabaseFailing),
)
_NO_CODE = "08"
_DAMAGED = ("XX001", "XX002")

# A write through a connection that only reads is an internal error to PostgreSQL, and what is missing one of
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
    """Let what is raised inside be one of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise as_ours(error) from error


def as_ours(error: psycopg.Error) -> engine.Error:
    """Return the error of ours that means the same, with PostgreSQL's own sentence, never with its values."""
    message = error.diag.message_primary or " ".join(str(error).split())
    if isinstance(error, psycopg.errors.LockNotAvailable):
        message = f"database is locked: {message}"  # as SQLite says it
    code = error.sqlstate or (_NO_CODE if isinstance(error, psycopg.OperationalError) else "")
    for codes, ours in _PASSING:
        if code.startswith(codes):
            return ours(message)
    if code in _DAMAGED:
        return sqlite.DatabaseBroken(f"PostgreSQL says that its files are damaged ({message}): restore the database")
    for theirs, same in _AS:
        if isinstance(error, theirs):
            return same(message)  # type: ignore[return-value]
    return engine.DatabaseError(message)
