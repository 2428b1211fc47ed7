"""A set of offsets of one partition: named one by one, kept as runs, asked quickly."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import add

import msgspec

from hookline.connections.model import Offsets
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.replays.model import ReplayRequest

RUNS_MAX = 1_000_000
"""Runs of offsets in one replay; 16 bytes each."""

_decode = msgspec.msgpack.Decoder(dict[int, tuple[int, ...]]).decode


class OffsetSet:
    """Offsets in ascending runs."""

    __slots__ = ("_ends", "_firsts", "count")

    def __init__(self, offsets: Iterable[int] = ()) -> None:
        self._firsts = array("q")
        self._ends = array("q")
        self.count = 0
        for offset in offsets:
            self.add(offset, offset + 1)

    def add(self, first: int, end: int) -> None:
        """Add ``[first, end)``, which lies behind all that is there."""
        if self._ends and self._ends[-1] == first:
            self._ends[-1] = end
        else:
            self._firsts.append(first)
            self._ends.append(end)
        self.count += end - first

    def __contains__(self, offset: int) -> bool:
        at = bisect_right(self._firsts, offset) - 1
        return at >= 0 and offset < self._ends[at]

    def __iter__(self) -> Iterator[int]:
        for first, end in zip(self._firsts, self._ends, strict=True):
            yield from range(first, end)

    @property
    def runs(self) -> int:
        """Return how many runs there are: what it takes of memory."""
        return len(self._firsts)

    @property
    def first(self) -> int:
        """Return the smallest offset; 0 of none."""
        return self._firsts[0] if self._firsts else 0

    @property
    def end(self) -> int:
        """Return one past the largest offset; 0 of none."""
        return self._ends[-1] if self._ends else 0

    def following(self, offset: int) -> int:
        """Return the smallest one that is not below ``offset``; ``end`` when there is none."""
        at = bisect_right(self._firsts, offset) - 1
        if at >= 0 and offset < self._ends[at]:
            return offset
        return self._firsts[at + 1] if at + 1 < len(self._firsts) else self.end


def encode_offset_sets(positions: dict[int, OffsetSet]) -> bytes:
    """Return the positions of all partitions as a blob: first, count, first, count, …"""
    return msgspec.msgpack.encode({partition: _runs(each) for partition, each in positions.items()})


def decode_offset_sets(blob: bytes) -> dict[int, OffsetSet]:
    """Return the positions of a blob."""
    return {partition: _of_runs(runs) for partition, runs in _decode(blob).items()}


def _of_runs(runs: Sequence[int]) -> OffsetSet:
    """Return the set whose runs these are: a person may have millions, and event loops wait for it."""
    found, counts = OffsetSet(), runs[1::2]
    found._firsts = array("q", runs[::2])
    found._ends = array("q", map(add, found._firsts, counts))
    found.count = sum(counts)
    return found


def _runs(positions: OffsetSet) -> list[int]:
    runs: list[int] = []
    for first, end in zip(positions._firsts, positions._ends, strict=True):
        runs += (first, end - first)
    return runs


def span_of(journal: Reader, partitions: range, request: ReplayRequest) -> tuple[Offsets, Offsets]:
    """Return the first and the following-the-last offset of what the request asks for, per partition, as stored
    by now."""
    starts: Offsets = {}
    ends: Offsets = {}
    for partition in partitions:
        since, until = request.since_ms, request.until_ms
        end = journal.end(partition) if until is None else offset_at(journal, partition, until)
        start = journal.start(partition) if since is None else offset_at(journal, partition, since)
        starts[partition], ends[partition] = min(start, end), end
    return starts, ends


def offset_at(journal: Reader, partition: int, ms: int) -> int:
    """Return the first offset whose record was accepted at or after a time; the end when there is none.

    Records lie in the order of their acceptance, so a search by halves finds it in a few reads. Where the wall clock
    was set back the times do not ascend, and it may find another one: only reading everything would be exact.
    """
    low, high = journal.start(partition), journal.end(partition)
    while low < high:
        middle = (low + high) // 2
        group = next(read_on(journal, partition, middle, high), None)
        if group is None or group.first_offset >= high:  # nothing from here on is kept, or can be read
            high = middle
        elif group.records[0].received_at < ms:
            low = group.first_offset + 1
        else:
            high = middle
    return low
