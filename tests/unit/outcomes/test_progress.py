"""The progress ring: facts that survive kill -9."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from hookline.limits import LIMITS
from hookline.outcomes.progress import (
    ENTRY_BYTES,
    POSITION_SHIFT,
    SYNC_SECONDS,
    URL_BITS,
    Entry,
    ProgressRing,
    RingKeeper,
    entries,
    entries_of,
    newest_entry,
    pack_entries,
)
from tests.service.waiting import wait_until
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]
SECTOR_BYTES = 512
TAG = 5 << URL_BITS | 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ring is."""
    return tmp_path / "progress.ring"


def add(ring: ProgressRing, first: int, count: int) -> None:
    """Entries with ascending places and times."""
    for position in range(first, first + count):
        ring.add(position, 1_000 + position, TAG, 200, 7)


def test_facts_survive_without_being_closed(path: Path) -> None:
    """What was added is in the file at once, whatever becomes of the process."""
    ring = ProgressRing(path)
    ring.add(3 << POSITION_SHIFT | 42, 1_234, TAG, 204, 65_535)
    assert list(entries(path.read_bytes())) == [Entry(3 << POSITION_SHIFT | 42, 1_234, 5, 2, 204, 65_535)]
    assert list(entries(ProgressRing(path).everything())) == list(entries(ring.everything()))


def test_the_slice_since_the_last_checkpoint(path: Path) -> None:
    """It is what was added since, oldest first, also across the end of the file."""
    ring = ProgressRing(path)
    add(ring, 0, LIMITS.ring_entries - 3)
    ring.checkpointed = ring.written
    assert ring.since_checkpoint() == b""
    add(ring, LIMITS.ring_entries, 10)
    assert [entry.position for entry in entries(ring.since_checkpoint())] == list(
        range(LIMITS.ring_entries, LIMITS.ring_entries + 10)
    )


def test_a_whole_ring_since_the_last_checkpoint(path: Path) -> None:
    """Exactly as many entries as there is room for are all there."""
    ring = ProgressRing(path)
    add(ring, 1, LIMITS.ring_entries)
    assert len(ring.since_checkpoint()) == LIMITS.ring_entries * ENTRY_BYTES


def test_it_is_full_before_it_overwrites_what_is_not_saved(path: Path) -> None:
    """Sending stops while there is room left for the answers still to come."""
    ring = ProgressRing(path)
    add(ring, 0, LIMITS.ring_entries - LIMITS.ring_margin - 1)
    assert not ring.full
    add(ring, LIMITS.ring_entries - LIMITS.ring_margin, 1)
    assert ring.full
    assert LIMITS.ring_entries - ring.uncheckpointed >= 2_048 + 64
    ring.checkpointed = ring.written
    assert not ring.full


def test_the_oldest_go_when_it_wraps(path: Path) -> None:
    """The ring keeps the newest entries."""
    ring = ProgressRing(path)
    add(ring, 1, LIMITS.ring_entries + 100)
    kept = sorted(entry.position for entry in entries(ring.everything()))
    assert kept == list(range(101, LIMITS.ring_entries + 101))


@pytest.mark.parametrize("count", [1, 100, LIMITS.ring_entries, LIMITS.ring_entries + 77])
def test_a_new_process_goes_on_behind_the_newest(path: Path, count: int) -> None:
    """So what it writes replaces the oldest entries, not the newest."""
    add(ProgressRing(path), 1, count)
    ring = ProgressRing(path)
    ring.resume_after(newest_entry(ring.everything()))
    assert ring.written == count % LIMITS.ring_entries
    add(ring, 10**6, 1)
    positions = {entry.position for entry in entries(ring.everything())}
    assert {count, 10**6} <= positions


def test_a_duplicate_does_not_count_as_the_newest(path: Path) -> None:
    """A mark of a repeated event holds a place where others hold their time."""
    ring = ProgressRing(path)
    ring.add(1, 5_000, TAG, 200, 1)
    ring.add(1, 2**47, 0, 0, 0)
    assert newest_entry(ring.everything()) == 1


