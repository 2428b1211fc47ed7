"""Journals for the tests: small segments, and a disk that can be told to fail."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hookline.journal.local import disk as disks
from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import PAGE_BYTES, Disk

SEGMENT_BYTES = 64 * 1024
BLOCK_BYTES = 4 * 1024

Open = Callable[..., LocalAppender]


class FaultyDisk(Disk):
    """The real disk until told otherwise; counts what is asked of it."""

    def __init__(self) -> None:
        self.syncs = 0
        self.write_error = 0
        self.taken = slice(-7)
        """What is taken of a write before it fails."""
        self.sync_error = 0
        self.sync_seconds = 0.0
        self.free = 1 << 40
        self.is_full = False
        """No file gets another block; what is there can be overwritten."""

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        if self.is_full and position + sum(map(len, buffers)) > -(-os.fstat(fd).st_size // BLOCK_BYTES) * BLOCK_BYTES:
            raise OSError(NO_ROOM, os.strerror(NO_ROOM))
        if error := self.write_error:  # read once: a test may mend the disk while a thread is here
            # As a full disk does: a part is taken first.
            os.pwrite(fd, b"".join(bytes(buffer) for buffer in buffers)[self.taken], position)
            raise OSError(error, os.strerror(error))
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        self.syncs += 1
        if self.sync_error:
            raise OSError(self.sync_error, os.strerror(self.sync_error))
        super().fdatasync(fd)

    def free_bytes(self, folder: Path) -> int:
        return 0 if self.is_full else self.free


NO_ROOM = errno.ENOSPC
BROKEN = errno.EIO


class BadPages:
    """Pages of files that the disk cannot read any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._of_file: defaultdict[int, set[int]] = defaultdict(set)
        self._pread, self._preadv = os.pread, os.preadv
        monkeypatch.setattr(os, "pread", self._read)
        monkeypatch.setattr(os, "preadv", self._read_into)
        monkeypatch.setattr(Path, "read_bytes", lambda path: self._read_whole(path))
        monkeypatch.setattr(disks, "REREAD_SECONDS", (0.0,))

    def add(self, path: Path, *positions: int) -> None:
        """Have the pages at these places be bad; without any all that the file has."""
        status = path.stat()
        self._of_file[status.st_ino] |= {each // PAGE_BYTES for each in positions or range(0, status.st_size, 512)}

    def mend(self) -> None:
        """The disk reads everything again."""
        self._of_file.clear()

    def _read(self, fd: int, length: int, position: int) -> bytes:
        return self._pread(fd, self._readable(fd, position, length), position)

    def _read_into(self, fd: int, buffers: Sequence[memoryview], position: int) -> int:
        (buffer,) = buffers
        return self._preadv(fd, [buffer[: self._readable(fd, position, len(buffer))]], position)

    def _read_whole(self, path: Path) -> bytes:
        with path.open("rb") as file:
            self._read(file.fileno(), PAGE_BYTES, 0)
            return file.read()

    def _readable(self, fd: int, position: int, length: int) -> int:
        """Return how much of this can be read, as Linux does: up to a bad page, and nothing where that is the first."""
        end = min(position + length, os.fstat(fd).st_size)
        pages = range(position // PAGE_BYTES, -(-end // PAGE_BYTES))
        bad = next((each for each in pages if each in self._of_file[os.fstat(fd).st_ino]), None)
        if bad is None:
            return length
        if bad == pages.start:
            raise OSError(BROKEN, os.strerror(BROKEN))
        return bad * PAGE_BYTES - position


@pytest.fixture
def bad_pages(monkeypatch: pytest.MonkeyPatch) -> BadPages:
    """A disk with pages that it cannot read, none at first."""
    return BadPages(monkeypatch)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The folder of a journal that does not exist yet."""
    return tmp_path / "journal"


@pytest.fixture
def disk() -> FaultyDisk:
    """A disk to inject faults into."""
    return FaultyDisk()


@pytest.fixture
def open_appender(journal: Path) -> Open:
    """Opens the journal with small segments; keywords as the appender's."""

    def opened(**keywords: object) -> LocalAppender:
        settings: dict[str, object] = {
            "retention_seconds": 1e6,
            "retention_bytes": 1 << 40,
            "segment_bytes": SEGMENT_BYTES,
            **keywords,
        }
        return LocalAppender(journal, **settings)  # type: ignore[arg-type]

    return opened
