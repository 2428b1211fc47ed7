"""Look-ups by other processes, and the times kept per span."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from sys import byteorder

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.index.chains import SPAN_RECORDS, Times
from hookline.index.duplicates import DISK_RETRY_SECONDS
from hookline.index.keys import user_hash, user_hashes
from hookline.index.lookup import KEYS_SEARCHED_FOR, find, find_all, find_users
from hookline.journal.record import fingerprint
from tests.unit.index.conftest import RUN_EVENTS, Open, finish, forget_users
from tests.unit.index.journal_in_memory import JournalInMemory, record

KEY = fingerprint("website", "a")


@pytest.fixture
def three_runs(open_index: Open, journal: JournalInMemory) -> JournalInMemory:
    """A journal with ``a`` first in each of three runs and in the tail; at the third place it was rejected."""
    index = open_index()
    for run in range(3):
        first = len(journal.records)
        journal.records += [record("a", rejected=run == 2), *[record(f"{run}-{n}") for n in range(RUN_EVENTS - 1)]]
        index.feed(journal.records[first:], first)
        finish(index)
    journal.records += [record("x"), record("a")]
    return journal


def test_runs_and_the_unsealed_tail_are_searched(three_runs: JournalInMemory, tmp_path: Path) -> None:
    """All offsets are found, rejected ones too, and the journal itself is searched only where no run is."""
    assert find(three_runs, tmp_path, 0, KEY) == [0, 8, 16, 25]
    assert three_runs.searched == [(24, 26)]


@pytest.mark.parametrize("others", [0, KEYS_SEARCHED_FOR])
def test_many_messages_are_found_in_one_pass(three_runs: JournalInMemory, tmp_path: Path, others: int) -> None:
    """Where there are many, the tail is read once for all of them."""
    keys = [fingerprint("website", id) for id in ["a", "x", "0-3", *(f"nothing-{number}" for number in range(others))]]
    assert find_all(three_runs, tmp_path, 0, keys) == [0, 4, 8, 16, 24, 25]
    assert three_runs.searched == ([] if others else [(24, 26)] * 3)


def test_of_an_id_that_repeats_without_end_the_oldest_are_found(
    three_runs: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no more is looked at than they take: neither the newer runs nor the journal."""
    monkeypatch.setattr("hookline.index.lookup.OFFSETS_MAX", 2)
    max((tmp_path / "0").glob("*.run")).write_bytes(b"damaged")  # the journal would be searched instead
    assert find(three_runs, tmp_path, 0, KEY) == [0, 8]
    assert three_runs.searched == []


def test_a_lost_run_is_replaced_by_the_journal(three_runs: JournalInMemory, tmp_path: Path) -> None:
    """A range whose run is gone or damaged is searched in the journal."""
    runs = sorted((tmp_path / "0").glob("*.run"))
    runs[0].unlink()
    runs[1].write_bytes(b"damaged")
    assert find(three_runs, tmp_path, 0, KEY) == [0, 8, 16, 25]
    assert three_runs.searched == [(0, 16), (24, 26)]


def test_offsets_that_are_no_longer_kept_are_left_out(three_runs: JournalInMemory, tmp_path: Path) -> None:
    """Retention may have taken a part of a run's range."""
    three_runs.first = 9
    assert find(three_runs, tmp_path, 0, KEY) == [16, 25]


def test_without_any_index_the_journal_answers(tmp_path: Path) -> None:
    """Nothing needs to be indexed yet."""
    assert find(JournalInMemory([record("b"), record("a")]), tmp_path, 0, KEY) == [1]
    assert find(JournalInMemory(), tmp_path, 0, KEY) == []


def test_users_are_found_until_they_are_forgotten(open_index: Open, journal: JournalInMemory, tmp_path: Path) -> None:
    """In runs, in what is not sealed yet, and by the journal alone; forgotten offsets stay unknown when they are sealed
    later, and as long as a range waits to be sealed nothing is promised."""
    index = open_index()
    journal.records = [record(f"m{n}", user=f"u{n % 3}") for n in range(RUN_EVENTS + 4)]
    index.feed(journal.records[: RUN_EVENTS + 2], 0)
    assert not forget_users(index, [0])
    finish(index)
    wanted = frozenset((user_hash("u0"),))
    end = len(journal.records)
    assert list(find_users(journal, tmp_path, 0, wanted, end)) == list(range(0, end, 3))
    assert list(find_users(journal, tmp_path, 0, wanted, 4)) == [0, 3]
    assert forget_users(index, [0, 6, 9])
    index.feed(journal.records[RUN_EVENTS + 2 :], RUN_EVENTS + 2)
    index.feed([record(f"n{n}", user="u1") for n in range(RUN_EVENTS)], end)
    finish(index)
    assert list(find_users(journal, tmp_path, 0, wanted, end)) == [3]
    assert [run.offsets_of_user(user_hash("u0")) for run in index._sealed.runs] == [[3], []]
    index.close()


