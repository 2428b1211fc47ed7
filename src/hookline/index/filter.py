"""A bit-sliced Bloom filter over up to 64 runs: one look-up says which of them may hold a fingerprint.

The file is an array of 64-bit rows in the machine's byte order; bit r of a row belongs to run r. A fingerprint sets its
run's bit in three rows; a run is possible when its bit is set in all three. Which bits count is the manifest's to say.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Generator
from pathlib import Path

from hookline.index.background import Step, in_background
from hookline.index.run import Run

SUFFIX = ".filter"
RUNS_MAX = 64
ROW_BYTES = 8
ROWS_PER_EVENT = 16
"""Rows per event of a run: with three rows set per event, 0.5 % of foreign fingerprints pass for one run."""

EVENTS_PER_STEP = 500
ZEROS_BYTES = 1024 * 1024

POSITIONS = struct.Struct("<3I4x")
"""The three row numbers of a fingerprint, modulo the number of rows."""

_ENTRY = struct.Struct("<3I12x")


def rows_for(run_events: int) -> int:
    """The number of rows, a power of two, for runs of this many events."""
    return max(1 << 10, 1 << (run_events * ROWS_PER_EVENT - 1).bit_length())


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
        self.cells = memoryview(self._map).cast("Q")

    def fill(self, bit: int, run: Run) -> Generator[Step, None, None]:
        """Set the bits of a run's events, in short steps."""
        mask = self.rows - 1
        cells = self.cells
        flag = 1 << bit
        for start in range(0, run.header.entries, EVENTS_PER_STEP):
            for a, b, c in _ENTRY.iter_unpack(run.entries(start, EVENTS_PER_STEP)):
                cells[a & mask] |= flag
                cells[b & mask] |= flag
                cells[c & mask] |= flag
            yield None

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
