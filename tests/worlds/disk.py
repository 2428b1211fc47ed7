"""The disk of a simulated machine: what was synchronised stays, what was not may be there, torn or gone after a cut.

The files are real (a temporary folder). For the journal each write remembers what it overwrote until the file is
synchronised; a power cut brings some of that back, sector by sector. For files that the operating system writes back
by itself (a database's log, mapped files) there are functions that do what a cut may do to them.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
from collections.abc import Sequence
from pathlib import Path

from hookline.journal.local.disk import Disk
from hookline.journal.local.segment import SUFFIX

SECTOR_BYTES = 512
PAGE_BYTES = 4_096
SHORT_WRITES = 0.05
"""How often a write takes only a part of what it was given."""


class SimulatedDisk(Disk):
    """The journal's disk. ``full`` refuses writes until it is False again."""

    def __init__(self, rng: random.Random) -> None:
        self.full = False
        self._rng = rng
        self._unsynced: dict[int, tuple[int, list[tuple[int, bytes]]]] = {}
        """By inode: a descriptor of our own, and (position, what was there before) of each write."""
        self._names: dict[Path, set[str]] = {}

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        """Write at a position, perhaps only a part."""
        if self.full:
            raise OSError(errno.ENOSPC, "no space left on the simulated disk")
        data = b"".join(buffers)
        if len(data) > 1 and self._rng.random() < SHORT_WRITES:
            data = data[: self._rng.randrange(1, len(data))]
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY:  # copies of torn tails are read by nobody
            self._remember(fd, position, len(data))
        return os.pwrite(fd, data, position)

    def _remember(self, fd: int, position: int, length: int) -> None:
        """Keep what a write will replace."""
        inode = os.fstat(fd).st_ino
        if inode not in self._unsynced:
            self._unsynced[inode] = (os.dup(fd), [])
        self._unsynced[inode][1].append((position, os.pread(fd, length, position).ljust(length, b"\0")))

    def fdatasync(self, fd: int) -> None:
        """What was written to the file is durable from now on."""
        kept = self._unsynced.pop(os.fstat(fd).st_ino, None)
        if kept is not None:
            os.close(kept[0])

    def sync_folder(self, folder: Path) -> None:
        """The names in the folder are durable from now on."""
        self._names[folder] = set(os.listdir(folder))

    def free_bytes(self, folder: Path) -> int:
        """Plenty, or nothing."""
        return 0 if self.full else 1 << 40

    def cut(self) -> None:
        """Power fails: of what was not synchronised each sector and each name is there or is not."""
        for fd, writes in self._unsynced.values():
            for position, before in reversed(writes):
                for start in range(0, len(before), SECTOR_BYTES):
                    if self._rng.random() < 0.5:
                        os.pwrite(fd, before[start : start + SECTOR_BYTES], position + start)
        for folder, names in self._names.items():
            for name in sorted(set(os.listdir(folder)) - names):
                if name.endswith(SUFFIX) and self._rng.random() < 0.5:
                    (folder / name).unlink()
        self.close()

    def close(self) -> None:
        """Let go of files."""
        for fd, _ in self._unsynced.values():
            os.close(fd)
        self._unsynced.clear()


def cut_log(log: bytes, rng: random.Random) -> bytes:
    """What a power cut leaves of a log that was appended to and not synchronised: a beginning of it."""
    return log[: rng.randint(0, len(log))]


def mix_pages(old: bytes, new: bytes, rng: random.Random) -> bytes:
    """What a power cut leaves of a mapped file: of each page an earlier state or the last one."""
    pages = [
        (old if rng.random() < 0.5 else new)[start : start + PAGE_BYTES] for start in range(0, len(new), PAGE_BYTES)
    ]
    return b"".join(pages)
