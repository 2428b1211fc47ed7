"""Copy the database files into the schemas of a PostgreSQL database: a snapshot while the roles work, then what became
of the rows since.

Each schema is filled in one transaction, which also notes the snapshot it was filled from; so after an interruption it
is known what is there, and the rest is made anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, get_args

import psycopg

from hookline.database.location import Schema, Which
from hookline.database.migrate import is_current
from hookline.database.open import FILE_MODE
from hookline.database.postgres.dialect import ADAPTERS, translating
from hookline.database.postgres.installation import MOVING, TABLES, Note, journal_name, write_note
from hookline.database.postgres.requirements import SCHEMAS, check
from hookline.database.postgres.schema import create
from hookline.database.postgres.sessions import conninfo, open_session, without_password
from hookline.database.sqlite import Connection, connect, engine
from hookline.settings import Settings
from hookline.transfer.state import MoveFailed, Progress, State, Tell

NUMBER_TABLE = "alembic_version"
"""Which steps were taken: a new schema says that itself."""
ROWS_AT_ONCE = 1_000


class Table(NamedTuple):
    """A table's name and columns, those of its key first of all named; ``last_id`` is the highest id it ever gave."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    last_id: int


def take_snapshot(database: Path, snapshot: Path) -> None:
    """Copy the database as it is at one moment, beside those who write to it."""
    snapshot.unlink(missing_ok=True)
    os.close(os.open(snapshot, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
    source = connect(database, read_only=True)
    try:
        target = engine.connect(str(snapshot))
        try:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE").fetchall()
        finally:
            target.close()
    finally:
        source.close()


def tables_of(connection: Connection) -> list[Table]:
    """Return all tables with rows of ours."""
    names = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> ? ORDER BY name",
        (NUMBER_TABLE,),
    ).fetchall()
    return [_table(connection, name) for (name,) in names]


def rows_of(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Return all rows."""
    return _fetched(connection, f"SELECT {listed(table.columns)} FROM {quoted(table.name)}")


def attach_snapshot(connection: Connection, snapshot: Path) -> None:
    """Have ``left_rows`` and ``new_rows`` compare with this one."""
    connection.execute("ATTACH DATABASE ? AS snapshot", (str(snapshot),))


def left_rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Return the keys of rows that were in the snapshot and are there no more, or have changed."""
    return _fetched(connection, _differing(table, listed(table.key, "s"), "snapshot", "main", "s", "m"))


def new_rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """Rows that were not in the snapshot, or not as they are."""
    return _fetched(connection, _differing(table, listed(table.columns, "m"), "main", "snapshot", "m", "s"))


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return f'"{name}"'


def listed(names: tuple[str, ...], prefix: str = "") -> str:
    """Names of columns as SQL has them."""
    return ", ".join(f"{prefix}.{quoted(name)}" if prefix else quoted(name) for name in names)


def _differing(table: Table, chosen: str, these: str, those: str, this: str, that: str) -> str:
    name = quoted(table.name)
    same_key = " AND ".join(f"{this}.{quoted(column)} = {that}.{quoted(column)}" for column in table.key)
    changed = "".join(
        f" OR {this}.{quoted(column)} IS NOT {that}.{quoted(column)}"
        for column in table.columns
        if column not in table.key
    )
    return (
        f"SELECT {chosen} FROM {these}.{name} {this} LEFT JOIN {those}.{name} {that} ON {same_key}"
        f" WHERE {that}.{quoted(table.key[0])} IS NULL{changed}"
    )


def _table(connection: Connection, name: str) -> Table:
    info = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
    columns = tuple(str(row[1]) for row in info)
    key = tuple(str(row[1]) for row in sorted((row for row in info if row[5]), key=lambda row: int(row[5])))
    assert key, f"table {name} has no key"
    return Table(name, columns, key, _last_id(connection, name, key, info))


def _last_id(connection: Connection, name: str, key: tuple[str, ...], info: list[Any]) -> int:
    if len(key) > 1 or next(row[2] for row in info if row[1] == key[0]) != "INTEGER":
        return 0
    ((highest,),) = connection.execute(f"SELECT coalesce(max({quoted(key[0])}), 0) FROM {quoted(name)}").fetchall()
    counts = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchone()
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).fetchone() if counts else None
    return max(int(highest), int(given[0]) if given else 0)


def _fetched(connection: Connection, sql: str) -> Iterator[tuple[Any, ...]]:
    cursor = connection.execute(sql)
    while rows := cursor.fetchmany(ROWS_AT_ONCE):
        yield from rows


Server = psycopg.Connection[tuple[Any, ...]]

_FILLED = "CREATE TABLE IF NOT EXISTS hookline.filled (which TEXT PRIMARY KEY, of TEXT NOT NULL)"
_OURS = """
SELECT DISTINCT n.nspname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ANY (%s) ORDER BY 1
"""
_DROPS = """
WITH names AS (SELECT oid FROM pg_namespace WHERE nspname = %s)
SELECT format('DROP TABLE %%s CASCADE', c.oid::regclass) FROM pg_class c, names
WHERE c.relnamespace = names.oid AND c.relkind = 'r'
UNION ALL SELECT format('DROP FUNCTION %%s', p.oid::regprocedure) FROM pg_proc p, names WHERE p.pronamespace = names.oid
"""


class DatabaseCopy:
    """The copies of the databases in the data folder ``old``, in the database that ``settings`` name."""

    def __init__(self, old: Path, settings: Settings, state: State, tell: Tell) -> None:
        self._old = old
        self._settings = settings
        self._state = state
        self._tell = tell

    def open(self) -> None:
        """Take the database for this move; raise MoveFailed when something of Hookline is in it already."""
        address = self._address
        with translating(), open_session(address) as session:
            check(session, address, temporary=True)
        with self._server() as server:
            there = [name for (name,) in server.execute(_OURS, (list(SCHEMAS),)).fetchall()]
            if there and self._installation(server) != self._state.installation:
                raise MoveFailed(
                    f"the database {self._where} already holds Hookline's schema {there[0]}: use an empty database"
                )
            if not there:
                journal = MOVING + journal_name(self._settings, "")
                server.execute(TABLES.encode())
                values = (self._state.installation, journal)
                server.execute("INSERT INTO hookline.installation (id, journal) VALUES (%s, %s)", values)
            server.execute(_FILLED.encode())
        write_note(self._settings.data_path, Note(self._state.installation, self._state.mark, self._where))

    def fill(self) -> int:
        """Bring every database over as it is now, of those that are there what has changed; return how many rows."""
        return sum(self._refresh(which) if self._is_filled(which) else self._fill(which) for which in get_args(Which))

    def finish(self) -> int:
        """With the databases at rest: bring over what has changed since; return how many rows."""
        return sum(self._renew(which) for which in get_args(Which))

    def release(self) -> None:
        """Let the new installation use the database; idempotent."""
        with self._server() as server:
            server.execute("DROP TABLE IF EXISTS hookline.filled")
            values = (journal_name(self._settings, ""), self._state.installation)
            server.execute("UPDATE hookline.installation SET journal = %s WHERE id = %s", values)

    def retire(self) -> None:
        """Let nobody use the database any more."""
        with self._server() as server:
            server.execute("UPDATE hookline.installation SET journal = 'moved back'")

    def _fill(self, which: Which) -> int:
        path, snapshot = self._path(which), self._snapshot(which)
        if not path.exists():
            self._empty(which)
            return 0
        take_snapshot(path, snapshot)
        source = connect(snapshot, read_only=True)
        try:
            if not is_current(source, which):
                raise MoveFailed(f"{path} is of another version: start this version with the data folder once")
            with self._server() as server:
                self._drop(server, which)
                create(server, Schema(self._settings.database.url, which))
                copied = self._copy(server, which, source)
                self._note(server, which, str(snapshot.stat().st_mtime_ns))
        finally:
            source.close()
        return copied

    def _empty(self, which: Which) -> None:
        with self._server() as server:
            self._drop(server, which)
            self._note(server, which, "")

    def _drop(self, server: Server, which: Which) -> None:
        """Leave nothing in a schema; it stays, for an administrator may have made it."""
        for (statement,) in server.execute(_DROPS, [f"hookline_{which}"]).fetchall():
            server.execute(statement.encode())

    def _copy(self, server: Server, which: Which, source: Connection) -> int:
        tables = tables_of(source)
        total = sum(_count(source, table) for table in tables)
        progress = Progress(self._tell, f"{which}.db", total)
        for table in tables:
            server.execute(f"DELETE FROM {_name(which, table)}".encode())
            into = f"COPY {_name(which, table)} ({listed(table.columns)}) FROM STDIN"
            with server.cursor().copy(into.encode()) as copy:
                for row in rows_of(source, table):
                    copy.write_row(row)
                    progress.add(1)
            _set_next_id(server, which, table)
        progress.end()
        return progress.done

    def _refresh(self, which: Which) -> int:
        snapshot = self._snapshot(which)
        newer = snapshot.with_suffix(".snapshot.new")
        take_snapshot(self._path(which), newer)
        source = connect(newer, read_only=True)
        try:
            changed = self._bring(which, source, str(newer.stat().st_mtime_ns))
        finally:
            source.close()
        newer.replace(snapshot)
        return changed

    def _renew(self, which: Which) -> int:
        path = self._path(which)
        if not path.exists():
            return 0
        if not self._is_filled(which):
            self._fill(which)
        source = connect(path)
        try:
            # From here on it is no snapshot's: an interrupted move fills it anew.
            return self._bring(which, source, "")
        finally:
            source.close()

    def _bring(self, which: Which, source: Connection, of: str) -> int:
        """Bring over what is otherwise in ``source`` than in the snapshot."""
        attach_snapshot(source, self._snapshot(which))
        with self._server() as server:
            changed = sum(self._renew_table(server, which, source, table) for table in tables_of(source))
            self._note(server, which, of)
        return changed

    def _renew_table(self, server: Server, which: Which, source: Connection, table: Table) -> int:
        name, key = _name(which, table), listed(table.key)
        server.execute(f"CREATE TEMP TABLE gone ON COMMIT DROP AS SELECT {key} FROM {name} WHERE false".encode())
        gone = 0
        with server.cursor().copy(f"COPY gone ({key}) FROM STDIN".encode()) as copy:
            for row in left_rows(source, table):
                copy.write_row(row)
                gone += 1
        if gone:
            same = " AND ".join(f"{name}.{quoted(column)} = gone.{quoted(column)}" for column in table.key)
            server.execute(f"DELETE FROM {name} USING gone WHERE {same}".encode())
        server.execute("DROP TABLE gone")
        came = 0
        with server.cursor().copy(f"COPY {name} ({listed(table.columns)}) FROM STDIN".encode()) as copy:
            for row in new_rows(source, table):
                copy.write_row(row)
                came += 1
        _set_next_id(server, which, table)
        return gone + came

    def _is_filled(self, which: Which) -> bool:
        with self._server() as server:
            found = server.execute("SELECT of FROM hookline.filled WHERE which = %s", (which,)).fetchone()
        try:
            return found is not None and found[0] == str(self._snapshot(which).stat().st_mtime_ns)
        except FileNotFoundError:
            return False

    def _note(self, server: Server, which: Which, of: str) -> None:
        server.execute(
            "INSERT INTO hookline.filled (which, of) VALUES (%s, %s)"
            " ON CONFLICT (which) DO UPDATE SET of = excluded.of",
            (which, of),
        )

    def _installation(self, server: Server) -> str | None:
        known = server.execute("SELECT to_regclass('hookline.installation') IS NOT NULL").fetchone()
        found = server.execute("SELECT id FROM hookline.installation").fetchone() if known == (True,) else None
        return str(found[0]) if found is not None else None

    @contextmanager
    def _server(self) -> Iterator[Server]:
        """A transaction on a connection of its own."""
        with translating(), open_session(self._address, context=ADAPTERS) as server:
            server.autocommit = False
            yield server

    @property
    def _address(self) -> str:
        return conninfo(self._settings.database.url, "hookline migrate-to")

    @property
    def _where(self) -> str:
        return without_password(self._settings.database.url)

    def _path(self, which: Which) -> Path:
        return self._old / f"{which}.db"

    def _snapshot(self, which: Which) -> Path:
        return self._settings.data_path / f"{which}.snapshot"


def _name(which: Which, table: Table) -> str:
    return f"hookline_{which}.{quoted(table.name)}"


def _count(source: Connection, table: Table) -> int:
    ((count,),) = source.execute(f"SELECT count(*) FROM {quoted(table.name)}").fetchall()
    return int(count)


def _set_next_id(server: Server, which: Which, table: Table) -> None:
    """Have the next row get the id it would have got in the file: ids that were given are never given again."""
    if not table.last_id:
        return
    asked = (_name(which, table), table.key[0], table.last_id)
    server.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", asked)
