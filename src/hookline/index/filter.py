"""A bit-sliced Bloom filter over up to 32 runs: one look-up says which of them may hold a key.

The file is an array of 32-bit rows in the machine's byte order; bit r of a row belongs to run r. A key sets its run's
bit in three rows; a run is possible when its bit is set in all three. Which bits count is the manifest's to say. Rows
this wide make a filter that is full after some hours at usual rates and takes 16 MB of memory till then.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Generator
from itertools import compress
from operator import and_, itemgetter
from pathlib import Path

from hookline.index.background import Step, in_background
from hookline.index.filter_positions import FilterPositions

SUFFIX = ".filter"
RUNS_MAX = 32
ROW_BYTES = 4
ZEROS_BYTES = 1024 * 1024


class Filter:
    """One filter file, mapped for reading and writing."""

    def __init__(self, path: Path, rows: int) -> None:
        """Open or create the file; raise OSError without room for all of it: a map must not meet a full disk."""
        self.path = path
        self.rows = rows
        self.size_bytes = rows * ROW_BYTES
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size != self.size_bytes:
                os.ftruncate(descriptor, 0)
                _make_room(descriptor, self.size_bytes)
            self._map = mmap.mmap(descriptor, self.size_bytes)
        finally:
            os.close(descriptor)
        self._map.madvise(mmap.MADV_RANDOM)
        self.cells = memoryview(self._map).cast("I")

    def search(self, rows: FilterPositions, live: int, flag: int = 0) -> list[tuple[int, int]]:
        """Return index and runs, as bits, of each key that one of the ``live`` runs may hold.

        After that the bits of ``flag`` are set in all rows of the keys: done here it is half the work.
        """
        cells = self.cells
        # A number more in each, as a single one would not come in a tuple.
        firsts, seconds = itemgetter(*rows.first, 0)(cells), itemgetter(*rows.second, 0)(cells)
        found: list[tuple[int, int]] = []
        if live:
            both = list(map(and_, firsts, seconds))
            for index in compress(range(len(rows.third)), both):
                bits = both[index] & live
                if bits and (bits := bits & cells[rows.third[index]]):
                    found.append((index, bits))
        if flag:
            # A row that comes twice gets the same value twice: nothing but the flag changes meanwhile.
            for row, bits in zip(rows.first, firsts, strict=False):
                cells[row] = bits | flag
            for row, bits in zip(rows.second, seconds, strict=False):
                cells[row] = bits | flag
            for row in rows.third:
                cells[row] |= flag
        return found

    def flush(self) -> Generator[Step, None, None]:
        """Bring all bits to the disk: by way of the file, because flushing the map would hold up every thread."""
        yield from in_background(_sync, self.path)

    def rest(self) -> None:
        """Let go of memory that only speeds look-ups up; what was set stays set."""
        self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give the memory map back."""
        self.cells.release()
        self._map.close()


def _make_room(descriptor: int, size_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size_bytes)
        return
    for position in range(0, size_bytes, ZEROS_BYTES):  # macOS
        os.pwrite(descriptor, bytes(min(ZEROS_BYTES, size_bytes - position)), position)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
