"""Journals for the tests: small segments, and a disk that can be told to fail."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hookline.journal.local.appender import LocalAppender
from hookline.journal.local.disk import Disk

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
        if self.write_error:
            # As a full disk does: a part is taken first.
            os.pwrite(fd, b"".join(bytes(buffer) for buffer in buffers)[self.taken], position)
            raise OSError(self.write_error, os.strerror(self.write_error))
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
