"""The system calls through which the journal becomes durable: a seam for injecting faults.

Listing and removing files go to the operating system directly; what is here decides what may be acknowledged, and what
becomes of places that the disk cannot read.

Beside them the two small files of a partition: where it begins, below which retention has taken all, and how far it is
durable. The end is a signal between processes that are alive, and a lower bound after a crash; recovery finds the true
one. Its number stands there three times, and two that agree are believed: one that a disk or a program has changed is
none that a reader follows beyond the journal's end, or that appending goes on behind.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hookline.journal.port import JournalAway
from hookline.whole_file import UNREADABLE, is_readable

IO_VECTORS_MAX = 1_000
"""Buffers per ``pwritev``; Linux takes 1,024."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)


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
    """Return whether the error means that there is no room, for bytes or for another open file, which passes, and not
    that the disk fails."""
    return error.errno in _NO_ROOM


REREAD_SECONDS = (0.05, 0.1, 0.2, 0.4)
"""Waits before a place is read again that could not be: what passes by itself is no damage."""
PAGE_BYTES = 4_096
_PROBES = 16
_PROBES_OF_OTHERS = 2
"""Fewer, for a disk may take seconds to say that it cannot read a place."""
_OTHERS_MAX = 4
_LOST_MAX = 100_000
_lost: set[tuple[Path, int]] = set()
"""Pages that were waited for in vain, and where they begin: whoever meets one again, on an event loop perhaps, does not
wait."""


class OpenFile(NamedTuple):
    """A file of a journal that is open for reading; those beside it tell whether the disk reads anything."""

    fd: int
    path: Path


def read_at(file: OpenFile, length: int, position: int) -> bytes:
    """Return what a file has at a place, as ``os.pread`` does. What the disk cannot read any more is zeros, so that it
    is damage like any other; raise JournalAway where it can read nothing else either."""
    found = _read_up_to_damage(file.fd, length, position)
    if len(found) == length:
        return found
    bad, stop = position + len(found), min(position + length, os.fstat(file.fd).st_size)
    if bad >= stop:
        return found
    data = bytearray(stop - position)
    data[: len(found)] = found
    left = _read_pages(file, data, position, range(bad - bad % PAGE_BYTES, stop, PAGE_BYTES))
    if left and not _reads_others(file):
        raise JournalAway("the disk of the journal reads nothing: check it")
    for seconds in REREAD_SECONDS:
        if _lost.issuperset((file.path, page) for page in left):
            break
        time.sleep(seconds)
        left = _read_pages(file, data, position, left)
    if len(_lost) < _LOST_MAX:
        _lost.update((file.path, page) for page in left)
    return bytes(data)


def _read_up_to_damage(fd: int, length: int, position: int) -> bytes:
    """Return what can be read from a place on: a read that meets a bad one ends before it, and only the next fails."""
    try:
        return os.pread(fd, length, position)
    except OSError as error:
        if error.errno not in UNREADABLE:
            raise
        return b""


def _read_pages(file: OpenFile, data: bytearray, position: int, pages: Sequence[int]) -> list[int]:
    """Read what is of these pages into what begins at ``position``; return those that cannot be read."""
    left: list[int] = []
    for page in pages:
        begin, end = max(page, position), min(page + PAGE_BYTES, position + len(data))
        found = _read_up_to_damage(file.fd, end - begin, begin)
        data[begin - position : begin - position + len(found)] = found
        if len(found) < end - begin:
            left.append(page)
    return left


def _reads_others(file: OpenFile) -> bool:
    """Return whether the disk has some other place of the file, or of the newest ones beside it: a small one may lie
    in one bad place as a whole."""
    if _reads_any(file.fd, _PROBES):
        return True
    for path in sorted(file.path.parent.glob(f"*{file.path.suffix}"), reverse=True)[:_OTHERS_MAX]:
        with suppress(OSError), path.open("rb", buffering=0) as other:
            if _reads_any(other.fileno(), _PROBES_OF_OTHERS):
                return True
    return False


