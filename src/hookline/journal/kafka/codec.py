"""Records as the values of messages, one MessagePack array each as in a local group, and groups of them as they were
read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from hookline.journal.damaged import note_damage
from hookline.journal.kafka.cursors import Run
from hookline.journal.port import Group, JournalCorrupt, JournalTooNew
from hookline.journal.record import FORMAT_VERSION, Record

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Record]).decode
_ARRAY_32 = b"\xdd"


def decode(values: Sequence[bytes]) -> list[Record]:
    """Return the records of some messages; ValueError for what is no record, JournalTooNew for those of a newer
    version."""
    try:
        # Read as one array: a third cheaper than one by one.
        records = _decode(_ARRAY_32 + len(values).to_bytes(4, "big") + b"".join(values))
    except msgspec.DecodeError as error:
        raise ValueError(f"a message in the journal's topic is no record: {error}") from None
    newest = max((record.format_version for record in records), default=0)
    if newest > FORMAT_VERSION:
        raise JournalTooNew(f"journal records have format {newest}: upgrade to read them")
    return records


def blanked(record: Record) -> Record:
    """Return an erased record: what a local journal leaves of one, too."""
    return msgspec.structs.replace(
        record,
        erased=True,
        message_id="",
        fingerprint=bytes(16),
        user_key="",
        body=b"",
        envelope=None,
        selection=None,
        traceparent=None,
        rejection=None,
    )


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
