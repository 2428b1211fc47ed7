"""Reading a stretch of the journal: on past what retention took and what the disk lost, or backwards from its end."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from hookline.journal.port import Group, JournalCorrupt, Lookups, LoopReaders, OffsetExpired, Reader, SearchableReader
from hookline.journal.record import Record

Lost = OffsetExpired | JournalCorrupt
"""Why a stretch cannot be read; ``next_offset`` is where it goes on."""


def read_on(
    journal: Lookups, partition: int, offset: int, end: int, on_lost: Callable[[Lost], object] | None = None
) -> Iterator[Group]:
    """Yield the groups from ``offset`` on until one reaches ``end``, which is at most the journal's. What cannot be
    read is passed over, and ``on_lost`` is told."""
    while offset < end:
        try:
            for group in journal.read(partition, offset):
                offset = group.next_offset
                yield group
                if offset >= end:
                    return
            return
        except (OffsetExpired, JournalCorrupt) as lost:
            if on_lost is not None:
                on_lost(lost)
            offset = max(lost.next_offset, offset + 1)


def is_lost(journal: Reader, partition: int, first: int, next_offset: int) -> bool:
    """Return whether anything of a stretch, as far as it is still kept, cannot be read."""
    lost: list[JournalCorrupt] = []

    def note(why: Lost) -> None:
        if isinstance(why, JournalCorrupt):
            lost.append(why)

    end = min(next_offset, journal.end(partition))
    return any(lost for _ in read_on(journal, partition, max(first, journal.start(partition)), end, note)) or bool(lost)


class Place(NamedTuple):
    """A record and where it lies."""

    partition: int
    offset: int
    record: Record


def newest_first(journal: SearchableReader, before: Mapping[int, int]) -> Iterator[Place]:
    """Yield the records below the offset given for each partition, newest first by when they were received."""
    streams = [_partition(journal, partition, offset) for partition, offset in before.items()]
    if len(streams) == 1:
        return streams[0]
    return heapq.merge(*streams, key=lambda place: -place.record.received_at)


def _partition(journal: SearchableReader, partition: int, before: int) -> Iterator[Place]:
    for group in journal.read_backwards(partition, before):
        for index in range(len(group.records) - 1, -1, -1):
            offset = group.first_offset + index
            if offset < before:
                yield Place(partition, offset, group.records[index])


def at_hand(reader: Reader) -> LoopReaders:
    """Return a reader that never waits as what an event loop reads by."""
    return LoopReaders(_AtHand(reader), reader, None, lambda: None)


class _AtHand:
    """Follows partitions by asking the reader itself each time."""

    def __init__(self, reader: Reader) -> None:
        self.end = reader.end
        self.read = reader.read

    def begin(self) -> None:
        """Nothing is read ahead."""

    def follow(self, partition: int, end: int) -> None:
        """Nothing is read ahead."""

    def leave(self, partition: int) -> None:
        """Nothing was read ahead."""
