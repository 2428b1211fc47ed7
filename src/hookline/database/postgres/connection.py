"""A connection as the rooms use it, on PostgreSQL: it holds one of the pool's while a statement or transaction runs.

So it costs nothing while it is idle, and one that broke is replaced at the next use. What did not begin yet (a
statement by itself, or ``BEGIN``) is tried again once with a new one, so a server that was restarted in between is not
noticed. A transaction that writes takes the schema's lock, so there is one at a time as there is on SQLite, and is
refused where the process has lost its role's turn (``fence``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

import psycopg
from psycopg.pq import TransactionStatus

from hookline.database.commits import DatabaseWentBack, commits_of
from hookline.database.location import Schema, Which
from hookline.database.postgres import pool as pools
from hookline.database.postgres.commit_mark import counting
from hookline.database.postgres.dialect import as_document, translated
from hookline.database.postgres.fence import epoch_of
from hookline.database.postgres.pool import Kind, Pool, Real, join, leave
from hookline.database.sqlite import LeaderLockLost, OperationalError, engine

LOCK_SPACE = 0x686F6F6B
"""Of our advisory locks among those of the database."""

COPY_ROWS_MIN = 50
"""For fewer rows, COPY and documents are not worth it."""

ROWS_PER_DOCUMENT = 1_000
"""So that a document stays far below what the server takes for one value."""

ROWS_PER_STATEMENT = (16, 4, 1)

_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Whatever the database has as its default: what others wrote until the turn came must be seen.
_BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"


def connect(schema: Schema, read_only: bool, synchronous: Literal["FULL", "NORMAL"]) -> PostgresConnection:
    """Return a connection to a schema; the server is met by the first statement."""
    return PostgresConnection(join(Kind(schema, read_only, synchronous)))


def lock_number(which: Which) -> int:
    """Return the number of a schema's lock."""
    return get_args(Which).index(which)


def take_turn(which: Which) -> str:
    """Return what waits in a transaction until no other one writes to a schema."""
    return f"SELECT pg_advisory_xact_lock({LOCK_SPACE}, {lock_number(which)})"


def _end_who_stands_still(which: Which) -> str:
    """Return what ends the session that holds a schema's lock when it has asked for nothing for too long.

    The server does so itself, but not behind statements that were sent together (``executemany``): what psycopg sends
    after those stops its clock. COPY is left alone: one that moves looks like one that does not.
    """
    return f"""
        SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND classid::bigint = {LOCK_SPACE} AND objid::bigint = {lock_number(which)}
        AND granted AND datname = current_database() AND usename = current_user AND wait_event = 'ClientRead'
        AND query NOT LIKE 'COPY%' AND state_change < now() - interval '{pools.TRANSACTION_IDLE_SECONDS_MAX} seconds'"""


