"""The index of repeats goes with a partition: what one worker sealed another one has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.open import ensure
from hookline.deliver.cluster.fence import raise_epoch
from hookline.deliver.cluster.shared_ring import SharedIndexStore
from hookline.index.duplicates import Duplicates
from tests.unit.conftest import LocationOf
from tests.unit.index.conftest import RUN_EVENTS, WINDOW_SECONDS, finish, forget_users
from tests.unit.index.journal_in_memory import JournalInMemory, record
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]

PARTITION = 0


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """A new deliver database."""
    ensure(location_of("deliver"), "deliver")
    return location_of("deliver")


@pytest.fixture
def shelf(location: DatabaseLocation) -> Iterator[SharedIndexStore]:
    """The shelf in it."""
    opened = SharedIndexStore(location)
    yield opened
    opened.close()


@pytest.fixture
def rows(location: DatabaseLocation) -> Iterator[Connection]:
    """What is kept."""
    connection = connect(location)
    yield connection
    connection.close()


def index_of(folder: Path, journal: JournalInMemory) -> Duplicates:
    """An index with small runs."""
    return Duplicates(
        folder, journal, PARTITION, window_seconds=WINDOW_SECONDS, bytes_max=1 << 30, run_events=RUN_EVENTS
    )


def sealed(folder: Path, runs: int = 2) -> JournalInMemory:
    """A journal so many runs long and a bit more, indexed in a folder."""
    journal = JournalInMemory()
    journal.records += [record(f"m{number}") for number in range(runs * RUN_EVENTS + 3)]
    index = index_of(folder, journal)
    for first in range(0, len(journal.records), RUN_EVENTS):
        index.check(journal.records[first : first + RUN_EVENTS], first)
        finish(index)
    index.close()
    return journal


def test_what_one_worker_sealed_another_one_knows(tmp_path: Path, shelf: SharedIndexStore, rows: Connection) -> None:
    """Runs come from the database, so that only what was not sealed is read from the journal again."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    journal = sealed(tmp_path / "one")
    shelf.keep(PARTITION, epoch, tmp_path / "one", 0)
    assert shelf.fetch(PARTITION, tmp_path / "two", 0) == 2
    index = index_of(tmp_path / "two", journal)
    assert index.next_offset == 2 * RUN_EVENTS
    end = len(journal.records)
    index.read_up_to(end)
    journal.records += [record("m1"), record("new"), record(f"m{2 * RUN_EVENTS}")]
    assert index.check(journal.records[end:], end) == [(0, 1), (2, 2 * RUN_EVENTS)]
    index.close()
    assert shelf.fetch(PARTITION, tmp_path / "two", 0) == 0


def test_runs_of_a_later_owner_take_the_place_of_ones_own(
    tmp_path: Path, shelf: SharedIndexStore, rows: Connection
) -> None:
    """An earlier owner adds nothing any more, and drops what is not kept when it takes the partition up again."""
    outdated = raise_epoch(rows, PARTITION, "one", 0)
    raise_epoch(rows, PARTITION, "two", 0)
    sealed(tmp_path / "one")
    shelf.keep(PARTITION, outdated, tmp_path / "one", 0)
    assert rows.execute("SELECT count(*) FROM index_runs").fetchone()[0] == 0
    assert shelf.fetch(PARTITION, tmp_path / "one", 0) == 0
    assert list((tmp_path / "one").glob("*.run")) == []


