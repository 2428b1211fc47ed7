"""Filters over sealed runs: they save look-ups, survive what a process writes, and are filled again when in doubt."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from hookline.index import bloom_filters
from hookline.index.bloom_filters import COLUMNS_PER_FLUSH, RUNS_MAX, FilterPositions, rows_for, rows_of
from hookline.index.duplicates import DISK_RETRY_SECONDS, Duplicates, SealedRuns
from hookline.index.keys import keys_of
from hookline.journal.record import Record
from tests.unit.index.conftest import RUN_EVENTS, Open, finish
from tests.unit.index.journal_in_memory import JournalInMemory, record
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]

RUNS = COLUMNS_PER_FLUSH + 3


def _fill(index: Duplicates, journal: JournalInMemory, runs: int) -> None:
    for _ in range(runs):
        first = len(journal.records)
        journal.records += [record(f"m{first + n}") for n in range(RUN_EVENTS)]
        index.feed(journal.records[first:], first)
        finish(index)


def _all_are_known(index: Duplicates, journal: JournalInMemory) -> bool:
    first = len(journal.records)
    journal.records += journal.records[:first]
    return index.check(journal.records[first:], first) == [(n, n) for n in range(first)]


def _rows(records: list[Record]) -> FilterPositions:
    return rows_of(keys_of(records), rows_for(RUN_EVENTS))


def _reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other_boot = tmp_path / "boot"
    other_boot.write_text("another boot\n")
    monkeypatch.setattr(bloom_filters, "BOOT_ID", other_boot)


@pytest.mark.parametrize(("events", "rows"), [(1, 1 << 10), (32, 1 << 10), (33, 1 << 11), (131_072, 1 << 22)])
def test_rows(events: int, rows: int) -> None:
    """Rows are a power of two, thirty-two per event or more."""
    assert rows_for(events) == rows


def test_a_filter_rules_out_nearly_all_foreign_records(
    open_index: Open, journal: JournalInMemory, tmp_path: Path
) -> None:
    """Records in no run cost hardly any look-up in a run; those that are in one always name it."""
    _fill(open_index(), journal, RUNS)
    end = len(journal.records)
    sealed = SealedRuns(tmp_path / "0", rows_for(RUN_EVENTS), 1 << 30, end)
    assert sealed.filters.waiting is None
    foreign = [record(f"foreign-{n}") for n in range(2_000)]
    assert len(sealed.filters.candidates(_rows(foreign), end, 0)) < 100
    named = sealed.filters.candidates(_rows(journal.records), end, 0)
    assert all(sealed.runs[n // RUN_EVENTS] in named[n] for n in range(len(journal.records)))


def test_runs_before_the_window_are_passed_over(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """Runs that are too old to matter are not even looked at."""
    _fill(open_index(), journal, 2)
    end = len(journal.records)
    columns = SealedRuns(tmp_path / "0", rows_for(RUN_EVENTS), 1 << 30, end).filters
    received_at = journal.records[0].received_at
    assert len(columns.candidates(_rows(journal.records), end, received_at)) == end
    assert columns.candidates(_rows(journal.records), end, received_at + 1) == {}


def test_more_runs_than_one_filter_takes(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """A further filter file follows, and all runs are found across a restart."""
    _fill(open_index(), journal, RUNS_MAX + 2)
    assert len(list((tmp_path / "0").glob("*.filter"))) == 2
    again = open_index()
    assert not again.work()
    assert _all_are_known(again, journal)


def test_retention_needs_no_room(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter whose runs are all too old goes, though a full disk takes no new manifest: deliver ended over that."""
    index = open_index()
    _fill(index, journal, RUNS_MAX + 2)
    journal.first = RUNS_MAX * RUN_EVENTS
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_room)
        index.retain()
    assert len(list((tmp_path / "0").glob("*.filter"))) == 1
    again = open_index()
    assert not again.work()
    end = len(journal.records)
    journal.records += journal.records[journal.first : end]
    assert again.check(journal.records[end:], end) == [(n, journal.first + n) for n in range(end - journal.first)]


