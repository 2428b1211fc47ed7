"""Overwrites records in place, so that their content is gone from the disk while offsets and lengths stay.

A redo intent is made durable first: a crash or a full disk between the overwriting writes leaves a group whose checksum
is wrong, and opening the journal, the next erasure, or a reader that meets the group, finishes from the intent.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from zlib_ng.zlib_ng import crc32

from hookline.journal.local.disk import Disk, OpenFile, read_at, write_all
from hookline.journal.local.segment import CHECKSUM_BYTES, GROUP_HEADER_BYTES, SUFFIX, GroupHeader, segment_name
from hookline.journal.record import Record
from hookline.telemetry.crashpoints import crash_point

_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Strings and binaries whose length follows in so many bytes."""

_FIXED = {
    **dict.fromkeys((0xC0, 0xC2, 0xC3), 0),  # nil, false, true
    **dict.fromkeys((0xCC, 0xD0), 1),  # 8-bit integers
    **dict.fromkeys((0xCD, 0xD1, 0xDC, 0xDE), 2),  # 16-bit integers; array and map with a 16-bit length
    **dict.fromkeys((0xCE, 0xD2, 0xCA, 0xDD, 0xDF), 4),  # 32-bit integers, float; array and map
    **dict.fromkeys((0xCF, 0xD3, 0xCB), 8),  # 64-bit integers, double
}
"""Values, and heads of arrays and maps, that take so many bytes after the first; their items simply follow."""


def blank(encoded: bytes) -> bytes:
    """Return the value with its strings and binaries overwritten by zero bytes."""
    data = bytearray(encoded)
    at = 0
    while at < len(data):
        head, content = _head(data, at)
        at += head
        data[at : at + content] = bytes(content)
        at += content
    return bytes(data)


def _head(data: bytearray, at: int) -> tuple[int, int]:
    """Return how many bytes from here are structure, and how many content after them."""
    tag = data[at]
    if tag < 0xA0 or tag >= 0xE0:  # small integers, heads of small maps and arrays
        return 1, 0
    if tag < 0xC0:  # short string
        return 1, tag & 0x1F
    if tag in _SIZED:
        width = _SIZED[tag]
        return 1 + width, int.from_bytes(data[at + 1 : at + 1 + width], "big")
    return 1 + _FIXED[tag], 0


INTENT_NAME = "erase.intent"
INTENT_BYTES_MAX = 4 * 1024 * 1024
"""New bytes per intent, about; more records take several intents."""

_BLANKED = ("message_id", "fingerprint", "user_key", "body", "envelope", "selection", "traceparent", "rejection")
_BLANKED_INDEXES = frozenset(Record.__struct_fields__.index(name) for name in _BLANKED)
_ERASED_INDEX = Record.__struct_fields__.index("erased")
_TRUE = msgspec.msgpack.encode(True)

_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class Patch(NamedTuple):
    """New bytes for a place in a segment."""

    first_offset: int
    position: int
    data: bytes


class FoundGroup(NamedTuple):
    """An intact group as it stands on the disk."""

    segment_first_offset: int
    position: int
    header: GroupHeader
    data: bytes


_decode_patches = msgspec.msgpack.Decoder(list[Patch]).decode


def erase_records(folder: Path, disk: Disk, groups: Iterable[tuple[FoundGroup, Sequence[int]]]) -> int:
    """Overwrite the records at the given offsets of each group; return how many. Durable on return.

    An erasure that the disk refused in the middle is finished first, for its intent is all that says what its groups
    have to be. When the disk refuses that too, nothing else is erased, and the intent stays for the next time.
    """
    redo_erase(folder, disk)
    patches: list[Patch] = []
    count = patched_bytes = 0
    for group, offsets in groups:
        count += len(offsets)
        of_group = list(_patches(group, offsets))
        patches += of_group
        patched_bytes += sum(len(patch.data) for patch in of_group)
        if patched_bytes >= INTENT_BYTES_MAX:
            _apply_durably(folder, disk, patches)
            patches, patched_bytes = [], 0
    if patches:
        _apply_durably(folder, disk, patches)
    return count


