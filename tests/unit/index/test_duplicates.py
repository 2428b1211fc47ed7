"""What is a duplicate, wherever the earlier record is indexed, and what disk faults and retention do to it."""

from __future__ import annotations

import errno
import itertools
import os
from pathlib import Path

import pytest

from hookline.index.duplicates import DISK_RETRY_SECONDS, FROZEN_MAX, Duplicates
from hookline.journal.record import Record
from tests.unit.index.conftest import RUN_EVENTS, WINDOW_SECONDS, Open, finish, forget_users
from tests.unit.index.journal_in_memory import JournalInMemory, record
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]


def _take(index: Duplicates, journal: JournalInMemory, records: list[Record]) -> list[tuple[int, int]]:
    first = len(journal.records)
    journal.records += records
    return index.check(records, first)


def _fill_a_run(index: Duplicates, journal: JournalInMemory, seconds: float = 0) -> None:
    first = len(journal.records)
    assert _take(index, journal, [record(f"fill-{first + n}", seconds) for n in range(RUN_EVENTS)]) == []


def _no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_repeats_in_one_group_and_across_groups(open_index: Open, journal: JournalInMemory) -> None:
    """A repeat names its index in the group and the first offset, right away."""
    index = open_index()
    assert _take(index, journal, [record("a"), record("b"), record("a")]) == [(2, 0)]
    assert _take(index, journal, [record("c"), record("b"), record("a")]) == [(1, 1), (2, 0)]


@pytest.mark.parametrize("steps", [0, 1, 3, 10_000])
def test_repeats_of_frozen_and_sealed_records(open_index: Open, journal: JournalInMemory, steps: int) -> None:
    """A repeat is recognised at every stage of sealing."""
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    for _ in range(steps):
        index.work(0)
    assert _take(index, journal, [record("x"), record("a")]) == [(1, 0)]


def test_a_re_read_is_not_its_own_duplicate(open_index: Open, journal: JournalInMemory) -> None:
    """Reading the same offsets again, sealed or not, gives the same answers as the first time."""
    index = open_index()
    records = [record("a"), record("b"), record("a"), *[record(f"m{n}") for n in range(RUN_EVENTS)], record("b")]
    first_answers = _take(index, journal, records)
    assert first_answers == [(2, 0), (len(records) - 1, 1)]
    assert index.check(records, 0) == first_answers
    finish(index)
    assert index.check(records, 0) == first_answers
    assert index.check(records[2:], 2) == [(0, 0), (len(records) - 3, 1)]


def test_a_group_that_is_partly_known(open_index: Open, journal: JournalInMemory) -> None:
    """A group whose beginning was indexed before is answered as a whole."""
    index = open_index()
    _take(index, journal, [record("a"), record("b")])
    journal.records += [record("a"), record("c"), record("b")]
    assert index.check(journal.records[1:], 1) == [(1, 0), (3, 1)]
    assert index.next_offset == 5


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(("seconds", "expected"), [(WINDOW_SECONDS, [(0, 0)]), (WINDOW_SECONDS + 0.001, [])])
def test_the_window_ends_exactly(
    open_index: Open, journal: JournalInMemory, sealed: bool, seconds: float, expected: list[tuple[int, int]]
) -> None:
    """The window is journal time between the two records, to the millisecond."""
    index = open_index()
    _take(index, journal, [record("a", 0)])
    if sealed:
        _fill_a_run(index, journal, seconds)
        finish(index)
    assert _take(index, journal, [record("a", seconds)]) == expected


def test_after_the_window_the_next_repeat_counts_from_the_newer_one(open_index: Open, journal: JournalInMemory) -> None:
    """An old first occurrence does not hide a newer one within the window."""
    index = open_index()
    late = WINDOW_SECONDS * 2
    _take(index, journal, [record("a", 0)])
    assert _take(index, journal, [record("a", late)]) == []
    assert _take(index, journal, [record("a", late + 1)]) == [(0, 1)]
    _fill_a_run(index, journal, late + 1)
    finish(index)
    assert _take(index, journal, [record("a", late + 2)]) == [(0, 2)]


def test_rejected_and_erased_records_do_not_count(open_index: Open, journal: JournalInMemory) -> None:
    """A corrected resend of a rejected item is delivered; what was rejected or erased is never a duplicate itself."""
    index = open_index()
    erased = record("b")
    erased.erased = True
    assert _take(index, journal, [record("a", rejected=True), erased, record("a"), record("b")]) == []
    assert _take(index, journal, [record("a", rejected=True), erased, record("a"), record("b")]) == [(2, 2), (3, 3)]
    _fill_a_run(index, journal)
    finish(index)
    assert _take(index, journal, [record("a", rejected=True), record("a")]) == [(1, 2)]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_repeat_of_a_record_that_was_erased_is_none(
    open_index: Open, journal: JournalInMemory, is_sealed: bool
) -> None:
    """Before a restart as well as after it, and a repeat of the repeat is one again."""
    index = open_index()
    _take(index, journal, [record("a"), record("b")])
    if is_sealed:
        _fill_a_run(index, journal)
        finish(index)
    journal.records[0].erased = True
    assert forget_users(index, [0])
    first = len(journal.records)
    assert _take(index, journal, [record("a"), record("b"), record("a")]) == [(1, 1), (2, first)]


