"""Prepares the segment after the current one: zero-filled in a thread, renamed when it is needed.

Writing into a zero-filled file changes no metadata of the file system, so that a commit is one data write.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from hookline.journal.local.disk import Disk, is_full, write_all
from hookline.journal.local.segment import encode_segment_header, segment_name
from hookline.journal.port import JournalError, JournalFailed, JournalFull
from hookline.telemetry.crashpoints import crash_point

TEMPORARY_NAME = "next.tmp"
FULL_RETRY_SECONDS = 1.0
"""How long a full disk is left alone before it is asked again."""

_CHUNK_BYTES = 512 * 1024
"""Filled and synchronised at a time: the commits beside it never queue behind a whole segment."""
_PAUSE_SECONDS = 0.002
"""Between chunks, so that filling takes a part of the disk only, unless the segment is needed soon."""


class OpenSegment(NamedTuple):
    """A segment open for writing."""

    fd: int
    first_offset: int
    size_bytes: int


class NextSegment:
    """The next segment of one partition: ``begin`` it ahead of time, ``take`` it when the current one is full."""

    def __init__(
        self, folder: Path, disk: Disk, threads: ThreadPoolExecutor, reserve_bytes: int, clock: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._threads = threads
        self._reserve_bytes = reserve_bytes
        self._clock = clock
        self._filling: Future[int] | None = None
        self._size_bytes = 0
        self._full_until = 0.0
        self._closing = False
        self._wanted = threading.Event()

    @property
    def is_ready(self) -> bool:
        """Return whether ``take`` would answer at once, were it with a refusal."""
        return self._filling is not None and self._filling.done() and not self._may_retry()

    def begin(self, size_bytes: int) -> None:
        """Start filling unless that is under way, done, or was refused for want of room a moment ago."""
        if self._filling is not None and not self._may_retry():
            return
        self._size_bytes = size_bytes
        self._wanted.clear()
        self._filling = self._threads.submit(self._fill, size_bytes)

    def prepare_soon(self) -> None:
        """Fill as quickly as the disk allows: the segment is needed soon."""
        self._wanted.set()

    def wait(self, size_bytes: int) -> int:
        """Wait until the next segment is filled; raise JournalFull when there is no room for it."""
        self.begin(size_bytes)
        self.prepare_soon()
        assert self._filling is not None
        return self._filling.result()

    def take(self, first_offset: int, size_bytes: int) -> OpenSegment:
        """Give the filled file its header and its name, durably, and hand it over."""
        fd = self.wait(size_bytes)
        self._filling = None
        try:
            write_all(self._disk, fd, [encode_segment_header(first_offset)], 0)
            self._disk.fdatasync(fd)
            crash_point("journal.segment_created_before_rename")
            (self._folder / TEMPORARY_NAME).rename(self._folder / segment_name(first_offset))
        except OSError as error:
            os.close(fd)
            (self._folder / TEMPORARY_NAME).unlink(missing_ok=True)
            raise _error(self._folder, error) from error
        crash_point("journal.segment_renamed_before_sync")
        try:
            self._disk.sync_folder(self._folder)
        except OSError as error:
            os.close(fd)
            raise JournalFailed(f"cannot synchronise {self._folder} ({error}): check the disk") from error
        return OpenSegment(fd, first_offset, self._size_bytes)

    def close(self) -> None:
        """Stop filling, and remove what was prepared and not taken."""
        self._closing = True
        self.prepare_soon()
        if self._filling is not None and self._filling.exception() is None:
            os.close(self._filling.result())
            (self._folder / TEMPORARY_NAME).unlink(missing_ok=True)
        self._filling = None

    def _may_retry(self) -> bool:
        """Return whether filling was refused for want of room, long enough ago to ask again."""
        if self._filling is None or not self._filling.done():
            return False
        return isinstance(self._filling.exception(), JournalFull) and self._clock() >= self._full_until

    def _fill(self, size_bytes: int) -> int:
        try:
            if self._disk.free_bytes(self._folder) - size_bytes < self._reserve_bytes:
                raise _full(self._folder)
            fd = self._write_zeros(size_bytes)
        except JournalFull:
            self._full_until = self._clock() + FULL_RETRY_SECONDS
            raise
        except OSError as error:
            self._full_until = self._clock() + FULL_RETRY_SECONDS
            raise _error(self._folder, error) from error
        crash_point("journal.segment_filled")
        return fd

    def _write_zeros(self, size_bytes: int) -> int:
        path = self._folder / TEMPORARY_NAME
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        try:
            zeros = memoryview(bytes(_CHUNK_BYTES))
            for position in range(0, size_bytes, _CHUNK_BYTES):
                if self._closing:
                    raise _full(self._folder)
                write_all(self._disk, fd, [zeros[: size_bytes - position]], position)
                self._disk.fdatasync(fd)
                self._wanted.wait(_PAUSE_SECONDS)
        except BaseException:
            os.close(fd)
            path.unlink(missing_ok=True)
            raise
        return fd


def _error(folder: Path, error: OSError) -> JournalError:
    if is_full(error):
        return _full(folder)
    return JournalFailed(f"cannot create a journal segment in {folder} ({error}): check the disk, then start again")


def _full(folder: Path) -> JournalFull:
    return JournalFull(f"no room for another journal segment in {folder}: free disk space or lower retention.bytes")