def test_users_are_forgotten_while_the_index_is_in_use(
    open_index: Open, journal: JournalInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may have events in every run, and each waits for the disk. Runs may be dropped meanwhile."""
    index = open_index()
    journal.records = [record(f"m{n}", user="u") for n in range(2 * RUN_EVENTS)]
    for first in (0, RUN_EVENTS):
        index.feed(journal.records[first : first + RUN_EVENTS], first)
        finish(index)
    disk, fsync = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (disk.wait(10), fsync(descriptor)))
    steps = index.forget_users([3, RUN_EVENTS + 3])
    assert steps is not None
    step = next(steps)
    assert step is not None
    assert not step.done()
    journal.records.append(record("m9"))
    assert index.check(journal.records[-1:], 2 * RUN_EVENTS) == [(0, 9)]
    index._sealed.drop(index._sealed.runs[1])
    disk.set()
    list(steps)
    assert [run.offsets_of_user(user_hash("u")) for run in index._sealed.runs] == [[0, 1, 2, 4, 5, 6, 7]]
    index.close()


@pytest.mark.parametrize("fills", [False, True])
def test_users_are_forgotten_on_a_bad_sector(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fills: bool
) -> None:
    """It cannot be overwritten: the erasure, and all behind it, were tried again for ever. Where the run's column is
    just being filled, that is given up with it."""
    now = [0.0]
    index = open_index(clock=lambda: now[0])
    journal.records = [record(f"m{n}", user=f"u{n % 3}") for n in range(2 * RUN_EVENTS)]
    with monkeypatch.context() as patch:
        if fills:
            patch.setattr(os, "posix_fallocate", _fails(errno.ENOSPC))
        for first in (0, RUN_EVENTS):
            index.feed(journal.records[first : first + RUN_EVENTS], first)
            finish(index)
            now[0] += DISK_RETRY_SECONDS
    assert index.work(0.0) == fills
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _fails(errno.EIO))
        assert forget_users(index, [3])
    finish(index)
    assert [path.name[:20] for path in (tmp_path / "0").glob("*.run")] == [f"{RUN_EVENTS:020d}"]
    assert index.runs_given_up == 1
    journal.records.append(record(f"m{RUN_EVENTS}"))
    assert index.check(journal.records[-1:], 2 * RUN_EVENTS) == [(0, RUN_EVENTS)]
    index.close()


def test_users_are_not_forgotten_as_long_as_the_file_is_there(
    open_index: Open, journal: JournalInMemory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that lets nothing be removed either is asked again: the next start would read whose events they were."""
    index = open_index()
    journal.records = [record(f"m{n}", user=f"u{n % 3}") for n in range(RUN_EVENTS)]
    index.feed(journal.records, 0)
    finish(index)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _fails(errno.EIO))
        with monkeypatch.context() as more:
            more.setattr(Path, "unlink", _fails(errno.EIO))
            for _ in range(2):
                with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                    forget_users(index, [3])
        assert forget_users(index, [3])
    assert list((tmp_path / "0").glob("*.run")) == []
    index.close()


def _fails(number: int) -> Callable[..., int]:
    def fail(*_: object, **more: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("users", [["u1", "ü2", ""], ["u1", "\ud800", "u2"]])
def test_the_hashes_of_users_together_are_those_of_each(users: list[str]) -> None:
    """Also with half a character among them, as JavaScript may send it."""
    hashes = user_hashes([record("a", user=user) for user in users])
    assert [value.to_bytes(4, byteorder) for value in hashes] == [user_hash(user) for user in users]


@given(st.lists(st.tuples(st.integers(2, 900), st.integers(0, 10_000), st.integers(0, 500)), min_size=1, max_size=12))
def test_times_are_never_wrong(groups: list[tuple[int, int, int]]) -> None:
    """Whatever was covered, a yes or a no about the window is true of every record; otherwise the answer is open."""
    times, offset, received = Times(7), 7, []
    for count, low, spread in groups:
        times.cover(offset, offset + count, low, low + spread)
        received += [low, *[low + spread] * (count - 1)]
        offset += count
    copy = Times.from_bytes(7, times.to_bytes())
    for number in range(0, len(received), 97):
        for now in (0, 5_000, 10_500):
            answer = copy.within(7 + number, now, 1_000)
            assert answer is None or answer == (now - received[number] <= 1_000)
    assert copy.low == min(received)


def test_times_of_uncovered_offsets_are_open() -> None:
    """What was never covered cannot be told."""
    times = Times(0)
    times.cover(SPAN_RECORDS * 2, SPAN_RECORDS * 2 + 1, 5, 5)
    assert [times.within(offset, 5, 1) for offset in (-1, 0, SPAN_RECORDS * 2, SPAN_RECORDS * 3)] == [
        None,
        None,
        True,
        None,
    ]
