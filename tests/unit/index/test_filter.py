"""Filters over sealed runs: they save look-ups, survive what a process writes, and are filled again when in doubt."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hookline.index import manifest
from hookline.index.duplicates import Duplicates
from hookline.index.filter import RUNS_MAX, rows_for
from hookline.index.sealed_runs import COLUMNS_PER_FLUSH, SealedRuns
from tests.unit.index.conftest import RUN_EVENTS, Open, finish
from tests.unit.index.journal_in_memory import JournalInMemory, record

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


@pytest.mark.parametrize(("events", "rows"), [(1, 1 << 10), (64, 1 << 10), (65, 1 << 11), (131_072, 1 << 21)])
def test_rows(events: int, rows: int) -> None:
    """Rows are a power of two, sixteen per event or more."""
    assert rows_for(events) == rows


def test_a_filter_rules_out_nearly_all_foreign_records(
    open_index: Open, journal: JournalInMemory, tmp_path: Path
) -> None:
    """Records in no run cost hardly any look-up in a run; those that are in one always name it."""
    _fill(open_index(), journal, RUNS)
    sealed = SealedRuns(tmp_path / "0", RUN_EVENTS, 1 << 30, len(journal.records))
    assert not sealed.needs_filling
    foreign = [record(f"foreign-{n}") for n in range(2_000)]
    assert len(sealed.candidates(foreign, 0)) < 100
    named = sealed.candidates(journal.records, 0)
    assert all(sealed.runs[n // RUN_EVENTS] in named[n] for n in range(len(journal.records)))


def test_runs_before_the_window_are_passed_over(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """Runs that are too old to matter are not even looked at."""
    _fill(open_index(), journal, 2)
    sealed = SealedRuns(tmp_path / "0", RUN_EVENTS, 1 << 30, len(journal.records))
    received_at = journal.records[0].received_at
    assert len(sealed.candidates(journal.records, received_at)) == len(journal.records)
    assert sealed.candidates(journal.records, received_at + 1) == {}


def test_more_runs_than_one_filter_takes(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """A further filter file follows, and all runs are found across a restart."""
    _fill(open_index(), journal, RUNS_MAX + 2)
    assert len(list((tmp_path / "0").glob("*.filter"))) == 2
    again = open_index()
    assert not again.work()
    assert _all_are_known(again, journal)


def test_after_a_crash_of_the_machine_unflushed_columns_are_filled_again(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bits that never reached the disk are not trusted after another boot; nothing is forgotten meanwhile or after."""
    _fill(open_index(), journal, RUNS)
    path = next((tmp_path / "0").glob("*.filter"))
    cells = memoryview(bytearray(path.read_bytes())).cast("Q")
    for row in range(len(cells)):
        cells[row] &= (1 << COLUMNS_PER_FLUSH) - 1  # the lost columns
    path.write_bytes(cells)
    other_boot = tmp_path / "boot"
    other_boot.write_text("another boot\n")
    monkeypatch.setattr(manifest, "BOOT_ID", other_boot)
    again = open_index()
    assert again.check(journal.records, 0) == []
    finish(again)
    columns = manifest.Manifest.load(tmp_path / "0").filters[0].columns
    assert len(columns) == RUNS
    assert _all_are_known(again, journal)


@pytest.mark.parametrize("fault", ["no manifest", "garbage", "newer", "no filter", "cut filter", "other byte order"])
def test_filters_in_doubt_are_made_anew(open_index: Open, journal: JournalInMemory, tmp_path: Path, fault: str) -> None:
    """Whatever happened to manifest or filters, the runs alone suffice to recognise every repeat."""
    _fill(open_index(), journal, 3)
    path, filter_ = tmp_path / "0" / manifest.NAME, next((tmp_path / "0").glob("*.filter"))
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
    again = open_index()
    assert again.work()
    finish(again)
    assert _all_are_known(again, journal)
    assert len(list((tmp_path / "0").glob("*.filter"))) == 1


def test_resting_forgets_nothing(open_index: Open, journal: JournalInMemory) -> None:
    """Giving memory back changes no answer."""
    index = open_index()
    _fill(index, journal, 3)
    index.rest()
    assert _all_are_known(index, journal)
