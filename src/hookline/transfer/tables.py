"""The tables of a database file, and what became of their rows since a snapshot of it was taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hookline.database.sqlite import Connection, connect, engine

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
