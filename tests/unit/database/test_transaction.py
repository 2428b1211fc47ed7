"""The one way to write several things together, and to read them at one moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hookline
from hookline.database.connect import connect
from hookline.database.connection import Connection, one_moment, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.sqlite import engine
from tests.unit.conftest import LocationOf

ROW = "INSERT INTO lane_numbers (id, next) VALUES (1, 5)"
PACKAGE = Path(hookline.__file__).parent


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """A control database, a file and a schema in turn."""
    made = location_of("control")
    ensure(made, "control")
    return made


@pytest.fixture
def connection(location: DatabaseLocation) -> Iterator[Connection]:
    """A connection that writes to it."""
    made = connect(location)
    yield made
    made.close()


def rows(connection: Connection) -> int:
    """How many rows there are."""
    ((count,),) = connection.execute("SELECT count(*) FROM lane_numbers").fetchall()
    return int(count)


def test_an_exception_undoes_all_of_it(connection: Connection) -> None:
    """And the next transaction begins as if nothing had been."""
    with pytest.raises(engine.Error), transaction(connection) as execute:
        execute(f"{ROW}, (1, 6)")
    assert rows(connection) == 0
    with transaction(connection) as execute:
        execute(ROW)
    assert rows(connection) == 1


def test_a_moment_does_not_see_what_is_committed_meanwhile(location: DatabaseLocation, connection: Connection) -> None:
    """Before and after it everything is seen."""
    reader = connect(location, read_only=True)
    with one_moment(reader):
        assert rows(reader) == 0
        with transaction(connection) as execute:
            execute(ROW)
        assert rows(reader) == 0
    assert rows(reader) == 1
    reader.close()


def test_nobody_begins_a_transaction_by_hand() -> None:
    """But for who asks whether a file may be written, and for who counts."""
    begun = re.compile(r'execute\("BEGIN')
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if begun.search(path.read_text())}
    assert found == {"database/connection.py", "database/installation.py"}
