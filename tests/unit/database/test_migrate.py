"""Migrations: every step of the way leads to the newest schema, and one text is both databases'."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from hookline.database.connect import connect
from hookline.database.location import Schema, Which
from hookline.database.migrate import HEADS, is_current, migrate_file, postgres_steps
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseAway, DatabaseError
from hookline.database.sqlite import connect as connect_file
from tests.postgres import TEMPLATE, PostgresServer

WHICH = get_args(Which)


def file_of(path: Path, which: Which, number: int) -> Path:
    """Make a file as the version with this number left it."""
    path.touch(0o600)
    with closing(connect_file(path)) as connection:
        migrate_file(connection, which, 0, number)
    return path


def schema_of(postgres: PostgresServer, url: str, which: Which, number: int) -> Schema:
    """Make a schema as the version with this number left it."""
    schema = Schema(url, which)
    steps = postgres_steps(which, 0, number)
    postgres.run(url, f"CREATE SCHEMA {schema.name}; SET search_path = {schema.name}; {steps}")
    return schema


def shape_of_file(path: Path) -> dict[str, Any]:
    """The columns and indexes of a file, whatever the words were that made them."""
    with closing(connect(path)) as opened:
        names = [name for (name,) in opened.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        indexes = opened.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'index' ORDER BY 1").fetchall()
        return {"": indexes, **{name: sorted(opened.execute(f"PRAGMA table_info({name})")) for name in sorted(names)}}


def shape_of(schema: Schema) -> list[Any]:
    """The columns and indexes of a schema."""
    with closing(connect(schema)) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name"
            " FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
        ).fetchall()
        indexes = connection.execute("SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1")
        return [*columns, *indexes]


@pytest.mark.parametrize("which", WHICH)
def test_steps_are_numbered_without_a_gap(which: Which) -> None:
    """The number that start-up compares with is that of the newest step, and each says what it is for."""
    folder = Path(__file__).parents[3] / "src/hookline/database/migrations" / which
    files = sorted(folder.glob("[0-9]*.sql"))
    assert [file.name[:5] for file in files] == [f"{number:04}_" for number in range(1, HEADS[which] + 1)]
    assert all(re.match(r"-- \S.*\.\n\n", file.read_text()) for file in files)


@pytest.mark.parametrize("which", WHICH)
def test_every_step_of_the_way_leads_to_the_newest_schema(tmp_path: Path, which: Which) -> None:
    """A file as any earlier version left it becomes what a new one is."""
    ensure(tmp_path / "new.db", which)
    for number in range(1, HEADS[which] + 1):
        path = file_of(tmp_path / f"{number}.db", which, number)
        ensure(path, which)
        assert shape_of_file(path) == shape_of_file(tmp_path / "new.db")


@pytest.mark.parametrize("which", WHICH)
def test_every_step_of_the_way_leads_to_the_newest_schema_on_postgresql(postgres: PostgresServer, which: Which) -> None:
    """A schema as any earlier version left it has the columns and indexes of a new one."""
    with postgres.database(TEMPLATE) as url:
        new = shape_of(Schema(url, which))
    for number in range(1, HEADS[which] + 1):
        with postgres.database() as url:
            schema = schema_of(postgres, url, which, number)
            ensure(schema, which)
            assert shape_of(schema) == new
            with closing(connect(schema)) as opened:
                assert is_current(opened, which)


@pytest.mark.parametrize("which", WHICH)
def test_both_databases_have_the_same_tables_and_columns(
    tmp_path: Path, postgres: PostgresServer, which: Which
) -> None:
    """What is moved from files to PostgreSQL finds a column for everything."""
    ensure(tmp_path / "new.db", which)
    shape = shape_of_file(tmp_path / "new.db")
    here = {(table, row[1]) for table, rows in shape.items() if table not in ("", "sqlite_sequence") for row in rows}
    with postgres.database(TEMPLATE) as url:
        there = {row[:2] for row in shape_of(Schema(url, which)) if len(row) > 1}
    assert here == there


def test_a_locked_file_is_migrated_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's lock passes: it is waited for, and nothing is half done."""
    monkeypatch.setattr("hookline.database.sqlite.BUSY_TIMEOUT_SECONDS", 0.05)
    path = file_of(tmp_path / "deliver.db", "deliver", 3)
    with closing(connect_file(path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseAway, match=r"yet: .*locked"):
            ensure(path, "deliver")
        other.execute("ROLLBACK")
    ensure(path, "deliver")
    with closing(connect(path)) as opened:
        assert is_current(opened, "deliver")


def test_tables_in_the_way_are_said(tmp_path: Path) -> None:
    """What waiting does not mend says which file it is, and that it is as it was."""
    path = file_of(tmp_path / "deliver.db", "deliver", 7)
    with closing(connect_file(path)) as connection:
        connection.execute("CREATE TABLE workers (mine)")
    before = shape_of_file(path)
    with pytest.raises(DatabaseError, match=r"deliver\.db could not be brought.* is unchanged: table workers"):
        ensure(path, "deliver")
    assert shape_of_file(path) == before