class PostgresConnection:
    """Satisfies ``database.connection.Connection``."""

    def __init__(self, pool: Pool) -> None:
        self._pool: Pool | None = pool
        self._held: Real | None = None
        self._number = 0
        """Of the open transaction, among those that are counted."""

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is open; one whose connection broke is not."""
        return self._held is not None

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PostgresCursor:
        """Run a statement; one that writes outside of a transaction is one."""
        text, kind = translated(sql)
        match kind:
            case "begin_read":
                self._begin(_BEGIN_READ)
                return PostgresCursor(self)
            case "begin_write":
                self._begin_write()
                return PostgresCursor(self)
            case "commit":
                return self._end("COMMIT")
            case "rollback":
                return self._end("ROLLBACK")
        values = tuple(parameters)
        return self._run(kind == "write", lambda real: real.execute(text, values))

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> PostgresCursor:
        """Run a statement for each of ``parameters``, sent together."""
        text = translated(sql).text
        values = list(parameters)
        if not values:
            return PostgresCursor(self)

        def work(real: Real) -> psycopg.Cursor[Any]:
            cursor = real.cursor()
            cursor.executemany(text, values)
            return cursor

        return self._run(True, work)

    def insert_many(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], conflict: str) -> None:
        """Write rows by COPY, as ``database.bulk.insert_many`` asks for; few of them by statements of several.

        COPY knows no conflicts. Where there may be some, rows go as JSON documents: a temporary table to copy to would
        need a right that the role may lack, and costs the server's own tables as much as ours.
        """
        names, conflict = ", ".join(columns), translated(conflict).text
        if len(rows) < COPY_ROWS_MIN:
            for some in _in_steps(rows):
                marks = ", ".join([f"({', '.join('?' * len(columns))})"] * len(some))
                values = [value for row in some for value in row]
                self.execute(f"INSERT INTO {table} ({names}) VALUES {marks} {conflict}", values)
            return

        if not conflict:
            self._run(True, lambda real: _copied(real.cursor(), table, names, rows))
            return
        given = f"SELECT {names} FROM json_populate_recordset(NULL::{table}, ?) WHERE true"  # or ON would be a JOIN's
        for first in range(0, len(rows), ROWS_PER_DOCUMENT):
            document = as_document(columns, rows[first : first + ROWS_PER_DOCUMENT])
            self.execute(f"INSERT INTO {table} ({names}) {given} {conflict}", (document,))

    def cursor(self) -> PostgresCursor:
        """Return a cursor that runs statements on this connection."""
        return PostgresCursor(self)

    def close(self) -> None:
        """Let go of the pool, an open transaction is undone; idempotent."""
        pool, self._pool = self._pool, None
        if pool is not None:
            if self._held is not None:
                held, self._held = self._held, None
                pool.give_back(held)
            leave(pool)

    def _run(self, is_write: bool, work: Callable[[Real], psycopg.Cursor[Any]]) -> PostgresCursor:
        if self._held is not None:
            return self._run_held(self._held, work)
        if not is_write:
            real, done = self._begin_with(work)
            self._opened.give_back(real)
            return PostgresCursor(self, done)
        self._begin_write()
        try:
            changed = self._run_held(self._held, work)
            self._end("COMMIT")
        except BaseException:
            if self._held is not None:
                self._end("ROLLBACK")
            raise
        return changed

    def _run_held(self, real: Real | None, work: Callable[[Real], psycopg.Cursor[Any]]) -> PostgresCursor:
        assert real is not None
        try:
            return PostgresCursor(self, work(real))
        except psycopg.Error as error:
            if real.closed:
                self._let_go()
            raise self._opened.met(error) from error

    def _begin(self, text: str) -> list[Any]:
        """Begin with these statements; return the first row of each."""
        if self._held is not None:
            raise OperationalError("cannot start a transaction within a transaction")
        self._number = 0
        self._held, done = self._begin_with(lambda real: real.execute(text, prepare=False))
        rows = []
        more: bool | None = True
        while more:
            rows.append(done.fetchone() if done.description else None)
            more = done.nextset()
        return rows

    def _begin_write(self) -> None:
        kind = self._opened.kind
        if kind.read_only:
            self._begin(_BEGIN_WRITE)
            return
        # One text, so that counting and asking for the epoch cost no way to the server and back of their own.
        commits, epoch = commits_of(kind.schema), epoch_of(kind.schema)
        steps = [_BEGIN_WRITE, take_turn(kind.schema.which)]
        if commits is not None:
            steps.append(counting(kind.schema.which, commits))
        if epoch is not None:
            steps += [epoch.shared, epoch.found]
        try:
            begun = self._begin("; ".join(steps))
        except OperationalError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                self._run(False, lambda real: real.execute(_end_who_stands_still(kind.schema.which), prepare=False))
            raise
        if epoch is not None and begun[-1] is None:
            self._end("ROLLBACK")
            raise LeaderLockLost(f"another process has the turn of {epoch.role} by now; nothing was written")
        if commits is not None:
            try:
                commits.check(*begun[2])
            except DatabaseWentBack:
                self._end("ROLLBACK")
                raise
            self._number = begun[2][0]

    def _end(self, text: str) -> PostgresCursor:
        real = self._held
        if real is None:
            raise OperationalError(f"cannot {text.lower()} - no transaction is active")
        failed = real.info.transaction_status == TransactionStatus.INERROR
        try:
            real.execute("ROLLBACK" if failed else text)
        except psycopg.Error as error:
            raise self._opened.met(error) from error
        finally:
            self._let_go()
        if text == "COMMIT" and self._number and not failed:
            commits = commits_of(self._opened.kind.schema)
            if commits is not None:
                commits.done(self._number)
        if failed and text == "COMMIT":
            raise OperationalError("a statement of the transaction failed, nothing of it was written")
        return PostgresCursor(self)

    def _let_go(self) -> None:
        real, self._held = self._held, None
        if real is not None:
            self._opened.give_back(real)

    def _begin_with(self, work: Callable[[Real], psycopg.Cursor[Any]]) -> tuple[Real, psycopg.Cursor[Any]]:
        """Do the first thing with a connection of the pool, with a new one when that one turns out to be broken.

        Those that broke while they rested, as when the server restarts, do not count: other threads give theirs back
        meanwhile. There are no more of them than the pool may have.
        """
        pool = self._opened
        for tried in range(pools.CONNECTIONS_MAX + 1):
            real = pool.borrow()
            try:
                return real, work(real)
            except psycopg.Error as error:
                is_broken = real.closed
                pool.give_back(real)
                is_last = tried == pools.CONNECTIONS_MAX or (tried > 0 and not real.has_rested)
                if not is_broken or is_last:
                    raise pool.met(error) from error
                pool.close_idle()
            except BaseException:
                pool.give_back(real)
                raise
        raise AssertionError("unreachable")

    @property
    def _opened(self) -> Pool:
        if self._pool is None:
            raise engine.ProgrammingError("Cannot operate on a closed database.")
        return self._pool


def _in_steps(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows in pieces of few different sizes, so that few different statements have to be prepared."""
    at = 0
    for size in ROWS_PER_STATEMENT:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


def _copied(cursor: psycopg.Cursor[Any], table: str, names: str, rows: Iterable[Sequence[Any]]) -> psycopg.Cursor[Any]:
    with cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    return cursor


class PostgresCursor:
    """The rows of one statement, all of them fetched."""

    def __init__(self, connection: PostgresConnection, done: psycopg.Cursor[Any] | None = None) -> None:
        self._connection = connection
        self._take(done)

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> PostgresCursor:
        """Run a statement on the connection; its rows replace those of the last one."""
        return self._become(self._connection.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> PostgresCursor:
        """Run a statement many times on the connection."""
        return self._become(self._connection.executemany(sql, parameters))

    def fetchone(self) -> Any:
        """Return the next row, None after the last one."""
        return next(self._rows, None)

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        return list(self._rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def _take(self, done: psycopg.Cursor[Any] | None) -> None:
        self.rowcount = -1 if done is None else done.rowcount
        has_rows = done is not None and done.description is not None
        self._rows: Iterator[Any] = iter(done.fetchall() if done is not None and has_rows else ())

    def _become(self, other: PostgresCursor) -> PostgresCursor:
        self.rowcount, self._rows = other.rowcount, other._rows
        return self
