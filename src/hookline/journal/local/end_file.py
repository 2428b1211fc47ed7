"""The file that tells readers how far a partition is durable: one memory-mapped integer, never synchronised.

It is a signal between processes that are alive, and a lower bound after a crash; recovery finds the true end.
"""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

NAME = "end"
_BYTES = 8


class EndFile:
    """The durable end of one partition: the appender sets it, readers see it at once."""

    def __init__(self, path: Path, writable: bool = False) -> None:
        fd = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        try:
            self._map = mmap.mmap(fd, _BYTES, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        finally:
            os.close(fd)
        # A cast view moves all eight bytes at once; struct's "<Q" goes byte by byte and could be seen half done.
        self._cells = memoryview(self._map).cast("Q")

    @property
    def value(self) -> int:
        """One past the last durable record."""
        return self._cells[0]

    def publish(self, end: int) -> None:
        """Let readers see every record below ``end``, which must be durable."""
        self._cells[0] = end

    def close(self) -> None:
        """Unmap the file."""
        self._cells.release()
        self._map.close()


def create_end_file(path: Path) -> None:
    """Create the file with end 0 where there is none; real bytes, so that a full disk cannot fail a store later."""
    if path.exists() and path.stat().st_size == _BYTES:
        return
    temporary = path.with_suffix(".tmp")
    fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        os.write(fd, (0).to_bytes(_BYTES, sys.byteorder))
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)
