"""Migrations: the shipped schema, the tables and the migrations say the same."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from hookline.database import control_tables, deliver_tables, insights_tables, privacy_tables, profiles_tables
from hookline.database.migrate import config, main, schema_of
from hookline.database.open import HEADS, Which, ensure, schema_path
from hookline.database.sqlite import connect, engine

WHICH = get_args(Which)
METADATA = {
    "control": control_tables.metadata,
    "deliver": deliver_tables.metadata,
    "insights": insights_tables.metadata,
    "profiles": profiles_tables.metadata,
    "privacy": privacy_tables.metadata,
}


@pytest.mark.parametrize("which", WHICH)
def test_the_shipped_schema_is_what_the_migrations_make(which: Which) -> None:
    """A new file and a migrated one are the same, statement for statement."""
    assert schema_path(which).read_text() == schema_of(which)


@pytest.mark.parametrize("which", WHICH)
def test_the_tables_are_what_the_migrations_make(tmp_path: Path, which: Which) -> None:
    """Nothing is in the table definitions that no migration makes, and the other way round."""
    path = tmp_path / "new.db"
    ensure(path, which)
    database = create_engine("sqlite://", creator=lambda: connect(path), module=engine, poolclass=NullPool)
    with database.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA[which]) == []


@pytest.mark.parametrize("which", WHICH)
def test_the_head_is_the_last_migration(which: Which) -> None:
    """The number that start-up compares with is the number of the newest migration, and there is one line of them."""
    assert ScriptDirectory.from_config(config(which)).get_heads() == [f"{which}_{HEADS[which]:04}"]


@pytest.mark.parametrize("which", WHICH)
def test_every_step_of_the_way_leads_to_the_newest_schema(tmp_path: Path, which: Which) -> None:
    """A file as any earlier version left it becomes what a new one is."""
    ensure(tmp_path / "new.db", which)
    for number in range(1, HEADS[which] + 1):
        path = tmp_path / f"{number}.db"
        path.touch(0o600)
        database = create_engine(
            "sqlite://", creator=lambda path=path: connect(path), module=engine, poolclass=NullPool
        )
        with database.begin() as connection:
            command.upgrade(config(which, connection), f"{which}_{number:04}")
        ensure(path, which)
        with closing(connect(path)) as old, closing(connect(tmp_path / "new.db")) as new:
            query = "SELECT name FROM sqlite_schema ORDER BY name"
            assert old.execute(query).fetchall() == new.execute(query).fetchall()


def test_migrating_by_hand(tmp_path: Path) -> None:
    """The command brings a named file to the newest schema, and doing it twice changes nothing."""
    path = tmp_path / "by % hand.db"
    path.touch(0o600)
    assert main(["deliver", str(path)]) == 0
    assert main(["deliver", str(path)]) == 0
    ensure(path, "deliver")
