"""What happened to many events at once: the results of a whole bucket of offsets, read in one go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.outcomes.progress import (
    BUCKET_SHIFT,
    DUPLICATE_TAG,
    ENTRY_BYTES,
    OFFSET_MASK,
    PLACE_SHIFT,
    Entry,
    entries,
)


class Buckets:
    """Reads the blocks of results in deliver's database at ``place``, and the data folder's progress ring for those
    that are newer."""

    def __init__(self, data_path: Path, location: DatabaseLocation) -> None:
        self._data_path = data_path
        self._database = ReadOnly(location)

    def delivered(self, lane: int, partition: int, bucket: int) -> frozenset[int]:
        """Return the offsets of one bucket that a lane delivered."""
        found = self._entries(partition, bucket)
        return frozenset(e.place & OFFSET_MASK for e in found if e.lane == lane and 200 <= e.result < 300)

    def repeats(self, partition: int, bucket: int) -> frozenset[int]:
        """Return the offsets of dropped repeats of the events in one bucket; the repeats may lie in later ones."""
        return frozenset(e.at_ms & OFFSET_MASK for e in self._entries(partition, bucket) if e.lane == DUPLICATE_TAG)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()

    def _entries(self, partition: int, bucket: int) -> Iterator[Entry]:
        for block in [*self._blocks(partition, bucket), self._ring()]:
            for entry in entries(block):
                place = entry.place
                if place >> PLACE_SHIFT == partition and (place & OFFSET_MASK) >> BUCKET_SHIFT == bucket:
                    yield entry

    def _blocks(self, partition: int, bucket: int) -> list[bytes]:
        connection = self._database.open()
        if connection is None:
            return []
        rows = connection.execute(
            "SELECT entries FROM outcome_blocks WHERE partition = ? AND first_offset >= ? AND first_offset < ?",
            (partition, bucket << BUCKET_SHIFT, (bucket + 1) << BUCKET_SHIFT),
        ).fetchall()
        return [block for (block,) in rows]

    def _ring(self) -> bytes:
        path = self._data_path / "progress.ring"
        found = path.read_bytes() if path.exists() else b""
        return found if len(found) % ENTRY_BYTES == 0 else b""
