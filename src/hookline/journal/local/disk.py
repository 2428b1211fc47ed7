"""The system calls through which the journal becomes durable: a seam for injecting faults.

Reading, listing and removing files go to the operating system directly; what is here decides what may be acknowledged.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

IO_VECTORS_MAX = 1_000
"""Buffers per ``pwritev``; Linux takes 1,024."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Disk:
    """The real disk."""

    def pwritev(self, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
        """Write at a position; return how many bytes were taken."""
        return os.pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        """Make what was written to the file durable."""
        _synchronise(fd)

    def sync_folder(self, folder: Path) -> None:
        """Make names created, changed or removed in the folder durable."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def let_go(self, path: Path) -> None:
        """Take a file that is durable out of the memory that files are kept in; who reads it asks the disk. A hint."""
        if not hasattr(os, "posix_fadvise"):  # macOS
            return
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)

    def free_bytes(self, folder: Path) -> int:
        """Return what an ordinary user may still write to the file system."""
        status = os.statvfs(folder)
        return status.f_bavail * status.f_frsize


def write_all(disk: Disk, fd: int, buffers: Sequence[bytes | memoryview], position: int) -> int:
    """Write all the buffers one after another from ``position``; return the number of bytes."""
    start = position
    for first in range(0, len(buffers), IO_VECTORS_MAX):
        left: list[bytes | memoryview] = list(buffers[first : first + IO_VECTORS_MAX])
        while left:
            taken = disk.pwritev(fd, left, position)
            position += taken
            while left and taken >= len(left[0]):
                taken -= len(left.pop(0))
            if taken:
                left[0] = memoryview(left[0])[taken:]
    return position - start


def is_full(error: OSError) -> bool:
    """Return whether the error means that there is no room, which passes, and not that the disk fails."""
    return error.errno in _NO_ROOM


def _synchronise(fd: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves the data in the drive's cache
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)
