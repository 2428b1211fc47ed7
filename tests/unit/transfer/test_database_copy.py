"""Databases on their way from files to PostgreSQL: every table of every database, what changes meanwhile, and ids."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from hookline.database.connect import connect
from hookline.database.location import Schema, Which
from hookline.database.open import FILE_MODE, ensure
from hookline.database.postgres.installation import verify_installation
from hookline.database.postgres.requirements import SCHEMAS
from hookline.database.sqlite import Connection, DatabaseUnusable
from hookline.database.sqlite import connect as connect_file
from hookline.settings import Database, Journal, Settings
from hookline.transfer.database_copy import DatabaseCopy, Table, listed, quoted, tables_of
from hookline.transfer.state import MoveFailed, load
from tests.postgres import PostgresServer

ROWS = 40
TEXT = 'nul \0, private \ue000, tab \t, line \n, backslash \\N, "quotes", ümläut 😀'


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as made:
        yield made


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A data folder with all databases, rows in every table."""
    folder = tmp_path / "old"
    folder.mkdir()
    for which in get_args(Which):
        ensure(folder / f"{which}.db", which)
        change(folder / f"{which}.db", range(ROWS))
    return folder


def copy_of(old: Path, tmp_path: Path, url: str) -> DatabaseCopy:
    """The copy, begun or taken up."""
    settings = settings_of(tmp_path, url)
    return DatabaseCopy(old, settings, load(settings.data_path, old, settings.journal.url), lambda _: None)


def settings_of(tmp_path: Path, url: str) -> Settings:
    """What is moved to."""
    journal = Journal(url="kafka://127.0.0.1:9092/events")
    return Settings(data_dir=str(tmp_path / "new"), database=Database(url=url), journal=journal)


def change(path: Path, numbers: range, version: int = 0) -> None:
    """Write a row for each number into every table, over one of the same key."""
    connection = connect_file(path)
    connection.execute("BEGIN IMMEDIATE")
    for table in tables_of(connection):
        types = {str(row[1]): str(row[2]) for row in connection.execute(f"PRAGMA table_info({quoted(table.name)})")}
        marks = ", ".join("?" * len(table.columns))
        statement = f"INSERT OR REPLACE INTO {quoted(table.name)} ({listed(table.columns)}) VALUES ({marks})"
        for number in numbers:
            connection.execute(statement, [_value(types[name], name, table, number, version) for name in table.columns])
    connection.execute("COMMIT")
    connection.close()


def _value(kind: str, name: str, table: Table, number: int, version: int) -> Any:
    """A value of a column: one for each number in a key, and where they must differ."""
    if name == "until":  # a row that is no longer in force, so that two may have the same name
        return 2**40
    told = number if name in table.key else number + 1_000 * version
    match kind:
        case "TEXT":
            return f"{told} {TEXT}"
        case "BLOB":
            return told.to_bytes(8, "big") + bytes(range(256))
        case "FLOAT":
            return told / 3
    return told


def rows_in(connection: Any, tables: list[Table]) -> dict[str, list[Any]]:
    """All rows of all tables in one order."""
    found = {}
    for table in tables:
        asked = f"SELECT {listed(table.columns)} FROM {quoted(table.name)} ORDER BY {listed(table.key)}"
        found[table.name] = [tuple(row) for row in connection.execute(asked).fetchall()]
    return found


def check_same(old: Path, url: str) -> None:
    """Hold every table in PostgreSQL against the file."""
    for which in get_args(Which):
        file: Connection = connect_file(old / f"{which}.db")
        schema = connect(Schema(url, which), read_only=True)
        tables = tables_of(file)
        assert rows_in(schema, tables) == rows_in(file, tables), which
        file.close()
        schema.close()


