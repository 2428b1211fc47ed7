"""The write-ahead log goes into the file beside the reading of batches, and does not grow without end."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.sqlite import Connection, connect
from hookline.people.store import store as profile_store
from hookline.people.store.batch import Batch, ReadPosition
from hookline.people.store.store import ProfileStore

PEOPLE = 500
"""Of a batch: more than a few pages."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileStore:
    """A store that writes the log back once it has ten pages."""
    monkeypatch.setattr(profile_store, "LOG_PAGES", 10)
    return ProfileStore(tmp_path / "profiles.db")


def write(store: ProfileStore, number: int) -> None:
    """Write a batch of people."""
    batch = Batch()
    batch.positions = {0: ReadPosition(number)}
    batch.persons = {number * PEOPLE + each: 1 for each in range(1, PEOPLE + 1)}
    store.write(batch)


def pages(connection: Connection) -> tuple[int, int]:
    """Pages of the log, and how many of them are in the file."""
    _, log, written = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchone()
    return log, written


def test_the_log_begins_anew(store: ProfileStore) -> None:
    """After every few batches it is in the file as a whole, so what comes next is written over it."""
    longest = 0
    for number in range(100):
        write(store, number)
        longest = max(longest, pages(store.connection)[0])
    written = store.connection.execute("PRAGMA page_count").fetchone()[0]
    assert longest < 60 < written
    store.close()


def test_it_goes_on_behind_a_reader(store: ProfileStore, tmp_path: Path) -> None:
    """What somebody reads stays as it was; the log is written back once nobody needs the older pages."""
    write(store, 0)
    with closing(connect(tmp_path / "profiles.db", read_only=True)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM persons").fetchone() == (PEOPLE,)
        for number in range(1, 10):
            write(store, number)
        assert reader.execute("SELECT count(*) FROM persons").fetchone() == (PEOPLE,)
        log, in_file = pages(store.connection)
        assert in_file < log
    for number in range(10, 12):
        write(store, number)
    store.overwrite_gaps()
    assert store.connection.execute("SELECT count(*) FROM persons").fetchone() == (12 * PEOPLE,)
    assert pages(store.connection) == (0, 0)
    store.close()
    store.close()
