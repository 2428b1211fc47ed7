"""Reading a journal from its end: the newest records of all partitions in one stream."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hookline.journal.port import SearchableReader
from hookline.journal.record import Record


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
