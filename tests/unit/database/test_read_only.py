"""Reading what another role writes: nothing there is something else than nothing that can be read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.database.read_only import SETTLED_NS, ChangeFeed, Followed, ReadOnly
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


def test_a_file_that_nobody_writes_to_is_not_opened_for_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until something is committed, which the next look sees; and now and then all the same, for it may be locked."""
    ensure(place := tmp_path / "control.db", "control")
    writer = connect(place)
    writer.execute("INSERT INTO replay_changes (id, next) VALUES (1, 1)")
    long_ago = time.time_ns() - 2 * SETTLED_NS
    os.utime(f"{place}-wal", ns=(long_ago, long_ago))
    looks: list[int] = []

    def number(connection: Connection) -> int:
        return int(connection.execute("SELECT next FROM replay_changes").fetchone()[0])

    feed = ChangeFeed(place, "control", number, number)
    real = feed.mark
    monkeypatch.setattr(feed, "mark", lambda connection: looks.append(1) or real(connection))
    assert [feed.poll(), feed.poll(), feed.poll(), len(looks)] == [1, None, None, 1]
    writer.execute("UPDATE replay_changes SET next = 2")
    assert [feed.poll(), feed.poll(), len(looks)] == [2, None, 3]
    os.utime(f"{place}-wal", ns=(long_ago, long_ago))
    monkeypatch.setattr("hookline.database.read_only.POLL_SECONDS", 0.0)
    assert [feed.poll(), feed.poll(), len(looks)] == [None, None, 5]
    feed.forget()
    assert feed.poll() == 2
    feed.close()
    writer.close()
