"""Groups of records out of the messages they were read as."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hookline.journal.damaged import note_damage
from hookline.journal.kafka.codec import blanked, decode
from hookline.journal.kafka.cursors import Run
from hookline.journal.port import Group, JournalCorrupt
from hookline.journal.record import Record


def group_of(place: str, run: Run, erased: frozenset[int]) -> Group:
    """Return the records of a run, up to the first message that is none; raise JournalCorrupt when that is the
    first."""
    first = run.first_offset
    try:
        records = decode(run.values)
    except ValueError:
        records = _readable(place, run)
    if erased:
        for offset in erased.intersection(range(first, first + len(records))):
            records[offset - first] = blanked(records[offset - first])
    return Group(first, records, run.size_bytes)


def noting_damage(folder: Path, partition: int, groups: Iterator[Group]) -> Iterator[Group]:
    """Yield the groups; where one cannot be read, note that in the data folder's journal, and raise JournalCorrupt."""
    try:
        yield from groups
    except JournalCorrupt as error:
        note_damage(folder, partition, error)
        raise


def _readable(place: str, run: Run) -> list[Record]:
    records: list[Record] = []
    for value in run.values:
        try:
            records += decode([value])
        except ValueError:
            break
    if not records:
        raise JournalCorrupt(place, run.first_offset, run.first_offset + 1)
    return records
