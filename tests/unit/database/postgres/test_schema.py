"""Schemas: made, recognised, refused, and made once by roles that start together."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from hookline.database.connect import connect
from hookline.database.location import Schema, Which
from hookline.database.migrate import HEADS, is_current
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseError, DatabaseTooNew, DatabaseUnusable, OperationalError
from tests.postgres import PostgresServer


@pytest.fixture
def url(postgres: PostgresServer) -> Iterator[str]:
    """An empty database."""
    with postgres.database() as made:
        yield made


@pytest.mark.parametrize("which", get_args(Which))
def test_a_new_schema_is_up_to_date(url: str, which: Which) -> None:
    """Making it twice changes nothing."""
    schema = Schema(url, which)
    with closing(connect(schema)) as connection:
        assert not is_current(connection, which)
        ensure(schema, which)
        ensure(schema, which)
        assert is_current(connection, which)


def test_a_newer_schema_is_refused(url: str) -> None:
    """One of a later version is not touched, and the message says which versions are meant."""
    schema = Schema(url, "control")
    ensure(schema, "control")
    with closing(connect(schema)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'control_0099'")
    with pytest.raises(DatabaseTooNew, match=f"schema 99, this one knows {HEADS['control']}"):
        ensure(schema, "control")


def test_somebody_elses_schema_is_refused(url: str, postgres: PostgresServer) -> None:
    """One of our name, with something in it that we did not make, is left alone."""
    postgres.run(url, "CREATE SCHEMA hookline_control CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(DatabaseError, match="is not Hookline's control database"):
        ensure(Schema(url, "control"), "control")
    assert postgres.run(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'hookline_control'") == [("theirs",)]


@pytest.mark.parametrize("remade", ["", "CREATE SCHEMA hookline_privacy"])
def test_a_lost_schema_is_missed_until_it_is_renewed(
    url: str, postgres: PostgresServer, tmp_path: Path, remade: str
) -> None:
    """Whether it is gone or empty, it is not made in silence; the command says what that costs, and allows it."""
    schema = Schema(url, "privacy")
    postgres.run(url, "CREATE SCHEMA hookline CREATE TABLE parts (name TEXT PRIMARY KEY)")
    ensure(schema, "privacy")
    for statement in ("DROP SCHEMA hookline_privacy CASCADE", remade):
        if statement:
            postgres.run(url, statement)
    with pytest.raises(DatabaseUnusable, match=r"is missing, and was there.*hookline renew privacy\.db"):
        ensure(schema, "privacy")
    config = tmp_path / "hookline.yaml"
    config.write_text(json.dumps({"data_dir": str(tmp_path), "database": {"url": url}}))
    command = [sys.executable, "-m", "hookline.cli.main", "renew", "privacy.db", "--config", str(config)]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (asked.returncode, "nobody is suppressed any more" in asked.stdout) == (1, True), asked.stderr
    subprocess.run([*command, "--yes"], check=True, timeout=120)
    ensure(schema, "privacy")
    assert subprocess.run([*command, "--yes"], timeout=120, check=False).returncode == 1


def test_a_migration_that_fails_changes_nothing(url: str, postgres: PostgresServer) -> None:
    """All of it is one transaction, and the reason is told without the URL, which may hold a password."""
    schema = Schema(url, "deliver")
    postgres.run(url, "CREATE SCHEMA hookline_deliver")
    with closing(connect(schema)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)")
        connection.execute("CREATE TABLE versions_in_force (mine BIGINT)")
    with pytest.raises(DatabaseError, match='relation "versions_in_force" already exists') as refused:
        ensure(schema, "deliver")
    assert url not in str(refused.value)
    tables = postgres.run(url, "SELECT tablename FROM pg_tables WHERE schemaname = 'hookline_deliver' ORDER BY 1")
    assert tables == [("alembic_version",), ("versions_in_force",)]


def test_roles_that_start_together_make_one_schema(url: str) -> None:
    """Several processes that need the same schema at the same moment all find it whole."""
    program = (
        "import sys; from hookline.database.open import ensure; from hookline.database.location import Schema;"
        "from hookline.database.migrate import is_current;"
        "from hookline.database.connect import connect; sys.stdin.read(); schema = Schema(sys.argv[1], 'deliver');"
        "ensure(schema, 'deliver'); print(is_current(connect(schema), 'deliver'))"
    )
    command = [sys.executable, "-c", program, url]
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for process in started:
        assert process.stdin is not None
        process.stdin.close()
    answers = [process.stdout.read() if process.stdout else "" for process in started]
    assert [process.wait(timeout=120) for process in started] == [0] * 4
    assert answers == ["True\n"] * 4


def test_a_server_that_is_not_there(postgres: PostgresServer) -> None:
    """What is asked of it fails as a file that cannot be read does, and says why."""
    away = Schema("postgresql://hookline@/nothing?host=/nonexistent", "control")
    with pytest.raises(OperationalError, match="nonexistent"):
        ensure(away, "control")
    with closing(connect(away)) as connection, pytest.raises(OperationalError, match="nonexistent"):
        connection.execute("SELECT 1")


def test_a_password_is_not_shown() -> None:
    """Neither in messages nor in what a developer prints."""
    schema = Schema("postgresql://me:geheim@db/hookline", "control")
    assert "geheim" not in f"{schema} {schema!r}"
