"""Another role's database, opened when it is there and only for reading.

Who reads what another role writes may be of another version than that role. Tables that are newer than this version
knows are read as far as that goes, and older ones from the number on that the reader gives.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from hookline.database.connect import change_mark, connect, is_file, keep_few_pages
from hookline.database.connection import Connection, Cursor
from hookline.database.location import DatabaseLocation, Which, which_of
from hookline.database.migrate import HEADS, schema_number
from hookline.database.sqlite import (
    DatabaseAway,
    DatabaseForbidden,
    DatabaseNotMade,
    DatabaseUnreadable,
    OperationalError,
    engine,
)
from hookline.telemetry.log import logger

ValueT = TypeVar("ValueT")

MAKING_SECONDS = 10.0
"""For so long nobody says that a database is not made yet."""


class ReadOnly:
    """One connection, opened at the first use after the database was made."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._location = location
        self._connection: Connection | None = None

    def open(self) -> Connection | None:
        """Return the connection, None while there is no such database; raise DatabaseAway while that cannot be told.

        A statement for which a database of another version has not the tables raises DatabaseUnreadable.
        """
        if self._connection is None:
            if isinstance(self._location, Path) and not self._location.exists():
                return None
            try:
                connection = connect(self._location, read_only=True)
                keep_few_pages(connection)
            except DatabaseAway:
                raise
            except OperationalError as error:
                raise DatabaseUnreadable(f"{self._location} cannot be read: {error}") from error
            which = which_of(self._location)
            try:
                is_there = (
                    isinstance(self._location, Path) or schema_number(connection, self._location.which) is not None
                )
            except BaseException:
                connection.close()
                raise
            if not is_there:
                connection.close()
                return None
            self._connection = connection if which is None else _OfAnyVersion(connection, self._location, which)
        return self._connection

    def close(self) -> None:
        """Close it; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _OfAnyVersion:
    """A connection to a database that another role writes, which may be of another version than this process.

    Satisfies ``database.connection.Connection``.
    """

    def __init__(self, connection: Connection, location: DatabaseLocation, which: Which) -> None:
        self._connection = connection
        self._location = location
        self._which = which
        self.is_file = is_file(connection)

    @property
    def in_transaction(self) -> bool:
        """As the connection's."""
        return self._connection.in_transaction

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor:
        """Run a statement."""
        try:
            return self._connection.execute(sql, parameters)
        except OperationalError as error:
            if not _may_be_unlike(error):
                raise
            unlike = _version_unlike_ours(self._connection, self._location, self._which)
            if unlike is None:
                raise
            raise DatabaseUnreadable(f"{unlike} and cannot be read: {error}") from error

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor:
        """As the connection's."""
        return self._connection.executemany(sql, parameters)

    def cursor(self) -> Cursor:
        """As the connection's."""
        return self._connection.cursor()

    def close(self) -> None:
        """As the connection's."""
        self._connection.close()


def _may_be_unlike(error: Exception) -> bool:
    """Return whether it may come of tables that are not as this version knows them: of PostgreSQL a table that is not
    there cannot be told from one that may not be used."""
    return not isinstance(error, DatabaseAway) or isinstance(error, DatabaseForbidden)


def _version_unlike_ours(connection: Connection, location: DatabaseLocation, which: Which) -> str | None:
    """Of which other version a database is; None when it is of this one, or that cannot be told."""
    try:
        number = schema_number(connection, which)
    except engine.Error:
        return None
    if number is None or number == HEADS[which]:
        return None
    by = "a newer" if number > HEADS[which] else "an older"
    return f"{location} was written by {by} Hookline (schema {number}, this one knows {HEADS[which]})"