def test_what_the_journal_dropped_is_not_kept(tmp_path: Path, shelf: SharedIndexStore, rows: Connection) -> None:
    """Runs below what the journal begins with are neither brought nor kept."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    sealed(tmp_path / "one")
    shelf.keep(PARTITION, epoch, tmp_path / "one", 0)
    assert shelf.fetch(PARTITION, tmp_path / "two", RUN_EVENTS) == 1
    shelf.keep(PARTITION, epoch, tmp_path / "two", RUN_EVENTS)
    assert rows.execute("SELECT first_offset FROM index_runs").fetchall() == [(RUN_EVENTS,)]


def test_runs_that_tell_whose_events_were_are_dropped_by_those_who_do_not_deliver_them(
    tmp_path: Path, shelf: SharedIndexStore, rows: Connection
) -> None:
    """The owner has overwritten its own; an earlier one has them still, and keeps those that are as ever."""
    epoch = raise_epoch(rows, PARTITION, "two", 0)
    journal = sealed(tmp_path / "two")
    shelf.keep(PARTITION, epoch, tmp_path / "two", 0)
    assert shelf.fetch(PARTITION, tmp_path / "one", 0) == 2
    index = index_of(tmp_path / "two", journal)
    assert forget_users(index, [3])
    index.close()
    shelf.renew(PARTITION, epoch, tmp_path / "two", [3])
    shelf.drop_stale(PARTITION, tmp_path / "one", 3, 4)
    (left,) = (tmp_path / "one").glob("*.run")
    assert left.name.startswith(f"{RUN_EVENTS:020d}")
    shelf.drop_stale(PARTITION, tmp_path / "two", 3, 4)
    assert len(list((tmp_path / "two").glob("*.run"))) == 2


def test_an_erasure_writes_the_runs_that_it_changed(tmp_path: Path, shelf: SharedIndexStore, rows: Connection) -> None:
    """Those between them hold nothing of it, and are left as they are kept; so are all where a step is done again."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    folder = tmp_path / "one"
    journal = sealed(folder, runs=4)
    shelf.keep(PARTITION, epoch, folder, 0)
    erased = [3, 3 * RUN_EVENTS + 3]
    index = index_of(folder, journal)
    assert forget_users(index, erased)
    index.close()
    for expected in [(0,), (3 * RUN_EVENTS,)], []:
        rows.execute("UPDATE index_runs SET run = ?", (b"",))
        shelf.renew(PARTITION, epoch, folder, erased)
        written = rows.execute("SELECT first_offset FROM index_runs WHERE run <> ? ORDER BY first_offset", (b"",))
        assert written.fetchall() == expected


def test_a_run_that_is_gone_tells_nobody_whose_events_were_erased(
    tmp_path: Path, shelf: SharedIndexStore, rows: Connection
) -> None:
    """Its bytes were too many, or its disk failed: what the database kept of it nobody overwrote, and others got it."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    sealed(tmp_path / "one")
    shelf.keep(PARTITION, epoch, tmp_path / "one", 0)
    for path in (tmp_path / "one").glob("*.run"):
        path.unlink()
    shelf.renew(PARTITION, epoch, tmp_path / "one", [3])
    assert rows.execute("SELECT first_offset FROM index_runs").fetchall() == [(RUN_EVENTS,)]


def test_a_run_on_a_bad_sector_comes_from_the_database(
    tmp_path: Path, shelf: SharedIndexStore, rows: Connection, bad_pages: BadPages
) -> None:
    """Whoever had it could not take the partition up, as often as it tried."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    journal = sealed(tmp_path / "one")
    shelf.keep(PARTITION, epoch, tmp_path / "one", 0)
    bad_pages.add(run_of(tmp_path / "one", 0))
    assert shelf.fetch(PARTITION, tmp_path / "one", 0) == 1
    index = index_of(tmp_path / "one", journal)
    assert index.next_offset == 2 * RUN_EVENTS
    index.close()


def test_a_run_on_a_bad_sector_holds_up_no_other(
    tmp_path: Path, shelf: SharedIndexStore, rows: Connection, bad_pages: BadPages
) -> None:
    """Those behind it are kept; and where an event in it is erased, what is kept of it goes, and the erasure ends."""
    epoch = raise_epoch(rows, PARTITION, "one", 0)
    sealed(tmp_path / "one")
    bad_pages.add(run_of(tmp_path / "one", 0))
    shelf.keep(PARTITION, epoch, tmp_path / "one", 0)
    assert rows.execute("SELECT first_offset FROM index_runs").fetchall() == [(RUN_EVENTS,)]
    bad_pages.add(run_of(tmp_path / "one", RUN_EVENTS))
    shelf.renew(PARTITION, epoch, tmp_path / "one", [RUN_EVENTS])
    assert rows.execute("SELECT first_offset FROM index_runs").fetchall() == []


def run_of(folder: Path, first: int) -> Path:
    """The run that begins with an offset."""
    (found,) = folder.glob(f"{first:020d}-*.run")
    return found
