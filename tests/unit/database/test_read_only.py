"""Reading what another role writes: nothing there is something else than nothing that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.read_only import Followed, ReadOnly
from hookline.database.sqlite import DatabaseUnreadable, OperationalError
from tests.unit.conftest import LocationOf

LETTERS = "SELECT count(*) FROM dead_letters"


def as_if_of(location: DatabaseLocation, number: int) -> None:
    """Make a deliver database look like another version's, with one table less."""
    connection = connect(location)
    connection.execute("UPDATE alembic_version SET version_num = ?", (f"deliver_{number:04}",))
    connection.execute("ALTER TABLE dead_letters RENAME TO letters_of_another")
    connection.close()


def test_no_database_is_none(bare_location_of: LocationOf) -> None:
    """Before the role that writes it has made it."""
    assert ReadOnly(bare_location_of("deliver")).open() is None


@pytest.mark.parametrize("number", [1, 99])
def test_tables_of_another_version_are_unreadable_not_missing(location_of: LocationOf, number: int) -> None:
    """What is not there in another version's tables is no defect of ours; what is there is read."""
    ensure(place := location_of("deliver"), "deliver")
    as_if_of(place, number)
    connection = (database := ReadOnly(place)).open()
    assert connection is not None
    assert connection.execute("SELECT count(*) FROM letters_of_another").fetchone() == (0,)
    with pytest.raises(DatabaseUnreadable, match=f"schema {number}, this one knows"):
        connection.execute(LETTERS)
    database.close()


def test_a_mistake_of_ours_is_one(location_of: LocationOf) -> None:
    """A statement that fails on tables of this version is not explained away."""
    ensure(place := location_of("deliver"), "deliver")
    connection = (database := ReadOnly(place)).open()
    assert connection is not None
    with pytest.raises(OperationalError) as caught:
        connection.execute("SELECT nothing FROM dead_letters")
    assert not isinstance(caught.value, DatabaseUnreadable)
    database.close()


@pytest.mark.parametrize("content", [b"", b"this is no database, whatever its name says" * 100])
def test_a_file_that_is_no_database_is_not_empty(tmp_path: Path, content: bytes) -> None:
    """A follower is told so, each time, until there is one."""
    path = tmp_path / "control.db"
    path.write_bytes(content)
    followed = Followed(path, "control")
    for _ in range(2):
        with pytest.raises(DatabaseUnreadable), followed.reading():
            raise AssertionError("nothing can be read")
    path.unlink()
    ensure(path, "control")
    with followed.reading() as connection:
        assert connection.execute("SELECT count(*) FROM versions").fetchone() == (0,)
    followed.close()