def _no_room(_: int) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_after_a_crash_of_the_machine_unflushed_columns_are_filled_again(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits that never reached the disk are not trusted after another boot; nothing is forgotten meanwhile or after."""
    _fill(open_index(), journal, RUNS)
    path = next((tmp_path / "0").glob("*.filter"))
    cells = memoryview(bytearray(path.read_bytes())).cast("I")
    for row in range(len(cells)):
        cells[row] &= (1 << COLUMNS_PER_FLUSH) - 1  # the lost columns
    path.write_bytes(cells)
    _reboot(tmp_path, monkeypatch)
    again = open_index()
    assert again.check(journal.records, 0) == []
    finish(again)
    columns = bloom_filters.Manifest.load(tmp_path / "0").filters[0].columns
    assert len(columns) == RUNS
    assert _all_are_known(again, journal)


FAULTS = ("no manifest", "garbage", "newer", "no filter", "cut filter", "bad sector", "other byte order")


@pytest.mark.parametrize("fault", FAULTS)
def test_filters_in_doubt_are_made_anew(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, bad_pages: BadPages, fault: str
) -> None:
    """Whatever happened to manifest or filters, the runs alone suffice to recognise every repeat."""
    _fill(open_index(), journal, 3)
    path, filter_ = tmp_path / "0" / bloom_filters.NAME, next((tmp_path / "0").glob("*.filter"))
    content = msgspec.json.decode(path.read_bytes())
    match fault:
        case "no manifest":
            path.unlink()
        case "garbage":
            path.write_bytes(b"{")
        case "newer":
            path.write_bytes(msgspec.json.encode({**content, "version": 99}))
        case "other byte order":
            path.write_bytes(msgspec.json.encode({**content, "byteorder": "middle"}))
        case "no filter":
            filter_.unlink()
        case "cut filter":
            filter_.write_bytes(b"\0" * 8)
        case "bad sector":
            (tmp_path / "held").hardlink_to(filter_)
            bad_pages.add(filter_)
    again = open_index()
    assert again.work()
    finish(again)
    assert _all_are_known(again, journal)
    assert len(list((tmp_path / "0").glob("*.filter"))) == 1
    assert fault != "bad sector" or (tmp_path / "held").stat().st_nlink == 1


def test_resting_forgets_nothing(open_index: Open, journal: JournalInMemory) -> None:
    """Giving memory back changes no answer."""
    index = open_index()
    _fill(index, journal, 3)
    index.rest()
    assert _all_are_known(index, journal)


def test_a_column_that_is_not_whole_is_never_trusted_after_a_crash_of_the_machine(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While new records still come in a later column may be whole; flushed counts only up to the first that is not."""
    index = open_index()
    _fill(index, journal, COLUMNS_PER_FLUSH - 2)
    journal.records.append(record("open"))
    assert index.check(journal.records[-1:], len(journal.records) - 1) == []
    columns = index._sealed.filters
    run = index._sealed.runs[0]
    columns.drop(run)
    columns._without[run] = None  # as if its column had been lost
    finish(index)
    entry = bloom_filters.Manifest.load(tmp_path / "0").filters[0]
    assert entry.columns[-1] == run.path.name
    assert (len(entry.columns), entry.columns[-2], entry.flushed) == (COLUMNS_PER_FLUSH, "", 0)


def test_what_was_never_sealed_leaves_no_column(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """The column of records that were lost with the process is used again, and its old bits only cost look-ups."""
    index = open_index()
    _fill(index, journal, 1)
    for n in range(3):
        index.check([record(f"lost-{n}")], index.next_offset)
    again = open_index()
    journal.records += [record(f"lost-{n}") for n in range(RUN_EVENTS)]
    assert again.check(journal.records[RUN_EVENTS:], RUN_EVENTS) == []
    finish(again)
    assert len(bloom_filters.Manifest.load(tmp_path / "0").filters[0].columns) == 2
    assert _all_are_known(again, journal)


def test_an_unreadable_run_gets_no_column(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """When filling fails the run goes on without; the failure is told, and the others stay known."""
    _fill(open_index(), journal, 2)
    (tmp_path / "0" / bloom_filters.NAME).unlink()
    now = [0.0]
    index = open_index(clock=lambda: now[0])
    path = min((tmp_path / "0").glob("*.run"))
    path.write_bytes(path.read_bytes()[:100])
    for now[0] in range(0, 40 * int(DISK_RETRY_SECONDS), int(DISK_RETRY_SECONDS)):
        assert not index.work()
    assert "cut" in (index.failure or "")
    assert len(list((tmp_path / "0").glob("*.filter"))) == 1
    first = len(journal.records)
    journal.records += journal.records[:first]
    assert index.check(journal.records[first:], first) == [(n, n) for n in range(RUN_EVENTS, first)]
