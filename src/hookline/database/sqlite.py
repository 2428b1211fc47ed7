"""Opening a SQLite file the one way every role does, and the one rule for errors of a database, SQLite or PostgreSQL.

Owns the engine (an up-to-date one from a wheel: before 3.51.3 two writers can corrupt a write-ahead log), the
connection's settings, and what its errors mean: ``DatabaseAway`` and its kinds pass, and whoever meets one goes on with
what it has and tries again; ``DatabaseBroken`` does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn
from urllib.parse import quote

from hookline.database.outages import OUTAGES

if TYPE_CHECKING:  # the wheel has no annotations; its interface is the standard library's
    import sqlite3 as engine
    from sqlite3 import Connection, IntegrityError, OperationalError
else:
    from pysqlite3 import dbapi2 as engine
    from pysqlite3.dbapi2 import Connection, IntegrityError, OperationalError

__all__ = [
    "BUSY_TIMEOUT_SECONDS",
    "LOCKED_REST",
    "Connection",
    "DatabaseAway",
    "DatabaseBroken",
    "DatabaseError",
    "DatabaseFailing",
    "DatabaseForbidden",
    "DatabaseFull",
    "DatabaseLocked",
    "DatabaseNotMade",
    "DatabaseReadOnly",
    "DatabaseSlow",
    "DatabaseTooNew",
    "DatabaseUnreadable",
    "DatabaseUnusable",
    "IntegrityError",
    "LeaderLockLost",
    "OperationalError",
    "connect",
    "engine",
]

BUSY_TIMEOUT_SECONDS = 5.0
"""For how long who writes waits for a lock."""
READ_TIMEOUT_SECONDS = 0.2
"""For how long who reads from PostgreSQL waits for a lock: event loops read, and stand still meanwhile."""
WAL_BYTES_KEPT = 64 * 1024 * 1024
LOCKED_REST = 4
"""Who waited for a lock on an event loop, and in vain, leaves the database alone for so many times as long."""


class DatabaseAway(OperationalError):
    """A database cannot be used now; it goes on by itself. Of this kind itself: PostgreSQL cannot be reached or ended
    the session. Of a ``COMMIT`` that fails so it is open whether it was done."""

    kind = "away"
    code = "database_away"
    meaning = "PostgreSQL cannot be reached"
    next_step = "Start PostgreSQL, or see what it says."


class DatabaseLocked(DatabaseAway):
    """Somebody else holds what is needed for longer than one waits."""

    kind = "locked"
    code = "database_locked"
    meaning = "the database is locked"
    next_step = "Wait for what holds the lock (ALTER TABLE, VACUUM FULL, a program that has the file open), or end it."


class DatabaseSlow(DatabaseAway):
    """The server ended the statement because it took too long."""

    kind = "slow"
    code = "database_slow"
    meaning = "the database ends statements before they are done"
    next_step = "Look at the server's load, and at its statement_timeout."


class DatabaseFull(DatabaseAway):
    """There is no room: on the disk, or in the server's memory."""

    kind = "full"
    code = "database_full"
    meaning = "the database has no room left"
    next_step = "Free disk space."


class DatabaseReadOnly(DatabaseAway):
    """Nothing can be written, though it can be read."""

    kind = "read_only"
    code = "database_read_only"
    meaning = "the database takes no writes"
    next_step = (
        "See why: of PostgreSQL a standby server or default_transaction_read_only, of a file its mode or its disk's."
    )


class DatabaseForbidden(DatabaseAway):
    """The user of this process has not the right to it."""

    kind = "forbidden"
    code = "database_forbidden"
    meaning = "a right on the database is missing"
    next_step = "Give it back: hookline doctor names it."


class DatabaseFailing(DatabaseAway):
    """The disk beneath it refuses to read or to write."""

    kind = "failing"
    code = "database_failing"
    meaning = "the disk of the database fails"
    next_step = "Look at the disk, and at what the system says of it."


class DatabaseBroken(engine.DatabaseError):
    """The stored data is damaged: waiting does not help. The message says where and what to do."""

    code = "database_broken"


class LeaderLockLost(DatabaseAway):
    """Another process has this one's turn on PostgreSQL by now: nothing of the transaction was written, and nothing
    will be. This process is told to end."""


class DatabaseError(Exception):
    """A database file that cannot be used; the message says what to do."""

    code = "database_unusable"


class DatabaseUnusable(DatabaseError):
    """The database that the settings name cannot be this data folder's; starting again does not help."""


class DatabaseTooNew(DatabaseError):
    """The database was written by a newer version of Hookline. A role that is to write to it stands by."""

    code = "database_too_new"


class DatabaseUnreadable(DatabaseAway):
    """The content of a database cannot be told: it is not made yet, too old, or of a version whose tables this one
    does not know. Never to be taken for empty; it ends by itself, when the role that writes it has made it, or this one
    is upgraded. Unlike when it is away, somebody may be writing to it meanwhile.
    """

    kind = "unreadable"
    code = "database_unreadable"
    meaning = "the database cannot be read"
    next_step = "What another role keeps there is being made, or of another version: hookline doctor says which it is."


