"""The reading side of a local journal: any process, beside the one that appends; files only, no locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from hookline.journal.local.erase import FoundGroup
from hookline.journal.local.partition_ends import END_NAME
from hookline.journal.local.partition_reader import PartitionReader
from hookline.journal.local.segment import GROUP_HEADER_BYTES
from hookline.journal.port import LOOP_REST_SECONDS, LOOP_WAIT_SECONDS, Group, JournalCorrupt
from hookline.journal.record import Record

_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_record = msgspec.msgpack.Decoder(Record).decode


class LocalReader:
    """Reads the journal in ``folder``; nothing needs to be there yet. Not thread-safe: one per thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: dict[int, PartitionReader] = {}
        self._count = 0

    def partitions(self) -> range:
        """Return the partition numbers."""
        while (self._folder / str(self._count) / END_NAME).exists():
            self._count += 1
        return range(self._count)

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept."""
        return self._partition(partition).start()

    def end(self, partition: int) -> int:
        """Return one past the last durable record."""
        return self._partition(partition).end()

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` to the end as it is now; the first one begins exactly at ``offset``.

        Raise OffsetExpired when ``offset`` is below ``start`` (also later, when retention overtakes a slow reader),
        ValueError when it is past ``end``, JournalCorrupt where the disk lost something.
        """
        return self._partition(partition).read(offset)

    def read_backwards(self, partition: int, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest group first, records of a group oldest first.

        The first one ends exactly at ``before_offset``, or at the end when that is smaller.
        """
        return self._partition(partition).read_backwards(before_offset)

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not (or no longer) kept, or cannot be read any more."""
        try:
            found = self._partition(partition).get_group(offset)
        except JournalCorrupt:
            return None
        if found is None:
            return None
        return _record(_raws(memoryview(found.data)[GROUP_HEADER_BYTES:])[offset - found.header.first_offset])

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records at these offsets, ascending, each with its offset; leave out what is not kept and what
        cannot be read any more."""
        for found, inside in self.locate(partition, list(offsets)):
            raws = _raws(memoryview(found.data)[GROUP_HEADER_BYTES:])
            for offset in inside:
                yield offset, _record(raws[offset - found.header.first_offset])

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` whose record has the fingerprint, oldest first."""
        return self._partition(partition).find(fingerprint, start, end)

    def holding(self, partition: int, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts in their raw bytes, oldest first: quicker
        than decoding them all. Of the first and last group it yields the records in the range."""
        return self._partition(partition).holding(texts, start, end)

    def locate(self, partition: int, offsets: Sequence[int]) -> Iterator[tuple[FoundGroup, list[int]]]:
        """Yield the groups on the disk that hold these offsets, with the offsets in each: for erasure."""
        return self._partition(partition).locate(offsets)

    def limit_wait(self, wait_seconds: float = LOOP_WAIT_SECONDS, rest_seconds: float = LOOP_REST_SECONDS) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """Give back files and memory maps."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _partition(self, number: int) -> PartitionReader:
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = PartitionReader(self._folder / str(number))
        return reader