def _reads_any(fd: int, probes: int) -> bool:
    """Return whether the disk, not the memory that files are kept in, has some place of a file."""
    size_bytes = os.fstat(fd).st_size
    for at in range(0, size_bytes, max(PAGE_BYTES, size_bytes // probes)):
        with suppress(OSError):
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, at, PAGE_BYTES, os.POSIX_FADV_DONTNEED)
            os.pread(fd, 1, at)
            return True
    return False


def _synchronise(fd: int) -> None:
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves the data in the drive's cache
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(fd)


START_NAME = "start"


def read_start(folder: Path) -> int | None:
    """Return the oldest offset that must be there; None when nothing believable says."""
    try:
        with (folder / START_NAME).open("rb", buffering=0) as file:
            text = _read_up_to_damage(file.fileno(), PAGE_BYTES, 0)
    except FileNotFoundError:
        return None
    first, _, again = text.partition(b" ")
    return int(first) if first.isdigit() and first == again.strip() else None


def write_start(folder: Path, offset: int, disk: Disk) -> None:
    """Note it durably, before anything below is removed.

    Where a full disk has no room for a new file the old one is overwritten, for what is removed then makes room. A
    crash in the middle leaves two numbers that differ: nothing was removed yet, so the first segment says the start.
    """
    path, text = folder / START_NAME, b"%d %d\n" % (offset, offset)
    temporary = folder / f"{START_NAME}.tmp"
    try:
        _write_durably(temporary, os.O_CREAT | os.O_TRUNC, text, disk)
        temporary.rename(path)
    except OSError as error:
        if not (is_full(error) and path.exists()):
            raise
        temporary.unlink(missing_ok=True)
        _write_durably(path, 0, text, disk)
    disk.sync_folder(folder)


def _write_durably(path: Path, flags: int, text: bytes, disk: Disk) -> None:
    fd = os.open(path, flags | os.O_WRONLY, 0o600)
    try:
        write_all(disk, fd, [text], 0)
        os.ftruncate(fd, len(text))
        disk.fdatasync(fd)
    finally:
        os.close(fd)


END_NAME = "end"
COPIES = 3
END_MAX = 1 << 48
"""No partition gets as far: a page full of ones is no end."""
_INTEGER_BYTES = 8
_BYTES = COPIES * _INTEGER_BYTES


class EndFile:
    """The durable end of one partition: the appender sets it, readers see it at once."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        """Map the file; raise FileNotFoundError where there is none, or nothing in it that can be read: who opens the
        journal makes it anew."""
        fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            if not is_readable(fd):
                raise ValueError
            # An older version wrote the number once; who opens the journal makes the file longer where it is.
            length = _BYTES if os.fstat(fd).st_size >= _BYTES else _INTEGER_BYTES
            self._map = mmap.mmap(fd, length, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        except ValueError:
            raise FileNotFoundError(f"{path} is empty, or cannot be read") from None
        finally:
            os.close(fd)
        # A cast view moves all eight bytes at once; struct's "<Q" goes byte by byte and could be seen half done.
        self._cells = memoryview(self._map).cast("Q")
        self._believed = 0

    @property
    def value(self) -> int:
        """Return one past the last durable record, or a little less while it is being set."""
        cells = self._cells
        value = cells[0]
        if len(cells) == COPIES and (value != cells[1] or value > END_MAX):
            value = _agreed(cells, self._believed)
        self._believed = value
        return value

    def publish(self, end: int) -> None:
        """Let readers see every record below ``end``, which must be durable."""
        cells = self._cells
        cells[0] = cells[1] = cells[2] = end

    def close(self) -> None:
        """Unmap the file."""
        self._cells.release()
        self._map.close()


def create_end_file(path: Path) -> None:
    """Create the file with end 0 where there is none, or one that the disk cannot read; real bytes, so that a full disk
    cannot fail a store later. One that is too short is made whole where it stands, for readers may have mapped it."""
    try:
        with path.open("r+b", buffering=0) as file:
            if not is_readable(file.fileno()):
                raise FileNotFoundError
            data = file.read()
            if len(data) != _BYTES:
                value = data[:_INTEGER_BYTES] if len(data) >= _INTEGER_BYTES else bytes(_INTEGER_BYTES)
                os.pwrite(file.fileno(), value * COPIES, 0)
                os.ftruncate(file.fileno(), _BYTES)
                os.fsync(file.fileno())
        return
    except FileNotFoundError:
        pass
    temporary = path.with_suffix(".tmp")
    fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        os.write(fd, (0).to_bytes(_BYTES, sys.byteorder))
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)


def _agreed(cells: memoryview, before: int) -> int:
    """Return the number that two of three hold; the one before where all differ, or none can be."""
    first, second, third = cells
    value = third if third in (first, second) else second if second == first else before
    return value if value <= END_MAX else before
