"""Where a messageId is, for processes that only read: sealed runs first, the rest by searching the journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hookline.index.run import SUFFIX, Run, RunDamaged
from hookline.journal.port import OffsetExpired, Reader

OFFSETS_MAX = 10_000
"""Offsets returned of one messageId; the newest of a longer list are left out."""


def find(reader: Reader, index_dir: Path, partition: int, fingerprint: bytes) -> list[int]:
    """Return the offsets that hold the fingerprint, ascending, rejected and repeated ones included.

    ``index_dir`` is the folder of all partitions. What no run covers (the newest records, and ranges whose run is
    gone) is searched for in the journal itself.
    """
    start, end = reader.start(partition), reader.end(partition)
    found: set[int] = set()
    covered: list[tuple[int, int]] = []
    for path in sorted((index_dir / str(partition)).glob("*" + SUFFIX)):
        try:
            run = Run(path)
        except (OSError, RunDamaged):  # dropped at this moment, or not usable: the journal is searched instead
            continue
        try:
            found.update(offset for offset in run.offsets(fingerprint) if start <= offset < end)
            covered.append((run.first_offset, run.next_offset))
        except OSError:
            continue
        finally:
            run.close()
    for first, last in _gaps(covered, start, end):
        found.update(_search(reader, partition, fingerprint, first, last))
    return sorted(found)[:OFFSETS_MAX]


def _gaps(covered: list[tuple[int, int]], start: int, end: int) -> Iterator[tuple[int, int]]:
    for first, last in sorted(covered):
        if start < first:
            yield start, min(first, end)
        start = max(start, last)
    if start < end:
        yield start, end


def _search(reader: Reader, partition: int, fingerprint: bytes, first: int, last: int) -> list[int]:
    try:
        return list(reader.find(partition, fingerprint, first, last))
    except OffsetExpired as expired:  # retention was quicker; only what is still kept counts
        return list(reader.find(partition, fingerprint, expired.start, last)) if expired.start < last else []