class DatabaseNotMade(DatabaseUnreadable):
    """The role that writes it has not made it yet, or not brought it to a schema that can be read."""


_KINDS: dict[int, type[DatabaseAway]] = {
    3: DatabaseForbidden,  # SQLITE_PERM
    5: DatabaseLocked,  # SQLITE_BUSY
    6: DatabaseLocked,  # SQLITE_LOCKED
    8: DatabaseReadOnly,  # SQLITE_READONLY
    10: DatabaseFailing,  # SQLITE_IOERR
    13: DatabaseFull,  # SQLITE_FULL
    14: DatabaseForbidden,  # SQLITE_CANTOPEN
    23: DatabaseForbidden,  # SQLITE_AUTH
}
"""By the lowest eight bits of SQLite's result codes."""
_PRIMARY = 0xFF
_CANTOPEN = 14
_IOERR_SHMSIZE = 4874
"""The index of the write-ahead log cannot grow."""
_DAMAGED = (11, 24, 26)
"""SQLITE_CORRUPT, SQLITE_FORMAT, SQLITE_NOTADB."""
_NO_TEXT = "Could not decode to UTF-8"
"""How the module's own error begins, which has no code."""


def connect(
    path: Path,
    read_only: bool = False,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    factory: type[FileConnection] | None = None,
) -> Connection:
    """Open an existing database file; raise OperationalError when it is not there (``open.ensure`` makes it), one of
    the kinds of DatabaseAway when it is there and cannot be used now.

    The connection is in autocommit mode: transactions are those of ``database.connection``. It may pass between
    threads, one at a time. ``FULL`` makes a commit survive a power cut; ``NORMAL`` may lose the last ones then, never
    their order.
    """
    mode = "ro" if read_only else "rw"
    try:
        connection = engine.connect(
            f"file:{quote(str(path))}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=factory or FileConnection,
        )
    except engine.DatabaseError as error:
        raise as_ours(error, path, read_only) from error
    connection.path, connection.read_only = path, read_only
    try:
        if not read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def as_ours(error: engine.DatabaseError, path: Path, read_only: bool = False) -> engine.DatabaseError:
    """Return what an error of SQLite is to the rooms: one that passes is noted; one that says nothing of the file is
    itself. ``read_only`` is whether it was opened only to be read, so that a refused write is no fault of the file."""
    code = getattr(error, "sqlite_errorcode", None)
    # Damage may hit text alone, which SQLite does not look at.
    if str(error).startswith(_NO_TEXT) if code is None else code & _PRIMARY in _DAMAGED:
        return DatabaseBroken(f"{path} is damaged ({error}): stop Hookline and put it back from a backup")
    if code is None:
        return error
    kind = DatabaseFull if code == _IOERR_SHMSIZE else _KINDS.get(code & _PRIMARY)
    is_missing = code & _PRIMARY == _CANTOPEN and not path.exists()
    if kind is None or is_missing or (read_only and kind is DatabaseReadOnly):
        return error
    ours = kind(f"{path.name}: {error}")
    OUTAGES.note(path.name, ours)
    return ours


class FileCursor(engine.Cursor):
    """A cursor of a ``FileConnection``."""

    connection: FileConnection

    def execute(self, sql: str, parameters: Any = (), /) -> FileCursor:
        """As the engine's."""
        try:
            super().execute(sql, parameters)
        except engine.DatabaseError as error:
            self._raise(error)
        return self

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> FileCursor:
        """As the engine's."""
        try:
            super().executemany(sql, parameters)
        except engine.DatabaseError as error:
            self._raise(error)
        return self

    def executescript(self, sql: str, /) -> FileCursor:
        """As the engine's."""
        try:
            super().executescript(sql)
        except engine.DatabaseError as error:
            self._raise(error)
        return self

    def fetchone(self) -> Any:
        """As the engine's."""
        try:
            return super().fetchone()
        except engine.DatabaseError as error:
            self._raise(error)

    def fetchall(self) -> list[Any]:
        """As the engine's."""
        try:
            return super().fetchall()
        except engine.DatabaseError as error:
            self._raise(error)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        # Rows are fetched as the engine does; only what goes wrong passes here.
        try:
            yield from iter(super().fetchone, None)
        except engine.DatabaseError as error:
            self._raise(error)

    def _raise(self, error: engine.DatabaseError) -> NoReturn:
        ours = as_ours(error, self.connection.path, self.connection.read_only)
        if ours is error:
            raise error
        raise ours from error


class FileConnection(engine.Connection):
    """A connection to a file whose errors are ours."""

    path = Path()
    read_only = False
    cursors: type[FileCursor] = FileCursor

    def execute(self, sql: str, parameters: Any = (), /) -> FileCursor:
        """As the engine's."""
        return self.cursor().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> FileCursor:
        """As the engine's."""
        return self.cursor().executemany(sql, parameters)

    def executescript(self, sql: str, /) -> FileCursor:
        """As the engine's."""
        return self.cursor().executescript(sql)

    def cursor(self, *_: Any) -> FileCursor:  # type: ignore[override]
        """Return a cursor whose errors are ours."""
        return super().cursor(self.cursors)
