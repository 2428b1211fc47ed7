"""The schema of a database: its number, and the steps that lead to the newest one.

The steps are the numbered SQL files in ``migrations/<which>``, and nothing else says what the tables are: an older
database takes those behind its number, a new one all of them. What the first ones come to may stand beside them as
``base_<number>.sql``, where a new database begins: a table is made at once more quickly than it is altered. Steps are
forward only, and none is changed any more once others have taken it. A ``step_<number>.py`` moves rows in SQLite files
after the SQL of its number.

The files are written for SQLite, and for PostgreSQL a few words are others (``_ON_POSTGRESQL``). A line that ends in
``-- sqlite`` or ``-- postgresql`` is for that one alone. A statement ends with a semicolon at the end of a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Literal, get_args

from hookline.database import sqlite
from hookline.database.connect import is_file
from hookline.database.connection import Connection, transaction
from hookline.database.location import Which
from hookline.database.sqlite import DatabaseAway, DatabaseError, DatabaseTooNew, engine

_FOLDER = os.path.join(os.path.dirname(__file__), "migrations")
_FILES: dict[Which, list[str]] = {which: sorted(os.listdir(f"{_FOLDER}/{which}")) for which in get_args(Which)}
_STEPS: dict[Which, list[str]] = {
    which: [name for name in names if name[0].isdigit() and name.endswith(".sql")] for which, names in _FILES.items()
}
HEADS: dict[Which, int] = {which: len(names) for which, names in _STEPS.items()}
"""The newest schema of each database: the number of its last step."""

# Texts are compared and ordered by their bytes, as SQLite does, whatever the language of a database on PostgreSQL is.
_ON_POSTGRESQL = {
    "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT": "BIGSERIAL NOT NULL PRIMARY KEY",
    "TEXT": 'TEXT COLLATE "C"',
    "BLOB": "BYTEA",
    "WITHOUT ROWID": "",
}
_WORDS = re.compile(rf"\b({'|'.join(_ON_POSTGRESQL)})\b")
_ELSEWHERE = {"sqlite": "-- postgresql", "postgresql": "-- sqlite"}

# The name and the form of what is in it are those of all versions: an older one that meets a newer schema must see that
# it is one, and stand by.
_NUMBER = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
DELETE FROM alembic_version;
INSERT INTO alembic_version (version_num) VALUES ('{which}_{number:04}');
"""
_IS_OURS = "SELECT 1 FROM sqlite_schema WHERE name = 'alembic_version'"
_IS_OUR_SCHEMA = "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'alembic_version'"


def schema_number(connection: Connection, which: Which) -> int | None:
    """Return the number of the last step taken; 0 before the first, None when it is not a ``which`` database."""
    if connection.execute(_IS_OURS if is_file(connection) else _IS_OUR_SCHEMA).fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    if row is None:
        return 0
    name, _, number = str(row[0]).partition("_")
    return int(number) if name == which and number.isdigit() else None


def is_current(connection: Connection, which: Which) -> bool:
    """Return whether it is exactly the schema that this version knows: what a move asks before it copies."""
    return schema_number(connection, which) == HEADS[which]


def needs_migration(number: int | None, which: Which, name: str) -> bool:
    """Return whether a database with the schema of this number is older than this version; raise for one that is not
    ours, or newer."""
    if number is None:
        raise DatabaseError(f"{name} is not Hookline's {which} database; move it away or choose another data folder")
    if number > HEADS[which]:
        raise DatabaseTooNew(
            f"{name} was written by a newer Hookline (schema {number}, this one knows {HEADS[which]}); "
            "start that version again, or restore a backup made by this one"
        )
    return number < HEADS[which]


def migrate_file(connection: sqlite.Connection, which: Which, number: int | None, last: int | None = None) -> None:
    """Take the steps behind ``number``, None for a new file, in one transaction: whoever fails leaves
    everything as it was. With ``last`` it stops at that one, as an older version left it."""
    with transaction(connection) as execute:
        for name in _way(which, number, last):
            for statement in _text(which, name, "sqlite").split(";\n"):
                execute(statement)
            if (move := f"step_{name[:4]}") + ".py" in _FILES[which]:
                import_module(f"hookline.database.migrations.{which}.{move}").move(connection)
        for statement in _NUMBER.format(which=which, number=last or HEADS[which]).split(";\n"):
            execute(statement)


def postgres_steps(which: Which, number: int | None, last: int | None = None) -> str:
    """Return the statements of the steps behind ``number``, None for a schema in which nothing is."""
    steps = [_text(which, name, "postgresql") for name in _way(which, number, last)]
    return "".join([*steps, _NUMBER.format(which=which, number=last or HEADS[which])])


def _way(which: Which, number: int | None, last: int | None) -> list[str]:
    """Return the names of the files to take, in their order."""
    base = [name for name in _FILES[which] if number is None and name.startswith("base_")]
    begin = int(base[0][5:9]) if base else number or 0
    return [*base, *_STEPS[which][begin:last]]


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Say in an error that this database could not be brought to the newest schema, and whether it may be later."""
    try:
        yield
    except DatabaseAway as away:
        raise DatabaseAway(f"{name} could not be brought to the schema of this version yet: {away}") from away
    except (engine.Error, ArithmeticError, ValueError) as error:  # also of a row that cannot be moved
        reason = f"{name} could not be brought to the schema of this version and is unchanged: {error}"
        raise DatabaseError(reason) from error


def _text(which: Which, name: str, dialect: Literal["sqlite", "postgresql"]) -> str:
    with open(f"{_FOLDER}/{which}/{name}", encoding="utf-8") as file:
        text = file.read()
    if " -- " in text:
        lines = [line for line in text.splitlines() if not line.endswith(_ELSEWHERE[dialect])]
        text = "\n".join(line.removesuffix(f" -- {dialect}") for line in lines) + "\n"
    return text if dialect == "sqlite" else _WORDS.sub(lambda found: _ON_POSTGRESQL[found[0]], text)
