"""kill -9 at each statement of each migration, on both databases: all of it is done or nothing, and no row is lost."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import pytest

from hookline.database import migrate
from hookline.database import open as opening
from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation, Schema, Which
from hookline.database.postgres import schema as opening_schema
from hookline.database.postgres.connection import lock_number
from hookline.database.sqlite import connect as connect_file
from tests.postgres import TEMPLATE, PostgresServer
from tests.unit.database.test_migrate import file_of, schema_of, shape_of, shape_of_file

CLEAN = multiprocessing.get_context("forkserver")
"""Forks processes from one in which no thread runs."""
CLEAN.set_forkserver_preload([__name__])
KILLS_MAX = 200
STRIDE = 7
"""Statements from kill to kill while a database is made: whatever is left of it, it is the same to the next one."""
ENTRY_BYTES = 24
"""Of what a step of ``profiles`` moves: a multiple of it can be cut."""
LONG = "x" * 500
"""Longer than an id may be in a key, which a step of ``profiles`` shortens."""
ROWS = 3


def migrate_until_killed(location: DatabaseLocation, which: Which, head: int, at: int) -> None:
    """Do what a version whose newest step is ``head`` does when it opens a database, killed before the statement ``at``
    of it: before the first, in the middle, before the commit, after it."""
    migrate._STEPS[which], migrate.HEADS[which] = migrate._STEPS[which][:head], head
    left = iter(range(at))

    def strike(*_: Any) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect_traced(path: Path) -> Any:
        connection = connect_file(path)
        connection.set_trace_callback(strike)
        return connection

    def migrate_file(*given: Any) -> None:
        migrate.migrate_file(*given)
        strike()

    def open_session(*given: Any) -> Any:
        session = original(*given)
        execute = session.execute

        def one_by_one(text: str | bytes, *values: Any) -> Any:
            if isinstance(text, bytes) and b"FUNCTION" not in text:
                for statement in filter(bytes.strip, text.split(b";\n")):
                    strike()
                    execute(statement)
                return strike()
            if "hookline.parts" in str(text):  # the first thing after the commit
                strike()
            return execute(text, *values)

        session.execute = one_by_one
        return session

    original, opening_schema.open_session = opening_schema.open_session, open_session  # type: ignore[assignment]
    opening.connect_file, opening.migrate_file = connect_traced, migrate_file  # type: ignore[assignment]
    opening.ensure(location, which)


def kills(location: DatabaseLocation, which: Which, head: int, stride: int = 1) -> Iterator[int]:
    """Kill the migration of a database at one statement after another, or fewer, until one run is done."""
    for at in range(0, KILLS_MAX, stride):
        process = CLEAN.Process(target=migrate_until_killed, args=(location, which, head, at))
        process.start()
        process.join()
        if process.exitcode == 0:
            return
        assert process.exitcode == -signal.SIGKILL
        yield at
    raise AssertionError("it never ended")


def content(location: DatabaseLocation) -> dict[str, Any]:
    """The shape of a database, and all its rows."""
    if isinstance(location, Schema):
        with closing(connect(location)) as connection:
            # What a killed process had begun is undone once the server has noticed that it is gone.
            turn = f"{opening_schema.MAKING_SPACE}, {lock_number(location.which)}"
            connection.execute(f"SELECT pg_advisory_lock({turn}), pg_advisory_unlock({turn})").fetchall()
            shape = shape_of(location)
            names = sorted({row[0] for row in shape if len(row) > 1})
            every = " UNION ALL ".join(f"SELECT '{name}', {name}::text FROM {name}" for name in names)
            return {"": shape, "rows": sorted(connection.execute(every).fetchall())}
    with closing(connect_file(location)) as connection:
        shapes = shape_of_file(location)
        tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in shapes if name}
        return {"": shapes, **{name: sorted(map(repr, found)) for name, found in tables.items()}}


def fill(location: DatabaseLocation, columns: dict[str, Any]) -> None:
    """Put some rows in every table in which there are none."""
    with closing(connect(location)) as connection:
        for table, of_table in columns.items():
            if not table or table in ("alembic_version", "sqlite_sequence"):
                continue
            if connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None:
                continue
            names = ", ".join(f'"{name}"' for _, name, *_ in of_table)
            marks = ", ".join("?" * len(of_table))
            for number in range(1, ROWS + 1):
                values = [value(name, kind, number) for _, name, kind, *_ in of_table]
                connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)


def value(name: str, kind: str, number: int) -> object:
    """What stands in a column of the row with this number."""
    match kind:
        case "TEXT":
            return f"{name} {number} {LONG if number == ROWS else ''}"
        case "BLOB":
            return bytes([number]) * ENTRY_BYTES
        case _:
            return number


@pytest.mark.parametrize("which", get_args(Which))
def test_a_killed_migration_of_a_file_is_done_or_not_begun(tmp_path: Path, which: Which) -> None:
    """After each kill everything is as before; the next version's open does the whole, as if nobody had been killed."""
    _walk(which, lambda name, number: file_of(tmp_path / f"{name}.db", which, number), _step_of_file, tmp_path)


@pytest.mark.parametrize("which", get_args(Which))
def test_a_killed_migration_of_a_schema_is_done_or_not_begun(
    tmp_path: Path, postgres: PostgresServer, which: Which
) -> None:
    """As of a file."""

    def step(schema: DatabaseLocation, which: Which, number: int) -> None:
        assert isinstance(schema, Schema)
        steps = migrate.postgres_steps(which, number - 1, number)
        postgres.run(schema.url, f"SET search_path = {schema.name}; {steps}")

    with postgres.database() as here, postgres.database() as there:
        urls = {"killed": here, "spared": there}
        _walk(which, lambda name, number: schema_of(postgres, urls[name], which, number), step, tmp_path)


@pytest.mark.parametrize("which", get_args(Which))
def test_a_database_whose_making_is_killed_is_made(tmp_path: Path, postgres: PostgresServer, which: Which) -> None:
    """What a killed process left of a new file or schema is in nobody's way."""
    opening.ensure(tmp_path / "new.db", which)
    head = migrate.HEADS[which]
    killed = sum(1 for _ in kills(tmp_path / f"{which}.db", which, head, STRIDE))
    assert shape_of_file(tmp_path / f"{which}.db") == shape_of_file(tmp_path / "new.db")
    with postgres.database(TEMPLATE) as new, postgres.database() as url:
        assert min(killed, sum(1 for _ in kills(Schema(url, which), which, head, STRIDE))) > 1
        assert shape_of(Schema(url, which)) == shape_of(Schema(new, which))


def _walk(
    which: Which,
    made: Callable[[str, int], DatabaseLocation],
    step: Callable[[DatabaseLocation, Which, int], None],
    folder: Path,
) -> None:
    killed, spared = made("killed", 1), made("spared", 1)
    columns = file_of(folder / "columns.db", which, 1)
    for number in range(2, migrate.HEADS[which] + 1):
        for each in (killed, spared):
            fill(each, shape_of_file(columns))
        before = content(killed)
        assert before == content(spared)
        step(spared, which, number)
        after = content(spared)
        count = 0
        for _ in kills(killed, which, number):
            now = content(killed)
            assert now in (before, after)
            count += now == before
        assert count > 3, "killed before the first statement, after the last, and between them"
        assert content(killed) == after
        _step_of_file(columns, which, number)
    opening.ensure(killed, which)
    assert content(killed) == content(spared)


def _step_of_file(path: DatabaseLocation, which: Which, number: int) -> None:
    assert isinstance(path, Path)
    with closing(connect_file(path)) as connection:
        migrate.migrate_file(connection, which, number - 1, number)
