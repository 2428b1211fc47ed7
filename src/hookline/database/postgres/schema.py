"""Bringing a schema to the tables this version knows: as ``database.open`` does with a file, by the same migrations."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from hookline.database.commits import Commits
from hookline.database.connect import connect
from hookline.database.open import DatabaseUnusable, migrate, needs_migration, schema_number, schema_path
from hookline.database.place import Schema
from hookline.database.postgres import commit_mark
from hookline.database.postgres.address import conninfo
from hookline.database.postgres.connection import LOCK_SPACE, lock_number
from hookline.database.postgres.errors import translating

MAKING_SPACE = LOCK_SPACE + 1
"""Of the locks by which roles that start together take turns."""
SERVER_VERSION_MIN = 140_000
URL_VARIABLE = "HOOKLINE_DATABASE_URL"
"""Tells the migrating process where the database is: its arguments are for everybody to read, and it may hold a
password."""


def ensure(schema: Schema) -> None:
    """Make the schema hold its newest tables; raise as ``open.ensure`` does."""
    address = conninfo(schema.url, f"hookline {schema.which}")
    with translating(), psycopg.connect(address, autocommit=True) as turn:
        refuse_old(turn)
        # Held until the connection is closed.
        turn.execute("SELECT pg_advisory_lock(%s, %s)", (MAKING_SPACE, lock_number(schema.which)))
        found = turn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema.name,)).fetchone()
        if found is None:
            create(turn, schema)
        elif needs_migration(_number(schema), schema.which, str(schema)):
            migrate(str(schema), [schema.which, "--schema"], {**os.environ, URL_VARIABLE: schema.url})


def refuse_old(turn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Raise DatabaseUnusable when the server has not what Hookline needs."""
    if turn.info.server_version < SERVER_VERSION_MIN:
        raise DatabaseUnusable(
            f"PostgreSQL {turn.info.server_version // 10_000} is too old; Hookline needs PostgreSQL "
            f"{SERVER_VERSION_MIN // 10_000} or newer"
        )


def begin_count(schema: Schema, commits: Commits) -> None:
    """Take up the count of this data folder's commits from what the schema has."""
    with (
        translating(),
        psycopg.connect(conninfo(schema.url, f"hookline {schema.which}"), autocommit=True) as session,
    ):
        commit_mark.begin_count(session, schema.which, commits)


def create(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> None:
    """Make a schema that is not there, with its newest tables."""
    functions = Path(__file__).with_name("functions.sql").read_text()
    tables = schema_path(schema.which, ".postgres.sql").read_text()
    with turn.transaction():
        turn.execute(f"CREATE SCHEMA {schema.name}")
        turn.execute(f"SET LOCAL search_path = {schema.name}")
        # Without values, so that the server takes all statements of a text at once.
        turn.execute(functions.encode())
        turn.execute(tables.encode())


def _number(schema: Schema) -> int | None:
    connection = connect(schema, read_only=True)
    try:
        return schema_number(connection, schema.which)
    finally:
        connection.close()
