"""Where a messageId or a user is, for processes that only read: sealed runs first, the rest by reading the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from hookline.index.keys import user_hash
from hookline.index.run import SUFFIX, Run, RunDamaged
from hookline.journal.port import OffsetExpired, Reader
from hookline.journal.reading import read_on

OFFSETS_MAX = 10_000
"""Offsets returned of one messageId; the newest of a longer list are left out."""


def find(reader: Reader, index_dir: Path, partition: int, fingerprint: bytes) -> list[int]:
    """Return the offsets that hold the fingerprint, ascending, rejected and repeated ones included.

    ``index_dir`` is the folder of all partitions. What no run covers (the newest records, and ranges whose run is
    gone) is searched for in the journal itself.
    """

    def search(first: int, last: int) -> Iterator[int]:
        yield from _search(reader, partition, fingerprint, first, last)

    start, end = reader.start(partition), reader.end(partition)
    found = _look_up(index_dir / str(partition), start, end, lambda run: run.offsets(fingerprint), search)
    return sorted(found)[:OFFSETS_MAX]


def find_users(reader: Reader, index_dir: Path, partition: int, hashes: frozenset[bytes], end: int) -> list[int]:
    """Return the offsets below ``end`` whose record may be of a user with one of these hashes, ascending.

    What it costs does not depend on how many events there are of others, but for those that no run covers yet.
    """

    def in_run(run: Run) -> Iterator[int]:
        for user in hashes:
            yield from run.offsets_of_user(user)

    def search(first: int, last: int) -> Iterator[int]:
        for group in read_on(reader, partition, first, last):
            for offset, record in enumerate(group.records, group.first_offset):
                if offset < last and user_hash(record.user_key) in hashes:
                    yield offset

    return sorted(_look_up(index_dir / str(partition), reader.start(partition), end, in_run, search))


def _look_up(
    folder: Path,
    start: int,
    end: int,
    in_run: Callable[[Run], Iterable[int]],
    search: Callable[[int, int], Iterable[int]],
) -> set[int]:
    found: set[int] = set()
    covered: list[tuple[int, int]] = []
    for path in sorted(folder.glob("*" + SUFFIX)):
        try:
            run = Run(path)
        except (OSError, RunDamaged):  # dropped at this moment, or not usable: the journal is searched instead
            continue
        try:
            found.update(offset for offset in in_run(run) if start <= offset < end)
            covered.append((run.first_offset, run.next_offset))
        except OSError:
            continue
        finally:
            run.close()
    for first, last in _gaps(covered, start, end):
        found.update(search(first, last))
    return found


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