def test_entries_of_one_place(path: Path) -> None:
    """Exactly the entries of a place are found, also where its bytes turn up elsewhere or are those of empty slots."""
    ring = ProgressRing(path)
    ring.add(0, 1_000, TAG, 500, 3)
    ring.add(7, 0x0000_0001_0000_0000, TAG, 200, 0)
    ring.add(1, 77, TAG, 200, 0)
    ring.add(0, 1_001, TAG, 200, 4)
    block = ring.everything()
    assert [entry.result for entry in entries_of(block, 0)] == [500, 200]
    assert [entry.at_ms for entry in entries_of(block, 1)] == [77]
    assert list(entries_of(block, 2)) == []


def test_a_file_of_another_size_is_made_right(path: Path) -> None:
    """A file cut short by a full disk is opened nonetheless."""
    path.write_bytes(b"\0" * 100)
    ring = ProgressRing(path)
    assert list(entries(ring.everything())) == []
    assert path.stat().st_size == LIMITS.ring_entries * ENTRY_BYTES


def test_a_file_on_a_bad_sector_is_made_anew(path: Path, bad_pages: BadPages) -> None:
    """To map it ended deliver, as often as it was started; what is lost with it is sent again."""
    ring = ProgressRing(path)
    ring.add(7, 1_000, TAG, 200, 7)
    ring.close()
    bad_pages.add(path)
    again = ProgressRing(path)
    assert list(entries(again.everything())) == []
    again.close()


def test_no_entry_lies_across_a_sector() -> None:
    """A power cut keeps an entry whole or not at all: half of one and half of another would be a lie."""
    assert SECTOR_BYTES % ENTRY_BYTES == 0


def test_entries_of_another_size_are_not_read(path: Path) -> None:
    """A ring whose entries had another size holds nothing that can be believed."""
    path.write_bytes(b"\1" * LIMITS.ring_entries * (ENTRY_BYTES - 8))
    assert list(entries(ProgressRing(path).everything())) == []


@pytest.mark.parametrize("before", [0, LIMITS.ring_entries - 3, LIMITS.ring_entries - 2, LIMITS.ring_entries - 1])
def test_packed_entries_are_as_added_ones(tmp_path: Path, before: int) -> None:
    """Several at once, or one by one, also across the end of the file: the same bytes and the same position."""
    one_by_one, packed = ProgressRing(tmp_path / "a"), ProgressRing(tmp_path / "b")
    for ring in (one_by_one, packed):
        ring.resume_after(before)
    for position in range(3):
        one_by_one.add(position, 1_000, TAG, 200, 7)
    packed.add_packed(pack_entries([0], 1_000, TAG, 200, 7) + pack_entries([1, 2], 1_000, TAG, 200, 7))
    packed.add_packed(b"")
    assert packed.everything() == one_by_one.everything()
    assert packed.since_checkpoint() == one_by_one.since_checkpoint()


def test_new_facts_are_brought_to_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper synchronises what is new, once; a disk that refuses is asked again."""
    asked: list[int] = []
    real = os.fdatasync

    def refusing_first(descriptor: int) -> None:
        asked.append(ring.written)
        if len(asked) == 1:
            raise OSError(errno.EIO, "the disk refused")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", refusing_first)
    ring = ProgressRing(path)
    keeper = RingKeeper(ring)
    keeper.start()
    for written in (3, 6):
        for position in range(3):
            ring.add(position, 1_000, TAG, 200, 7)
        wait_until(lambda written=written: ring.synchronised == written)
    keeper.stop()
    ring.close()
    assert (asked.count(3), asked.count(6)) == (2, 1)


def test_the_keeper_sleeps_while_nothing_is_new(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An idle service must not be woken fifty times a second; the next entry wakes it, however it is written."""
    looks: list[int] = []
    ring = ProgressRing(path)
    real = ring.sync

    def counted() -> None:
        looks.append(ring.written)
        real()

    monkeypatch.setattr(ring, "sync", counted)
    keeper = RingKeeper(ring)
    keeper.start()
    time.sleep(SYNC_SECONDS * 10)
    assert looks == []
    ring.add(1, 1_000, TAG, 200, 7)
    wait_until(lambda: ring.synchronised == 1)
    time.sleep(SYNC_SECONDS * 10)
    assert looks == [1]
    ring.add_packed(pack_entries([2, 3], 1_000, TAG, 200, 7))
    wait_until(lambda: ring.synchronised == 3)
    keeper.stop()
    ring.close()
    assert looks == [1, 3]
