"""Opening a SQLite file the one way every role does.

Owns the engine (an up-to-date one from a wheel: before 3.51.3 two writers can corrupt a write-ahead log) and the
connection's settings. Imports no SQLAlchemy, so that collect and deliver stay light.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

if TYPE_CHECKING:  # the wheel has no annotations; its interface is the standard library's
    import sqlite3 as engine
    from sqlite3 import Connection, IntegrityError, OperationalError
else:
    from pysqlite3 import dbapi2 as engine
    from pysqlite3.dbapi2 import Connection, IntegrityError, OperationalError

__all__ = [
    "BUSY_TIMEOUT_SECONDS",
    "Connection",
    "DatabaseAway",
    "IntegrityError",
    "OperationalError",
    "TurnLost",
    "connect",
    "engine",
]

BUSY_TIMEOUT_SECONDS = 5.0
WAL_BYTES_KEPT = 64 * 1024 * 1024


class DatabaseAway(OperationalError):
    """PostgreSQL cannot be reached or ended the session; it goes on by itself when the server is back. Of a ``COMMIT``
    that fails so it is open whether it was done."""

    code = "database_away"


class TurnLost(DatabaseAway):
    """Another process has this one's turn on PostgreSQL by now: nothing of the transaction was written, and nothing
    will be. This process is told to end."""


def connect(
    path: Path,
    read_only: bool = False,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    factory: type[Connection] = Connection,
) -> Connection:
    """Open an existing database file; raise OperationalError when it is not there (``open.ensure`` makes it).

    The connection is in autocommit mode: a transaction is an explicit ``BEGIN`` (``BEGIN IMMEDIATE`` to write) and
    ``COMMIT``. It may pass between threads, one at a time. ``FULL`` makes a commit survive a power cut; ``NORMAL`` may
    lose the last ones then, never their order.
    """
    mode = "ro" if read_only else "rw"
    connection = engine.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
    )
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