def test_in_doubt_it_is_not_a_duplicate(open_index: Open, journal: JournalInMemory) -> None:
    """When only the earlier record could tell its time and it is gone, the event is delivered."""
    index = open_index()
    _take(index, journal, [record("old", 0), record("a", WINDOW_SECONDS), record("b", WINDOW_SECONDS)])
    _fill_a_run(index, journal, WINDOW_SECONDS + 2)
    finish(index)
    assert _take(index, journal, [record("a", WINDOW_SECONDS + 3)]) == [(0, 1)]
    journal.first = 3
    assert _take(index, journal, [record("b", WINDOW_SECONDS + 3)]) == []


def test_a_restart_goes_on_from_the_last_run(open_index: Open, journal: JournalInMemory) -> None:
    """After a restart runs answer at once, and what was not sealed is fed from the journal."""
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    finish(index)
    _take(index, journal, [record("b")])
    again = open_index()
    assert again.next_offset == RUN_EVENTS + 1
    again.feed(journal.records[again.next_offset :], again.next_offset)
    assert _take(again, journal, [record("a"), record("b")]) == [(0, 0), (1, RUN_EVENTS + 1)]


def test_runs_past_the_journals_end_are_removed(open_index: Open, journal: JournalInMemory) -> None:
    """Offsets that will be given out again must not be remembered, or new events would pass for repeats."""
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    finish(index)
    del journal.records[1:]
    again = open_index()
    assert again.next_offset == 0
    again.feed(journal.records, 0)
    assert _take(again, journal, [record("fill-1")]) == []


def test_a_full_disk_costs_nothing_but_time(
    open_index: Open, journal: JournalInMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """While runs cannot be written the ranges stay in memory; later they are sealed, and nothing is left behind."""
    now = [0.0]
    index = open_index(clock=lambda: now[0])
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_room)
        finish(index)
    assert "no space" in (index.failure or "")
    assert [path.suffix for path in (tmp_path / "0").iterdir()] == [".filter"]
    assert not index.work()  # not tried again at once
    assert _take(index, journal, [record("a")]) == [(0, 0)]
    now[0] += DISK_RETRY_SECONDS
    finish(index)
    assert index.failure is None
    assert len(list((tmp_path / "0").glob("*.run"))) == 1


