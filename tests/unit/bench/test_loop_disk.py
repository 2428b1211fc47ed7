"""The disk whose power can be cut: what was synchronised survives, what was not does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from bench.crash import loop_disk
from bench.crash.loop_disk import LoopDisk


def test_only_a_disk_of_its_own_is_cut_off(tmp_path: Path) -> None:
    """A folder that no disk is mounted on, so the machine's own disk, is never shut down."""
    disk = LoopDisk(tmp_path)
    disk.folder.mkdir()
    with pytest.raises(RuntimeError, match="not shut down"):
        disk.cut()


def test_a_cut_takes_what_was_not_synchronised(tmp_path: Path) -> None:
    """Of two files overwritten in place only the synchronised one has its new content after the cut."""
    if loop_disk.unavailable() is not None:
        assert "needs" in str(loop_disk.unavailable()) or "cannot" in str(loop_disk.unavailable())
        return
    with LoopDisk(tmp_path) as disk:
        for name in ("kept", "gone"):
            write(disk.folder / name, b"old", synchronised=True)
        write(disk.folder / "kept", b"new", synchronised=True)
        write(disk.folder / "gone", b"new", synchronised=False)
        disk.cut()
        with pytest.raises(OSError, match="Input/output error"):
            write(disk.folder / "late", b"new", synchronised=True)
        disk.power_on()
        assert (disk.folder / "kept").read_bytes() == b"new"
        assert (disk.folder / "gone").read_bytes() == b"old"


def write(path: Path, data: bytes, *, synchronised: bool) -> None:
    """Write in place."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        os.pwrite(fd, data, 0)
        if synchronised:
            os.fsync(fd)
    finally:
        os.close(fd)