def redo_erase(folder: Path, disk: Disk) -> None:
    """Finish an erasure that a crash, or the disk, interrupted; an intent that never became durable, or cannot be read
    any more, is dropped."""
    path = folder / INTENT_NAME
    if not path.exists():
        return
    patches = read_intent(folder)
    if patches:
        _overwrite(folder, disk, patches)
    path.unlink()
    disk.sync_folder(folder)


def read_intent(folder: Path) -> list[Patch]:
    """Return the patches of the erasure that is under way, if any. One that the disk cannot read any more has none:
    whoever asked for the erasure asks again, and what was overwritten in part is damage like any other."""
    try:
        with (folder / INTENT_NAME).open("rb") as file:
            # Named like a segment, for the segments beside it tell whether the disk reads anything.
            named = OpenFile(file.fileno(), folder / f"{INTENT_NAME}{SUFFIX}")
            data = read_at(named, os.fstat(file.fileno()).st_size, 0)
    except FileNotFoundError:
        return []
    crc, content = data[:CHECKSUM_BYTES], data[CHECKSUM_BYTES:]
    return _decode_patches(content) if crc32(content).to_bytes(CHECKSUM_BYTES, "little") == crc else []


def _patches(group: FoundGroup, offsets: Sequence[int]) -> Iterator[Patch]:
    data = bytearray(group.data)
    raws = _raws(memoryview(group.data)[GROUP_HEADER_BYTES:])
    starts = _starts(raws, len(data))
    for offset in offsets:
        index = offset - group.header.first_offset
        erased = _erased(bytes(raws[index]))
        start = starts[index]
        if data[start : start + len(erased)] != erased:
            data[start : start + len(erased)] = erased
            yield Patch(group.segment_first_offset, group.position + start, erased)
    if data != group.data:
        checksum = crc32(memoryview(data)[CHECKSUM_BYTES:]).to_bytes(CHECKSUM_BYTES, "little")
        yield Patch(group.segment_first_offset, group.position, checksum)


def _erased(record: bytes) -> bytes:
    """Return the record with the same length, structure, offset and times, and without its content."""
    fields = [bytes(raw) for raw in _raws(record)]
    head = record[: len(record) - sum(map(len, fields))]
    fields[_ERASED_INDEX] = _TRUE
    return head + b"".join(blank(field) if i in _BLANKED_INDEXES else field for i, field in enumerate(fields))


def _starts(raws: Sequence[msgspec.Raw], end: int) -> list[int]:
    """Return where each record begins, given where the last one ends."""
    starts: list[int] = []
    for raw in reversed(raws):
        end -= len(raw)
        starts.append(end)
    return starts[::-1]


def _apply_durably(folder: Path, disk: Disk, patches: Sequence[Patch]) -> None:
    content = msgspec.msgpack.encode(patches)
    fd = os.open(folder / INTENT_NAME, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        write_all(disk, fd, [crc32(content).to_bytes(CHECKSUM_BYTES, "little"), content], 0)
        disk.fdatasync(fd)
    except OSError:
        (folder / INTENT_NAME).unlink()
        raise
    finally:
        os.close(fd)
    disk.sync_folder(folder)
    crash_point("journal.erase_intent_written")
    _overwrite(folder, disk, patches)
    crash_point("journal.erase_before_intent_removed")
    (folder / INTENT_NAME).unlink()
    disk.sync_folder(folder)


def _overwrite(folder: Path, disk: Disk, patches: Sequence[Patch]) -> None:
    by_segment: defaultdict[int, list[Patch]] = defaultdict(list)
    for patch in patches:
        by_segment[patch.first_offset].append(patch)
    for first_offset, of_segment in sorted(by_segment.items()):
        try:
            fd = os.open(folder / segment_name(first_offset), os.O_WRONLY)
        except FileNotFoundError:
            continue  # retention was here between the crash and the redo
        try:
            for patch in of_segment:
                write_all(disk, fd, [patch.data], patch.position)
                crash_point("journal.erase_half_written")
            disk.fdatasync(fd)
        finally:
            os.close(fd)