def test_a_disk_that_stays_full_bounds_the_memory(
    open_index: Open, journal: JournalInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a few ranges the oldest one is given up: its repeats are delivered, later ones still recognised."""
    index = open_index()
    _take(index, journal, [record("a")])
    monkeypatch.setattr(os, "fsync", _no_room)
    for _ in range(FROZEN_MAX + 2):
        _fill_a_run(index, journal)
    assert index.runs_given_up == 2
    newest = len(journal.records) - 1
    assert _take(index, journal, [record("a"), record(f"fill-{newest}")]) == [(1, newest)]


def test_no_room_for_a_filter(open_index: Open, journal: JournalInMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without a filter column answers all the same."""
    monkeypatch.setattr(os, "posix_fallocate", _no_room)
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    finish(index)
    assert _take(index, journal, [record("b"), record("a")]) == [(1, 0)]


def test_without_room_for_a_filter_it_follows_later(
    open_index: Open, journal: JournalInMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run that began without a column gets one from its own keys when there is room again."""
    index = open_index()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", _no_room)
        assert _take(index, journal, [record("a"), record("a")]) == [(1, 0)]
        _fill_a_run(index, journal)
    finish(index)
    assert "0000-" in (tmp_path / "0" / "manifest.json").read_text()
    assert _take(index, journal, [record("b"), record("a")]) == [(1, 0)]


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_cannot_be_read_is_in_doubt(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, again: bool
) -> None:
    """When the file of a run was cut its repeats are delivered, whether they are new or read again; others are not."""
    index = open_index()
    _take(index, journal, [record("a"), record("a")])
    _fill_a_run(index, journal)
    finish(index)
    _take(index, journal, [record("b")])
    os.truncate(next((tmp_path / "0").glob("*.run")), 100)
    if again:
        assert index.check(journal.records[:3], 0) == []
    else:
        assert _take(index, journal, [record("a"), record("b")]) == [(1, RUN_EVENTS + 2)]
    assert "cut" in (index.failure or "")


def test_runs_of_an_older_version_are_made_anew(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """A file of version 1 is removed, and what it covered is fed from the journal again."""
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    finish(index)
    path = next((tmp_path / "0").glob("*.run"))
    data = bytearray(path.read_bytes())
    data[8] = 1
    path.write_bytes(data)
    again = open_index()
    assert (again.next_offset, path.exists()) == (0, False)
    again.feed(journal.records, 0)
    assert _take(again, journal, [record("a")]) == [(0, 0)]


def test_a_run_on_a_bad_sector_is_made_anew(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, bad_pages: BadPages
) -> None:
    """Deliver ended as often as it was started."""
    index = open_index()
    _take(index, journal, [record("a")])
    _fill_a_run(index, journal)
    finish(index)
    path = next((tmp_path / "0").glob("*.run"))
    bad_pages.add(path)
    again = open_index()
    assert (again.next_offset, path.exists()) == (0, False)
    again.feed(journal.records, 0)
    assert _take(again, journal, [record("a")]) == [(0, 0)]


def test_bytes_are_capped_and_the_real_window_is_told(open_index: Open, journal: JournalInMemory) -> None:
    """The oldest runs go first; how far back repeats are still recognised is shown."""
    now_ms = record("x", 1000).received_at
    index = open_index(bytes_max=8_000)
    assert index.window_seconds_real(now_ms) == WINDOW_SECONDS
    for n in range(20):
        _fill_a_run(index, journal, seconds=n * 10)
        finish(index)
    assert index.size_bytes <= 8_000
    assert 0 < index.window_seconds_real(now_ms) < WINDOW_SECONDS
    assert _take(index, journal, [record("fill-0", 200), record(f"fill-{19 * RUN_EVENTS}", 200)]) == [
        (1, 19 * RUN_EVENTS)
    ]


def test_runs_below_the_journals_start_are_dropped(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """Retention of the journal takes the runs with it, also across a restart."""
    index = open_index()
    for _ in range(3):
        _fill_a_run(index, journal)
        finish(index)
    journal.first = 2 * RUN_EVENTS + 1
    again = open_index()
    assert [path.name[:20] for path in (tmp_path / "0").glob("*.run")] == [f"{2 * RUN_EVENTS:020d}"]
    assert again.next_offset == 3 * RUN_EVENTS


def test_retention_amid_sealing_is_put_off(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """A run or filter that is being worked on is not taken away; afterwards everything too old is gone."""
    index = open_index()
    _fill_a_run(index, journal)
    finish(index)
    _fill_a_run(index, journal)
    journal.first = RUN_EVENTS
    steps = 0
    while index.work(0):
        index.retain()
        steps += 1
    assert steps > 5
    index.retain()
    assert [path.name[:20] for path in (tmp_path / "0").glob("*.run")] == [f"{RUN_EVENTS:020d}"]


def test_sealing_keeps_pace_with_a_reader(open_index: Open, journal: JournalInMemory) -> None:
    """One call of work after each group is enough for ranges not to pile up, when a step takes 20 µs."""
    ticks = itertools.count()
    index = open_index(run_events=4_096, clock=lambda: next(ticks) * 20e-6)
    for group in range(64):
        first = len(journal.records)
        journal.records += [record(f"m{first + n}") for n in range(512)]
        index.feed(journal.records[first:], first)
        index.work()
        assert index.frozen_ranges <= 2, group  # one that is written, one that waits for the disk


def test_a_gap_left_by_retention(open_index: Open, journal: JournalInMemory) -> None:
    """A reader that retention overtook goes on behind the gap; records on both sides stay known."""
    index = open_index()
    _take(index, journal, [record("a")])
    journal.records += [record(f"gone-{n}") for n in range(50)]
    assert _take(index, journal, [record("b"), record("b"), record("a")]) == [(1, 51), (2, 0)]
    finish(index)
    assert _take(index, journal, [record("b"), record("a")]) == [(0, 51), (1, 0)]


@pytest.mark.parametrize("jump_seconds", [-40 * 86_400, -3_600, 3_600, 40 * 86_400])
def test_a_clock_that_was_set_moves_no_window(open_index: Open, journal: JournalInMemory, jump_seconds: int) -> None:
    """By the service's own clock a repeat is one within the window and none after it, whatever the wall clock says."""
    index = open_index()
    _take(index, journal, [record("a"), record("b")])
    _fill_a_run(index, journal)
    finish(index)
    for message_id, seconds, expected in (("a", WINDOW_SECONDS / 2, [(0, 0)]), ("b", WINDOW_SECONDS + 1, [])):
        again = record(message_id, seconds + jump_seconds)
        again.ahead_ms = jump_seconds * 1000
        assert _take(index, journal, [again]) == expected
