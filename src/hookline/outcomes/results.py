"""The results of attempts as deliver wrote them: the newest in the progress ring, the others in blocks of a checkpoint.

What was read last is kept, since whoever looks at one event mostly looks at its neighbours next.
"""

from __future__ import annotations

import mmap
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.outcomes.progress import BUCKET_SHIFT, ENTRY_BYTES, PLACE_SHIFT, Entry, entries_of, places_of

RING_KEPT_SECONDS = 0.05
BLOCKS_KEPT = 4
"""Of up to 2 MB each."""

BLOCKS_OF_OFFSET = (
    " FROM outcome_blocks WHERE partition = ? AND first_offset >= ? AND first_offset < ?"
    " AND first_offset <= ? AND last_offset >= ?"
)


class _Block(NamedTuple):
    entries: bytes
    places: bytes


class Results:
    """Reads the ring and the blocks; not thread-safe."""

    def __init__(self, data_path: Path) -> None:
        self._path = data_path / "progress.ring"
        self._ring: mmap.mmap | None = None
        self._newest = _Block(b"", b"")
        self._copied = 0.0
        self._kept: OrderedDict[tuple[int, int, int], _Block] = OrderedDict()

    def of_place(self, connection: Connection | None, partition: int, offset: int) -> Iterator[Entry]:
        """Yield every entry of one place, those in the ring first; one that is in both comes twice."""
        place = partition << PLACE_SHIFT | offset
        newest = self._ring_now()
        yield from entries_of(newest.entries, place, newest.places)
        if connection is None:
            return
        for block in self._blocks(connection, partition, offset):
            yield from entries_of(block.entries, place, block.places)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._kept.clear()
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def _blocks(self, connection: Connection, partition: int, offset: int) -> Iterator[_Block]:
        bucket = offset >> BUCKET_SHIFT << BUCKET_SHIFT
        span = (partition, bucket, bucket + (1 << BUCKET_SHIFT), offset, offset)
        # A block only grows, and its length is known without reading it.
        for key in connection.execute(f"SELECT id, first_offset, length(entries){BLOCKS_OF_OFFSET}", span).fetchall():
            block = self._kept.get(key)
            if block is None:
                row = connection.execute("SELECT entries FROM outcome_blocks WHERE id = ?", key[:1]).fetchone()
                if row is None:
                    continue
                block = self._kept[key] = _Block(row[0], places_of(row[0]))
                while len(self._kept) > BLOCKS_KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
            yield block

    def _ring_now(self) -> _Block:
        """Results newer than the last checkpoint are only in the ring."""
        now = time.monotonic()
        if now - self._copied > RING_KEPT_SECONDS:
            if self._ring is None:
                if not self._path.exists() or self._path.stat().st_size % ENTRY_BYTES:
                    return _Block(b"", b"")
                with self._path.open("rb") as file:
                    self._ring = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            copy = self._ring[:]
            self._newest, self._copied = _Block(copy, places_of(copy)), now
        return self._newest
