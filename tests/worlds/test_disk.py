"""The simulated disk: what was synchronised survives a power cut, the rest may not; full means full."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from hookline.journal.local.disk import write_all
from tests.worlds.disk import PAGE_BYTES, SECTOR_BYTES, SimulatedDisk, cut_log, mix_pages

OLD, NEW = b"o" * 4 * SECTOR_BYTES, b"n" * 4 * SECTOR_BYTES


def opened(path: Path) -> int:
    path.write_bytes(OLD)
    return os.open(path, os.O_RDWR)


def test_synchronised_writes_survive(tmp_path: Path) -> None:
    """After fdatasync a power cut takes nothing back."""
    disk, fd = SimulatedDisk(random.Random(1)), opened(tmp_path / "file")
    write_all(disk, fd, [NEW], 0)
    disk.fdatasync(fd)
    disk.cut()
    os.close(fd)
    assert (tmp_path / "file").read_bytes() == NEW


def test_unsynchronised_writes_are_torn_by_sector(tmp_path: Path) -> None:
    """Without it each sector is the old or the new one; over many cuts both are seen, and mixtures."""
    seen = set()
    for seed in range(20):
        disk, fd = SimulatedDisk(random.Random(seed)), opened(tmp_path / "file")
        write_all(disk, fd, [NEW], 0)
        disk.cut()
        os.close(fd)
        content = (tmp_path / "file").read_bytes()
        seen.add(bytes(content[start] for start in range(0, len(content), SECTOR_BYTES)))
        assert set(content) <= set(b"on")
    assert len(seen) > 5


def test_a_name_that_was_not_synchronised_may_be_gone(tmp_path: Path) -> None:
    """A new segment is there or not, until its folder was synchronised."""
    there = 0
    for seed in range(20):
        disk = SimulatedDisk(random.Random(seed))
        disk.sync_folder(tmp_path)
        segment = tmp_path / f"{seed}.seg"
        segment.touch()
        disk.cut()
        there += segment.exists()
        segment.unlink(missing_ok=True)
    assert 0 < there < 20


def test_a_full_disk_refuses(tmp_path: Path) -> None:
    """Full: no space left, as the operating system says it."""
    disk, fd = SimulatedDisk(random.Random(1)), opened(tmp_path / "file")
    disk.full = True
    with pytest.raises(OSError, match="no space") as raised:
        disk.pwritev(fd, [NEW], 0)
    os.close(fd)
    assert raised.value.errno == errno.ENOSPC
    assert disk.free_bytes(tmp_path) == 0


def test_a_log_keeps_its_beginning_and_a_map_whole_pages() -> None:
    """What a cut leaves of files that the system writes back by itself."""
    rng = random.Random(1)
    assert b"abcdef".startswith(cut_log(b"abcdef", rng))
    mixed = mix_pages(b"o" * 4 * PAGE_BYTES, b"n" * 4 * PAGE_BYTES, rng)
    assert {mixed[at : at + PAGE_BYTES] for at in range(0, len(mixed), PAGE_BYTES)} == {
        b"o" * PAGE_BYTES,
        b"n" * PAGE_BYTES,
    }