class Followed:
    """A database that somebody follows for what must never be taken for empty, only for unreadable.

    ``oldest`` is the number of the first schema that has all that is read. For one thread.
    """

    def __init__(self, location: DatabaseLocation, which: Which, oldest: int = 1) -> None:
        self._location = location
        self._which = which
        self._oldest = oldest
        self._connection: Connection | None = None
        self._opened = 0

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """The connection, for reads that belong together.

        Raise DatabaseUnreadable for whatever is in the way of them, and DatabaseAway where nobody can write either.
        """
        try:
            yield self._open()
        except (engine.Error, msgspec.MsgspecError) as error:
            if not _may_be_unlike(error):
                raise
            reason = self._reason(error)
            self.close()  # there may be another file at the next look
            raise reason from error

    def mark(self, connection: Connection) -> Any:
        """Return what differs from an earlier answer when something was committed in between, or it was opened anew."""
        return self._opened, change_mark(connection)

    def close(self) -> None:
        """Let go of it; idempotent, and a later use opens it again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        if self._connection is not None:
            return self._connection
        if isinstance(self._location, Path) and not self._location.exists():
            raise DatabaseNotMade(f"{self._location} is not there yet")
        connection = connect(self._location, read_only=True)
        try:
            number = schema_number(connection, self._which)
            if number is None or number < self._oldest:
                raise DatabaseNotMade(f"{self._location} is not made yet, or not brought to a schema that can be read")
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._opened += 1
        return connection

    def _reason(self, error: Exception) -> DatabaseAway:
        unlike = None
        if self._connection is not None:
            unlike = _version_unlike_ours(self._connection, self._location, self._which)
        if unlike is None and isinstance(error, DatabaseAway):
            return error
        return DatabaseUnreadable(f"{self._location if unlike is None else f'{unlike} and'} cannot be read: {error}")


POLL_SECONDS = 1.5
"""After so long a file is opened for a look although it was not written to: somebody may have locked it."""
SETTLED_NS = 3_000_000_000
"""So long after it was written to, another write gives a file another time, whatever the steps of the time are."""

Files = tuple[int, int, int]


def _files_of(location: DatabaseLocation) -> Files | None:
    """Return what differs from an earlier answer if something was committed in between: that goes to the write-ahead
    log. None where it cannot be told."""
    if not isinstance(location, Path):
        return None
    try:
        found = os.stat(f"{location}-wal")
    except OSError:
        return None
    is_settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
    return (found.st_ino, found.st_size, found.st_mtime_ns) if is_settled else None


class ChangeFeed(Followed, Generic[ValueT]):
    """Something of a database that somebody follows: read again only when it changed. For one thread.

    ``number`` tells one state of it from another, and is looked up whenever anything was committed; ``read`` reads it.
    What a look cannot read it raises, as ``reading`` says, and the next one tries again: what was known before stays in
    force, and whoever knows nothing yet is not ready.
    """

    def __init__(
        self,
        location: DatabaseLocation,
        which: Which,
        number: Callable[[Connection], object],
        read: Callable[[Connection], ValueT],
        oldest: int = 1,
    ) -> None:
        super().__init__(location, which, oldest)
        self._number = number
        self._read = read
        self.forget()

    def forget(self, known: object = None) -> None:
        """Have the next look read it anew, unless its number is ``known``."""
        self._seen: Any = None
        self._known = known
        self._files: Files | None = None
        self._looked_seconds = 0.0

    def poll(self) -> ValueT | None:
        """Return all of it if it changed since the last answer, else None; costs next to nothing if nothing did."""
        files, now = _files_of(self._location), time.monotonic()
        if files is not None and files == self._files and now - self._looked_seconds < POLL_SECONDS:
            return None
        self._files = None  # what cannot be read is asked for again
        found = self._look()
        self._files, self._looked_seconds = files, now
        return found

    def _look(self) -> ValueT | None:
        with self.reading() as connection:
            # Before anything is read: a commit between the two is then seen by the next look.
            seen = self.mark(connection)
            if seen == self._seen:
                return None
            number = self._number(connection)
            found = self._read(connection) if number != self._known else None
            self._seen, self._known = seen, number
            return found


def counted(query: str, *values: object) -> Callable[[Connection], int]:
    """Return what looks up a number that the writer raises with every change; 0 before the first one."""

    def number(connection: Connection) -> int:
        row = connection.execute(query, values).fetchone()
        return int(row[0]) if row else 0

    return number


class Unread:
    """Says in the log, once, that something cannot be read, and once that it can be again."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = time.monotonic()
        self._reason: str | None = None

    def begin(self, error: DatabaseUnreadable) -> None:
        """It cannot be read; said once, and again only for another reason. What is not made yet may be in a moment."""
        is_early = isinstance(error, DatabaseNotMade) and time.monotonic() - self._since < MAKING_SECONDS
        if not is_early and self._reason != str(error):
            self._reason = str(error)
            next_step = "the last known state stays in use; Hookline recovers when the database can be read"
            logger().error(f"{self._what}_unread", reason=self._reason, next_step=next_step)

    def end(self) -> None:
        """It was read."""
        self._since = time.monotonic()
        if self._reason is not None:
            self._reason = None
            logger().info(f"{self._what}_read_again")
