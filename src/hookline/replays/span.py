"""From times of acceptance to offsets of the journal."""

from __future__ import annotations

from hookline.connections.model import Offsets
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.replays.model import ReplayRequest


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

    Records lie in the order of their acceptance, so a search by halves finds it in a few reads.
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
