"""Migrations: the shipped schema, the tables and the migrations say the same."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from hookline.database import control_tables, deliver_tables, insights_tables, privacy_tables, profiles_tables
from hookline.database.connect import connect
from hookline.database.migrate import config, file_engine, main, postgres_schema_of, schema_engine, schema_of, upgrade
from hookline.database.open import HEADS, ensure, is_current, schema_path
from hookline.database.place import Place, Schema, Which
from hookline.database.postgres.schema import URL_VARIABLE
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.conftest import PlaceOf

WHICH = get_args(Which)
METADATA = {
    "control": control_tables.metadata,
    "deliver": deliver_tables.metadata,
    "insights": insights_tables.metadata,
    "profiles": profiles_tables.metadata,
    "privacy": privacy_tables.metadata,
}


def engine_of(place: Place) -> Engine:
    """What makes SQLAlchemy's connections to a database."""
    return schema_engine(place) if isinstance(place, Schema) else file_engine(place)


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
def test_the_shipped_schema_is_what_the_migrations_make(which: Which) -> None:
    """A new database and a migrated one are the same, statement for statement."""
    assert schema_path(which).read_text() == schema_of(which)
    assert schema_path(which, ".postgres.sql").read_text() == postgres_schema_of(which)


@pytest.mark.parametrize("which", WHICH)
def test_the_tables_are_what_the_migrations_make(place_of: PlaceOf, which: Which) -> None:
    """Nothing is in the table definitions that no migration makes, and the other way round."""
    place = place_of(which)
    ensure(place, which)
    with engine_of(place).connect() as connection:
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
        with file_engine(path).begin() as connection:
            command.upgrade(config(which, connection), f"{which}_{number:04}")
        ensure(path, which)
        with closing(connect(path)) as old, closing(connect(tmp_path / "new.db")) as new:
            query = "SELECT name FROM sqlite_schema ORDER BY name"
            assert old.execute(query).fetchall() == new.execute(query).fetchall()


@pytest.mark.parametrize("which", WHICH)
def test_every_step_of_the_way_leads_to_the_newest_schema_on_postgresql(postgres: PostgresServer, which: Which) -> None:
    """A schema as any earlier version left it has the columns and indexes of a new one."""
    with postgres.database(TEMPLATE) as url:
        new = shape_of(Schema(url, which))
    for number in range(1, HEADS[which] + 1):
        with postgres.database() as url:
            schema = Schema(url, which)
            postgres.run(url, f"CREATE SCHEMA {schema.name}")
            with schema_engine(schema).begin() as connection:
                command.upgrade(config(which, connection), f"{which}_{number:04}")
            upgrade(schema, which)
            assert shape_of(schema) == new


def test_migrating_a_schema_by_hand(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command finds the database by the environment, for arguments can be read by everybody."""
    with postgres.database() as url:
        postgres.run(url, "CREATE SCHEMA hookline_deliver")
        monkeypatch.setenv(URL_VARIABLE, url)
        assert main(["deliver", "--schema"]) == 0
        assert main(["deliver", "--schema"]) == 0
        ensure(Schema(url, "deliver"), "deliver")


def test_an_older_schema_is_migrated(postgres: PostgresServer) -> None:
    """Starting a role brings a schema as the first version left it to the newest one."""
    with postgres.database() as url:
        schema = Schema(url, "control")
        postgres.run(url, f"CREATE SCHEMA {schema.name}")
        with schema_engine(schema).begin() as connection:
            command.upgrade(config("control", connection), "control_0001")
        ensure(schema, "control")
        with closing(connect(schema)) as opened:
            assert is_current(opened, "control")


def test_migrating_by_hand(tmp_path: Path) -> None:
    """The command brings a named file to the newest schema, and doing it twice changes nothing."""
    path = tmp_path / "by % hand.db"
    path.touch(0o600)
    assert main(["deliver", str(path)]) == 0
    assert main(["deliver", str(path)]) == 0
    ensure(path, "deliver")
