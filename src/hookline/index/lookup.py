"""Find a messageId or a user for processes that only read: sealed runs first, then the newest stretch of the
journal.

Sealed runs answer for what they cover; the rest (the newest records, and ranges whose run is gone) is searched for in
the raw bytes of the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.index.keys import user_hash
from hookline.index.run import SUFFIX, Run, RunDamaged
from hookline.journal.port import OffsetExpired, Reader, SearchableReader
from hookline.journal.reading import read_on
from hookline.journal.record import Record

OFFSETS_MAX = 10_000
"""Offsets returned of one messageId; the newest of a longer list are left out."""


def find(reader: Reader, index_dir: Path, partition: int, fingerprint: bytes) -> list[int]:
    """Return the offsets that hold the fingerprint, ascending, rejected and repeated ones included.

    ``index_dir`` is the folder of all partitions. What no run covers (the newest records, and ranges whose run is
    gone) is searched for in the journal itself.
    """
    folder, start, end = index_dir / str(partition), reader.start(partition), reader.end(partition)

    def search(first: int, last: int) -> list[int]:
        return _search(reader, partition, fingerprint, first, last)

    return list(islice(_ascending(folder, start, end, lambda run: run.offsets(fingerprint), search), OFFSETS_MAX))


def find_all(reader: Reader, index_dir: Path, partition: int, fingerprints: Collection[bytes]) -> list[int]:
    """Return the offsets that hold one of the fingerprints, ascending, rejected and repeated ones included.

    With many of them, what no run covers is read once for all, instead of searched for each.
    """
    wanted = frozenset(fingerprints)

    def in_run(run: Run) -> list[int]:
        return sorted({offset for fingerprint in wanted for offset in run.offsets(fingerprint)})

    def search(first: int, last: int) -> Iterable[int]:
        if len(wanted) <= KEYS_SEARCHED_FOR:
            return sorted(
                {each for fingerprint in wanted for each in _search(reader, partition, fingerprint, first, last)}
            )
        return [
            offset
            for group in read_on(reader, partition, first, last)
            for offset, record in enumerate(group.records, group.first_offset)
            if offset < last and record.fingerprint in wanted
        ]

    folder, start, end = index_dir / str(partition), reader.start(partition), reader.end(partition)
    return list(_ascending(folder, start, end, in_run, search))


def find_users(reader: Reader, index_dir: Path, partition: int, hashes: frozenset[bytes], end: int) -> Iterator[int]:
    """Yield the offsets below ``end`` whose record may be of a user with one of these hashes, ascending; holds no more
    than those of one run.

    What it costs does not depend on how many events there are of others, but for those that no run covers yet.
    """

    def search(first: int, last: int) -> Iterator[int]:
        for group in read_on(reader, partition, first, last):
            for offset, record in enumerate(group.records, group.first_offset):
                if offset < last and user_hash(record.user_key) in hashes:
                    yield offset

    folder, start = index_dir / str(partition), reader.start(partition)
    return _ascending(folder, start, end, lambda run: run.offsets_of_users(hashes), search)


def _ascending(
    folder: Path,
    start: int,
    end: int,
    in_run: Callable[[Run], Iterable[int]],
    search: Callable[[int, int], Iterable[int]],
) -> Iterator[int]:
    """Yield what sealed runs know, and between and behind them what a search of the journal finds."""
    for first, last, path in reversed(_runs(folder)):
        if last <= start or first >= end:
            continue
        try:
            run = Run(path)
            try:
                found = [offset for offset in in_run(run) if start <= offset < end]
            finally:
                run.close()
        except (OSError, RunDamaged):  # dropped at this moment, or not usable: the journal is searched instead
            continue
        if start < first:
            yield from search(start, first)
        yield from found
        start = last
    if start < end:
        yield from search(start, end)


def _search(reader: Reader, partition: int, fingerprint: bytes, first: int, last: int) -> list[int]:
    try:
        return list(islice(reader.find(partition, fingerprint, first, last), OFFSETS_MAX))
    except OffsetExpired as expired:  # retention was quicker; only what is still kept counts
        if expired.start >= last:
            return []
        return list(islice(reader.find(partition, fingerprint, expired.start, last), OFFSETS_MAX))


STRETCH_MIN = 256
STRETCH_MAX = 32_768
"""Offsets searched at once where no run helps: few first, for who was here lately is found in the newest ones."""


KEYS_SEARCHED_FOR = 8
"""With more of them at once, every record is looked at instead."""


class Stretch(NamedTuple):
    """Hold what was looked through: ``found`` at or above ``first_offset`` may be of the users: offsets, newest first,
    each with its record where that was read anyway.
    """

    first_offset: int
    found: Sequence[tuple[int, Record | None]]


class _Range(NamedTuple):
    first_offset: int
    next_offset: int
    path: Path


def newest_of(
    journal: SearchableReader, index_dir: Path, partition: int, user_keys: Collection[str], before: int
) -> Iterator[Stretch]:
    """Yield the stretches below ``before`` backwards, as far as records are kept.

    An offset may be of somebody else (two users of one hash), never is one left out. ``index_dir`` is the folder of all
    partitions.
    """
    before = min(before, journal.end(partition))
    keys = frozenset(user_keys)
    hashes = set(map(user_hash, keys))
    for run in _runs(index_dir / str(partition)):
        if run.first_offset >= before:
            continue
        if run.next_offset < before:
            yield from _unindexed(journal, partition, keys, run.next_offset, before)
            before = run.next_offset
        found = _in_run(run.path, hashes, before)
        start = max(run.first_offset, journal.start(partition))
        if found is None:  # dropped at this moment, or not usable
            yield from _unindexed(journal, partition, keys, start, before)
        else:
            yield Stretch(start, [(offset, None) for offset in found if offset >= start])
        before = start
    yield from _unindexed(journal, partition, keys, journal.start(partition), before)


def _runs(folder: Path) -> list[_Range]:
    """Return the runs of a partition by their names, newest first."""
    found = []
    for path in folder.glob("*" + SUFFIX):
        first, _, after = path.name.removesuffix(SUFFIX).partition("-")
        if first.isdecimal() and after.isdecimal():
            found.append(_Range(int(first), int(after), path))
    return sorted(found, reverse=True)


def _in_run(path: Path, hashes: Collection[bytes], before: int) -> list[int] | None:
    try:
        run = Run(path)
    except (OSError, RunDamaged):
        return None
    try:
        offsets = run.offsets_of_users(hashes)
    except OSError:
        return None
    finally:
        run.close()
    return [offset for offset in reversed(offsets) if offset < before]


def _unindexed(
    journal: SearchableReader, partition: int, keys: frozenset[str], start: int, before: int
) -> Iterator[Stretch]:
    length = STRETCH_MIN
    while before > start:
        first = max(start, before - length)
        yield Stretch(first, _search_stretch(journal, partition, keys, first, before))
        before, length = first, min(2 * length, STRETCH_MAX)


def _search_stretch(
    journal: SearchableReader, partition: int, keys: frozenset[str], first: int, last: int
) -> list[tuple[int, Record | None]]:
    texts = [msgspec.msgpack.encode(key) for key in keys]
    found: list[tuple[int, Record | None]] = []
    is_few = len(texts) <= KEYS_SEARCHED_FOR
    for group in journal.holding(partition, texts, first, last) if is_few else read_on(journal, partition, first, last):
        offsets = enumerate(group.records, group.first_offset)
        found += [each for each in offsets if each[0] < last and each[1].user_key in keys]
    return found[::-1]
