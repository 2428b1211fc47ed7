"""Opens a partition after whatever happened to it: finds its true end, cuts a torn tail, and says so.

Only the last segment can be torn: a segment is created after everything in the one before is durable.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import NamedTuple

from hookline.journal.local.disk import Disk, write_all
from hookline.journal.local.end_file import NAME as END_NAME
from hookline.journal.local.end_file import EndFile, create_end_file
from hookline.journal.local.erase import redo_erase
from hookline.journal.local.next_segment import TEMPORARY_NAME, OpenSegment
from hookline.journal.local.segment import (
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    check_segment_header,
    decode_header,
    is_intact,
    list_segments,
    segment_name,
)
from hookline.telemetry.crashpoints import crash_point

CUT_SUFFIX = ".cut"
_CHUNK_BYTES = 1024 * 1024


class Recovery(NamedTuple):
    """What opening a partition had to repair.

    ``cut_bytes`` is a torn tail that no one had been answered for; it is kept beside the segment. ``damaged_records``
    counts records that had been durable and are damaged in the last segment: the disk lost them. Their offsets
    are not used again; readers meet JournalCorrupt there.
    """

    partition: int
    segment: str
    cut_bytes: int
    damaged_records: int


class Tail(NamedTuple):
    """Where appending goes on: in ``segment`` at ``position``, or in a new segment when there is none."""

    next_offset: int
    segment: OpenSegment | None
    position: int
    first_at: int


class _Scan(NamedTuple):
    """How far the groups of a segment are intact; ``dirty_end`` is where its last non-zero byte ends."""

    next_offset: int
    position: int
    dirty_end: int
    first_at: int


def recover(folder: Path, partition: int, disk: Disk) -> tuple[Tail, Recovery | None]:
    """Make the partition fit for appending and publish its end, after synchronising what it covers."""
    (folder / TEMPORARY_NAME).unlink(missing_ok=True)
    redo_erase(folder, disk)
    create_end_file(folder / END_NAME)
    end_file = EndFile(folder / END_NAME, writable=True)
    try:
        tail, recovery = _recover_last(folder, partition, disk, end_file.value)
        disk.sync_folder(folder)
        crash_point("journal.recovery_before_publish")
        end_file.publish(tail.next_offset)
    finally:
        end_file.close()
    return tail, recovery


def _recover_last(folder: Path, partition: int, disk: Disk, published: int) -> tuple[Tail, Recovery | None]:
    segments = list_segments(folder)
    if not segments:
        return Tail(published, None, 0, 0), None
    path = folder / segment_name(segments[-1])
    fd = os.open(path, os.O_RDWR)
    try:
        scan = _scan(fd, path, segments[-1])
        if scan.next_offset >= published:
            recovery = _cut(fd, path, partition, scan, disk)
            disk.fdatasync(fd)
            segment = OpenSegment(os.dup(fd), segments[-1], os.fstat(fd).st_size)
            return Tail(scan.next_offset, segment, scan.position, scan.first_at), recovery
        return Tail(published, None, 0, 0), Recovery(partition, path.name, 0, published - scan.next_offset)
    finally:
        os.close(fd)


def _scan(fd: int, path: Path, first_offset: int) -> _Scan:
    check_segment_header(path, os.pread(fd, SEGMENT_HEADER_BYTES, 0), first_offset)
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as data, memoryview(data) as view:
        size = len(view)
        position, offset, first_at = SEGMENT_HEADER_BYTES, first_offset, 0
        while position + GROUP_HEADER_BYTES <= size:
            header = decode_header(view, position)
            stop = position + header.size_bytes
            if not header.is_plausible(offset) or stop > size or not is_intact(view[position:stop], header.crc):
                break
            first_at = first_at or header.received_at_last
            position, offset = stop, header.next_offset
        return _Scan(offset, position, _dirty_end(view, position), first_at)


def _dirty_end(view: memoryview, position: int) -> int:
    """Where the last byte that is not zero ends; ``position`` when all are zero from there on."""
    zeros = bytes(_CHUNK_BYTES)
    dirty_end = position
    for start in range(position, len(view), _CHUNK_BYTES):
        chunk = view[start : start + _CHUNK_BYTES]
        if chunk != zeros[: len(chunk)]:
            dirty_end = start + len(bytes(chunk).rstrip(b"\0"))
    return dirty_end


def _cut(fd: int, path: Path, partition: int, scan: _Scan, disk: Disk) -> Recovery | None:
    """Keep the torn tail in a file of its own, then zero it, so that no part of it is ever taken for a group."""
    length = scan.dirty_end - scan.position
    if length == 0:
        return None
    copy = os.open(path.with_suffix(CUT_SUFFIX), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    try:
        for start in range(0, length, _CHUNK_BYTES):
            chunk = os.pread(fd, min(_CHUNK_BYTES, length - start), scan.position + start)
            write_all(disk, copy, [chunk], start)
        disk.fdatasync(copy)
    finally:
        os.close(copy)
    crash_point("journal.recovery_cut_saved")
    for start in range(0, length, _CHUNK_BYTES):
        write_all(disk, fd, [bytes(min(_CHUNK_BYTES, length - start))], scan.position + start)
    return Recovery(partition, path.name, length, 0)
