"""A role with as few rights as it needs, and databases that hold no UTF-8: they work, or the start says why."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import get_args

import pytest

from hookline.database.connect import commit_mark, connect, insert_many
from hookline.database.connection import overwriting
from hookline.database.installation import wait_for_database
from hookline.database.location import Schema, Which
from hookline.database.open import ensure
from hookline.database.postgres.connection import COPY_ROWS_MIN
from hookline.database.postgres.installation import describe, verify_installation
from hookline.database.postgres.leader_lock import LeaderLock
from hookline.database.postgres.requirements import SCHEMAS
from hookline.database.sqlite import DatabaseUnusable
from hookline.settings import Database, Settings
from tests.postgres import TEMPLATE, PostgresServer

ROWS = [("g", person, 2, 3) for person in range(COPY_ROWS_MIN)]
COLUMNS = ("group_id", "person", "since", "place")


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[str]:
    """A database with nothing in it."""
    with postgres.database() as made:
        yield made


def settings_of(folder: Path, url: str) -> Settings:
    """Settings of a data folder with this database."""
    folder.mkdir(exist_ok=True)
    return Settings(data_dir=str(folder), database=Database(url=url))


def refusal(settings: Settings) -> str:
    """The sentence that the roles end with, which is doctor's too."""
    with pytest.raises(DatabaseUnusable) as refused:
        verify_installation(settings)
    with pytest.raises(DatabaseUnusable, match=re.escape(str(refused.value).removeprefix("the database"))):
        describe(settings)
    return str(refused.value)


def work(settings: Settings) -> None:
    """Do what needs rights of its own."""
    url = settings.database.url
    asyncio.run(wait_for_database(settings, asyncio.Event()))
    for which in get_args(Which):
        ensure(Schema(url, which), which)
    with closing(LeaderLock(url, "profiles")) as turn, closing(connect(Schema(url, "profiles"))) as connection:
        assert turn.take()
        connection.execute("INSERT INTO features (type, name, condition, value) VALUES ('', '', '', '')")
        for _ in range(2):
            insert_many(connection, "memberships", COLUMNS, ROWS, overwriting(COLUMNS[:2], COLUMNS[2:]))
        assert connection.execute("SELECT count(*) FROM memberships").fetchone() == (len(ROWS),)
    with closing(connect(Schema(url, "deliver"))) as connection:
        assert commit_mark(connection) is not None


@pytest.mark.parametrize("template", ["template0", TEMPLATE])
def test_what_the_refusal_says_to_grant_is_enough(postgres: PostgresServer, tmp_path: Path, template: str) -> None:
    """In a database with nothing in it, and in one whose tables another role made; nobody needs temporary tables."""
    with postgres.database(template) as url:
        settings = settings_of(tmp_path, postgres.for_plain_role(url))
        for statement in re.findall(r"GRANT [^;]+;", refusal(settings)):
            postgres.run(url, statement)
        work(settings)


def test_schemas_that_an_administrator_made_are_enough(postgres: PostgresServer, empty: str, tmp_path: Path) -> None:
    """Without the right to make any; the refusal says how they are made."""
    settings = settings_of(tmp_path, postgres.for_plain_role(empty))
    made = re.findall(r"CREATE SCHEMA [^;]+;", refusal(settings))
    assert made == [f"CREATE SCHEMA {name} AUTHORIZATION plain;" for name in SCHEMAS]
    postgres.run(empty, " ".join(made))
    work(settings)


def test_only_their_owner_migrates_tables(postgres: PostgresServer, tmp_path: Path) -> None:
    """Whoever may write to older ones that are another role's is told what to grant before anything is tried."""
    with postgres.database(TEMPLATE) as url:
        settings = settings_of(tmp_path, postgres.for_plain_role(url))
        postgres.run(url, "UPDATE hookline_control.alembic_version SET version_num = 'control_0004'")
        for statement in re.findall(r"GRANT [^;]+;", refusal(settings)):
            postgres.run(url, statement)
        with pytest.raises(DatabaseUnusable, match="GRANT hookline TO plain;"):
            ensure(Schema(settings.database.url, "control"), "control")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_a_database_that_does_not_hold_utf_8_is_refused(
    postgres: PostgresServer, tmp_path: Path, encoding: str
) -> None:
    """At once, and not at the first event that it cannot hold."""
    name = f"in_{encoding.lower()}"
    postgres.admin(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'")
    try:
        assert f"has the encoding {encoding}, and Hookline needs UTF8" in refusal(
            settings_of(tmp_path, postgres.url(name))
        )
    finally:
        postgres.admin(f"DROP DATABASE {name}")


def test_the_connection_speaks_utf_8_whatever_it_is_told(empty: str) -> None:
    """By the URL, or by the role's own settings."""
    with closing(connect(Schema(empty + "&client_encoding=LATIN1", "control"))) as connection:
        assert connection.execute("SELECT ?", ("日本語",)).fetchone() == ("日本語",)
