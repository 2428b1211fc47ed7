"""Bringing a schema to the tables this version knows: as ``database.open`` does with a file, by the same migrations."""

from __future__ import annotations

from pathlib import Path

import psycopg

from hookline.database import home
from hookline.database.commits import Commits
from hookline.database.connect import connect
from hookline.database.location import Schema
from hookline.database.migrate import naming, needs_migration, postgres_steps, schema_number
from hookline.database.postgres import commit_mark
from hookline.database.postgres.connection import LOCK_SPACE, lock_number
from hookline.database.postgres.dialect import translating
from hookline.database.postgres.sessions import conninfo, open_session
from hookline.database.sqlite import DatabaseUnusable

MAKING_SPACE = LOCK_SPACE + 1
"""Of the locks by which roles that start together take turns."""
PARTS = "CREATE TABLE IF NOT EXISTS hookline.parts (name TEXT PRIMARY KEY)"
"""Which schemas have been made. One session makes it, with the installation's other tables: two that do so at once
fail, IF NOT EXISTS or not."""
_FIRST_THING_IN = """
SELECT 1 FROM pg_class WHERE relnamespace = to_regnamespace(%s)
UNION ALL SELECT 1 FROM pg_proc WHERE pronamespace = to_regnamespace(%s) LIMIT 1
"""

_OWNER_OF_OTHERS = """
SELECT quote_ident(pg_get_userbyid(relowner)), quote_ident(current_user) FROM pg_class
WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND NOT pg_has_role(relowner, 'USAGE') LIMIT 1
"""


def ensure(schema: Schema) -> None:
    """Make the schema hold its newest tables; raise as ``open.ensure`` does."""
    address = conninfo(schema.url, f"hookline {schema.which}")
    with translating(), open_session(address) as turn:
        # Held until the connection is closed.
        turn.execute("SELECT pg_advisory_lock(%s, %s)", (MAKING_SPACE, lock_number(schema.which)))
        if _is_empty(turn, schema):
            refuse_lost(turn, schema)
            create(turn, schema)
        elif needs_migration(number := _number(schema), schema.which, str(schema)):
            _refuse_others_tables(turn, schema)
            with naming(str(schema)), translating():
                _take_steps(turn, schema, number)
        note_part(turn, schema)


def refuse_lost(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> None:
    """Raise DatabaseUnusable when the schema was there once: an empty one would lose what it held without a word."""
    if _part_is_noted(turn, schema) and f"{schema.which}.db" in home.COSTS:
        raise DatabaseUnusable(
            f"{schema} is missing, and was there: restore it from a dump. To go on without it:"
            f" hookline renew {schema.which}.db, which says what that costs"
        )


def note_part(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> None:
    """Note in the installation's own schema, where there is one, that this schema has been made."""
    if turn.execute("SELECT to_regclass('hookline.parts')").fetchone() == (None,) or _part_is_noted(turn, schema):
        return
    turn.execute("INSERT INTO hookline.parts (name) VALUES (%s) ON CONFLICT DO NOTHING", (schema.which,))


def is_lost(schema: Schema) -> bool:
    """Return whether a schema that was there is missing, or empty, as ``ensure`` refuses it."""
    with translating(), psycopg.connect(conninfo(schema.url, "hookline renew"), autocommit=True) as turn:
        return _is_empty(turn, schema) and _part_is_noted(turn, schema)


def forget_part(schema: Schema) -> None:
    """Let a missing schema be made anew at the next start."""
    with translating(), psycopg.connect(conninfo(schema.url, "hookline renew"), autocommit=True) as turn:
        turn.execute("DELETE FROM hookline.parts WHERE name = %s", (schema.which,))


def _part_is_noted(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> bool:
    if turn.execute("SELECT to_regclass('hookline.parts')").fetchone() == (None,):
        return False
    return turn.execute("SELECT 1 FROM hookline.parts WHERE name = %s", (schema.which,)).fetchone() is not None


def _is_empty(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> bool:
    """Return whether a schema is still to be made, or was made by an administrator and nothing is in it yet."""
    return turn.execute(_FIRST_THING_IN, (schema.name, schema.name)).fetchone() is None


def begin_count(schema: Schema, commits: Commits) -> None:
    """Take up the count of this data folder's commits from what the schema has."""
    with translating(), open_session(conninfo(schema.url, f"hookline {schema.which}")) as session:
        commit_mark.begin_count(session, schema.which, commits)


def create(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> None:
    """Make the newest tables of a schema in which nothing is, and it too where it is not there."""
    functions = Path(__file__).with_name("functions.sql").read_text()
    with turn.transaction():
        if turn.execute("SELECT to_regnamespace(%s)", (schema.name,)).fetchone() == (None,):
            turn.execute(f"CREATE SCHEMA {schema.name}")
        turn.execute(f"SET LOCAL search_path = {schema.name}")
        turn.execute(functions.encode())
        _take_steps(turn, schema, None)


def _take_steps(turn: psycopg.Connection[tuple[object, ...]], schema: Schema, number: int | None) -> None:
    with turn.transaction():
        turn.execute(f"SET LOCAL search_path = {schema.name}")
        # Without values, so that the server takes all statements of a text at once.
        turn.execute(postgres_steps(schema.which, number).encode())


def _refuse_others_tables(turn: psycopg.Connection[tuple[object, ...]], schema: Schema) -> None:
    """Raise DatabaseUnusable where tables that are to be changed belong to a role whose rights ours does not have."""
    row = turn.execute(_OWNER_OF_OTHERS, (schema.name,)).fetchone()
    if row is not None:
        raise DatabaseUnusable(
            f"tables in the {schema} have to be brought to this version, which only their owner {row[0]} may do; let an"
            f" administrator run there: GRANT {row[0]} TO {row[1]};"
        )


def _number(schema: Schema) -> int | None:
    connection = connect(schema, read_only=True)
    try:
        return schema_number(connection, schema.which)
    finally:
        connection.close()