def test_every_row_of_every_table_is_there(old: Path, tmp_path: Path, url: str) -> None:
    """Also rows that came, went and changed after the snapshot, whatever text and bytes they hold."""
    copy = copy_of(old, tmp_path, url)
    copy.open()
    assert copy.fill() > 0
    check_same(old, url)
    assert all(stat.S_IMODE(each.stat().st_mode) == FILE_MODE for each in (tmp_path / "new").glob("*.snapshot"))
    for which in get_args(Which):
        path = old / f"{which}.db"
        change(path, range(10, 20), version=1)
        change(path, range(ROWS, ROWS + 10))
        connection = connect_file(path)
        for table in tables_of(connection):
            connection.execute(
                f"DELETE FROM {quoted(table.name)} WHERE {quoted(table.columns[0])} IN (3, '3 ' || ?)", (TEXT,)
            )
        connection.close()
    assert copy.finish() > 0
    check_same(old, url)


def test_an_interrupted_copy_is_taken_up_and_a_stale_one_made_anew(old: Path, tmp_path: Path, url: str) -> None:
    """A schema that is filled from a snapshot is not filled again; one that got the rest too is."""
    copy = copy_of(old, tmp_path, url)
    copy.open()
    assert copy.fill() > 0
    again = copy_of(old, tmp_path, url)
    again.open()
    assert again.fill() == 0
    again.finish()
    change(old / "control.db", range(5, 9), version=2)
    third = copy_of(old, tmp_path, url)
    third.open()
    assert third.fill() > 0
    third.finish()
    check_same(old, url)


def test_a_copy_from_before_is_brought_up_to_now(old: Path, tmp_path: Path, url: str) -> None:
    """What changed since an earlier run follows while the service works, so that little is left for its stop."""
    first = copy_of(old, tmp_path, url)
    first.open()
    first.fill()
    change(old / "control.db", range(5, 9), version=1)
    again = copy_of(old, tmp_path, url)
    again.open()
    assert again.fill() > 0
    assert again.finish() == 0
    check_same(old, url)


def test_ids_go_on_where_they_were(old: Path, tmp_path: Path, url: str) -> None:
    """An id that a file has given to a row that left is not given again."""
    connection = connect_file(old / "control.db")
    connection.execute("DELETE FROM accounts WHERE id > 10")
    connection.close()
    copy = copy_of(old, tmp_path, url)
    copy.open()
    copy.fill()
    copy.finish()
    schema = connect(Schema(url, "control"))
    insert = "INSERT INTO accounts (name, name_key, role, created_at) VALUES ('a', 'a', 'owner', 1) RETURNING id"
    assert schema.execute(insert).fetchone()[0] == ROWS
    schema.close()


def test_a_database_in_use_is_left_alone(old: Path, tmp_path: Path, url: str, postgres: PostgresServer) -> None:
    """Schemas of another installation are no place to move to."""
    ensure(Schema(url, "control"), "control")
    with pytest.raises(MoveFailed, match="already holds Hookline's schema hookline_control"):
        copy_of(old, tmp_path, url).open()


def test_schemas_of_an_administrator_are_filled(old: Path, tmp_path: Path, url: str, postgres: PostgresServer) -> None:
    """By a role that may make none, also anew; the copy needs temporary tables and says so."""
    plain = postgres.for_plain_role(url)
    for name in SCHEMAS:
        postgres.run(url, f"CREATE SCHEMA {name} AUTHORIZATION plain")
    with pytest.raises(DatabaseUnusable, match=r"GRANT TEMPORARY ON DATABASE \w+ TO plain;") as refused:
        copy_of(old, tmp_path, plain).open()
    postgres.run(url, "GRANT" + str(refused.value).partition("GRANT")[2])
    for _ in range(2):
        copy = copy_of(old, tmp_path, plain)
        copy.open()
        assert copy.fill() > 0
        copy.finish()
        change(old / "control.db", range(5, 9), version=2)
    check_same(old, url)


def test_nobody_uses_the_database_before_the_move_has_ended(old: Path, tmp_path: Path, url: str) -> None:
    """Roles are refused until it is released, and let in after it."""
    copy = copy_of(old, tmp_path, url)
    copy.open()
    copy.fill()
    copy.finish()
    with pytest.raises(DatabaseUnusable, match="has not ended: run it again"):
        verify_installation(settings_of(tmp_path, url))
    copy.release()
    verify_installation(settings_of(tmp_path, url))
