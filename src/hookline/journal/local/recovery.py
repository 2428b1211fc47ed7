"""Open a partition after whatever happened to it: find its true end, cut a torn tail off, and tell damage from an
end.

Groups carry their own offset and checksum, so what stands behind a damaged stretch is found without it: by the headers
where those still lead on, otherwise by whatever looks like a header and has the right checksum.

Only the last segment can be torn: a segment is created after everything in the one before is durable. Nothing tells a
group that was torn from one that was damaged later, so only what has no intact group behind it is cut, and kept aside,
or left behind where a full disk has no room for a copy.
Damage before an intact group is left where it is: readers pass over it, as the port says, and hear of it.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hookline.journal.local.disk import (
    END_NAME,
    Disk,
    EndFile,
    OpenFile,
    create_end_file,
    is_full,
    read_at,
    read_start,
    write_all,
    write_start,
)
from hookline.journal.local.erase import redo_erase
from hookline.journal.local.segment import (
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SUFFIX,
    TEMPORARY_NAME,
    GroupHeader,
    OpenSegment,
    decode_header,
    encode_damage,
    encode_segment_header,
    is_intact,
    is_segment_header,
    list_segments,
    segment_name,
)
from hookline.journal.port import GROUP_BYTES_MAX, GROUP_RECORDS_MAX
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger
from hookline.whole_file import is_readable

_WINDOW_BYTES_FIRST = 1024 * 1024
_WINDOW_GROWTH = 4
_ZEROS_KEPT = 64
"""Of the zeros at the end of what was read: the last group may end with some, the rest is nobody's yet."""
_COUNT = rb"(?:[^\x00][\x00-\x09]|\x00[\x01-\x09])\x00\x00"
_HEADER = rb"(?s)(?=.{6}[\x00-\x40]\x00" + _COUNT + rb".{4}(?:%b|%b).{6}\x00\x00)"
"""What the header of a group may look like whose offset has one of two upper halves; its checksum is looked at then."""


class Gap(NamedTuple):
    """Damage that an intact group stands behind: from which offset and byte to which."""

    offset: int
    position: int
    next_offset: int
    stop: int


def find_gap(view: memoryview, position: int, offset: int) -> Gap | None:
    """Return the damage that begins here, up to the next intact group; None when there is none behind it."""
    for stop, next_offset in by_headers(view, position, offset):
        if intact_at(view, stop, next_offset):
            return Gap(offset, position, next_offset, stop)
    halves = (re.escape((offset + more >> 32).to_bytes(4, "little")) for more in (0, len(view)))
    for found in re.compile(_HEADER % tuple(halves)).finditer(view, position + 1):
        stop = found.start()
        if stop + GROUP_HEADER_BYTES > len(view):
            return None
        next_offset = decode_header(view, stop).first_offset
        if 0 < next_offset - offset <= stop - position and intact_at(view, stop, next_offset):
            return Gap(offset, position, next_offset, stop)
    return None


def find_gap_in(file: OpenFile, position: int, offset: int) -> Gap | None:
    """As ``find_gap``, in an open file: read in growing stretches, for nearly all damage is small."""
    left = max(0, os.fstat(file.fd).st_size - position)
    length = _WINDOW_BYTES_FIRST
    while True:
        # Not mapped: the appender may give back what is beyond the data, and such a page must not be touched then.
        data = read_at(file, min(length, left), position)
        with memoryview(data)[: len(data.rstrip(b"\0")) + _ZEROS_KEPT] as view:
            gap = find_gap(view, 0, offset)
        if gap is not None or length >= left:
            return gap and Gap(offset, position, gap.next_offset, position + gap.stop)
        length *= _WINDOW_GROWTH


def intact_at(view: memoryview, position: int, offset: int) -> GroupHeader | None:
    """Return the header of the intact group with this offset at this place."""
    header = _plausible(view, position, offset)
    if header is None or not is_intact(view[position : position + header.size_bytes], header.crc):
        return None
    return header


def by_headers(view: memoryview, position: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield where the groups behind this one begin, as far as headers tell."""
    while (header := _plausible(view, position, offset)) is not None:
        position, offset = position + header.size_bytes, header.next_offset
        yield position, offset


def _plausible(view: memoryview, position: int, offset: int) -> GroupHeader | None:
    if position + GROUP_HEADER_BYTES > len(view):
        return None
    header = decode_header(view, position)
    return header if header.is_plausible(offset) and position + header.size_bytes <= len(view) else None


CUT_SUFFIX = ".cut"
_CHUNK_BYTES = 1024 * 1024


class Recovery(NamedTuple):
    """Hold what opening a partition had to repair.

    ``cut_bytes`` is a torn tail that, as far as can be told, no one had been answered for; it is kept beside the
    segment, or in it where the disk is full. ``damaged`` are the ranges of offsets whose records are damaged in the
    last segment: the disk lost them, or never got them in a power cut. Their offsets are not used again; readers meet
    JournalCorrupt there.
    """

    partition: int
    segment: str
    cut_bytes: int
    damaged: tuple[tuple[int, int], ...] = ()
    lost: tuple[int, int] | None = None
    """The last of ``damaged``, where the journal ends before offsets that it, or somebody, knew: it goes on behind."""

    @property
    def damaged_records(self) -> int:
        """Return how many records are damaged."""
        return sum(stop - start for start, stop in self.damaged)


class Tail(NamedTuple):
    """Say where appending goes on: in ``segment`` at ``position``, or in a new segment when there is none."""

    next_offset: int
    segment: OpenSegment | None
    position: int
    first_at: int


class _Scan(NamedTuple):
    """Say where the last intact group of a segment ends; ``dirty_end`` is where its last non-zero byte does, and
    ``unsure`` where what was acknowledged to nobody begins."""

    next_offset: int
    position: int
    dirty_end: int
    unsure: int
    first_at: int
    gaps: list[Gap]


def recover(folder: Path, partition: int, disk: Disk, known: int = 0) -> tuple[Tail, Recovery | None]:
    """Make the partition fit for appending and publish its end, after synchronising what it covers.

    Offsets below ``known`` were given away before, whatever the folder holds of them.
    """
    (folder / TEMPORARY_NAME).unlink(missing_ok=True)
    is_erased = _finish_erasure(folder, disk)
    create_end_file(folder / END_NAME)
    end_file = EndFile(folder / END_NAME, writable=True)
    try:
        tail, recovery = _recover_last(folder, partition, disk, max(end_file.value, known), is_erased)
        if read_start(folder) is None:
            write_start(folder, min([*list_segments(folder)[:1], tail.next_offset]), disk)
        disk.sync_folder(folder)
        crash_point("journal.recovery_before_publish")
        end_file.publish(tail.next_offset)
    finally:
        end_file.close()
    return tail, recovery


def _finish_erasure(folder: Path, disk: Disk) -> bool:
    """Finish an erasure that was interrupted; return False where the disk refuses.

    Its note stays then, for readers and the next erasure, and the journal opens all the same. It does not where there
    is no room, which passes: a record that is overwritten in part would be taken for a damaged one.
    """
    try:
        redo_erase(folder, disk)
    except OSError as error:
        if is_full(error):
            raise
        next_step = "what was to be erased may still be there: check the disk; it is tried again"
        logger().error("erasure_not_finished", folder=str(folder), error=str(error), next_step=next_step)
        return False
    return True


def _recover_last(
    folder: Path, partition: int, disk: Disk, published: int, is_writable: bool
) -> tuple[Tail, Recovery | None]:
    segments = list_segments(folder)
    if not segments:
        lost = (0, published)
        return Tail(published, None, 0, 0), Recovery(partition, "", 0, (lost,), lost) if published else None
    path = folder / segment_name(segments[-1])
    fd = os.open(path, os.O_RDWR)
    try:
        # Where the disk cannot read everything nothing is written: a part of such a place cannot be.
        is_whole = is_readable(fd)
        if not is_segment_header(path, read_at(OpenFile(fd, path), SEGMENT_HEADER_BYTES, 0), segments[-1]) and is_whole:
            write_all(disk, fd, [encode_segment_header(segments[-1])], 0)
        scan = _scan(OpenFile(fd, path), segments[-1], published, is_whole)
        for gap in scan.gaps if is_whole else ():
            _bridge(fd, gap, disk)
        damaged = [(gap.offset, gap.next_offset) for gap in scan.gaps]
        if scan.next_offset < published:
            lost = (scan.next_offset, published)
            return Tail(published, None, 0, 0), Recovery(partition, path.name, 0, (*damaged, lost), lost)
        cut_bytes = scan.dirty_end - scan.position
        is_clean = is_whole and (not cut_bytes or _cut(fd, path, scan, disk))
        if is_whole:
            _write_again(fd, scan.unsure, scan.position, disk)
        disk.fdatasync(fd)
        recovery = Recovery(partition, path.name, cut_bytes, tuple(damaged)) if cut_bytes or damaged else None
        if damaged or not (is_clean and is_writable):  # whatever is wrong there, nothing new is written beside it
            return Tail(scan.next_offset, None, 0, 0), recovery
        segment = OpenSegment(os.dup(fd), segments[-1], os.fstat(fd).st_size)
        return Tail(scan.next_offset, segment, scan.position, scan.first_at), recovery
    finally:
        os.close(fd)


def _scan(file: OpenFile, first_offset: int, published: int, is_whole: bool) -> _Scan:
    with _content(file, is_whole) as view:
        position, offset, first_at, dirty_end = SEGMENT_HEADER_BYTES, first_offset, 0, -1
        unsure = position
        gaps: list[Gap] = []
        while True:
            if offset <= published:
                unsure = position
            header = intact_at(view, position, offset)
            if header is None:
                dirty_end = max(position, _dirty_end(view, position) if dirty_end < 0 else dirty_end)
                gap = find_gap(view[:dirty_end], position, offset)
                if gap is None:
                    return _Scan(offset, position, dirty_end, unsure, first_at, gaps)
                gaps.append(gap)
                position, offset = gap.stop, gap.next_offset
                continue
            first_at = first_at or header.received_at_last
            position, offset = position + header.size_bytes, header.next_offset


@contextmanager
def _content(file: OpenFile, is_whole: bool) -> Iterator[memoryview]:
    """Give what a segment holds. It is mapped, but where the disk cannot read all of it: that would end the process."""
    if is_whole:
        with mmap.mmap(file.fd, 0, prot=mmap.PROT_READ) as data, memoryview(data) as view:
            yield view
    else:
        with memoryview(read_at(file, os.fstat(file.fd).st_size, 0)) as view:
            yield view


def _write_again(fd: int, start: int, stop: int, disk: Disk) -> None:
    """Have the disk take what it may never have got: what a synchronisation that failed could not write, the system
    holds in memory as if it were written, and the next synchronisation says nothing of it."""
    try:
        for at in range(start, stop, _CHUNK_BYTES):
            write_all(disk, fd, [os.pread(fd, min(_CHUNK_BYTES, stop - at), at)], at)
    except OSError as error:
        if not is_full(error):  # where even what is there takes new room, the journal opens all the same
            raise


def _bridge(fd: int, gap: Gap, disk: Disk) -> None:
    """Put headers over damage that readers could not follow to its end; each has a checksum that never fits."""
    data = memoryview(os.pread(fd, gap.stop - gap.position, gap.position))
    if (gap.stop - gap.position, gap.next_offset) in by_headers(data, 0, gap.offset):
        return
    records, size = gap.next_offset - gap.offset, len(data)
    count = min(max(-(-records // GROUP_RECORDS_MAX), -(-size // GROUP_BYTES_MAX)), records)
    for number in range(count):
        first, stop = (records * each // count for each in (number, number + 1))
        begin, end = (size * each // count for each in (number, number + 1))
        header = encode_damage(data[begin + GROUP_HEADER_BYTES : end], stop - first, gap.offset + first)
        write_all(disk, fd, [header], gap.position + begin)


def _dirty_end(view: memoryview, position: int) -> int:
    """Return where the last byte that is not zero ends; ``position`` when all are zero from there on."""
    zeros = bytes(_CHUNK_BYTES)
    dirty_end = position
    for start in range(position, len(view), _CHUNK_BYTES):
        chunk = view[start : start + _CHUNK_BYTES]
        if chunk != zeros[: len(chunk)]:
            dirty_end = start + len(bytes(chunk).rstrip(b"\0"))
    return dirty_end


def _cut(fd: int, path: Path, scan: _Scan, disk: Disk) -> bool:
    """Keep the torn tail in a file of its own, then zero it, so that no part of it is ever taken for a group.

    Return False where a full disk has no room for that file. The tail stays where it is then, only without what could
    be the head of a group, so that readers end before it; nothing is written to this segment any more. The file stays
    as well, empty: it notes where the tail is.
    """
    # Named by its place: a segment may be torn again, and what was kept before stays.
    copy = os.open(path.with_suffix(f".{scan.position}{CUT_SUFFIX}"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    length = scan.dirty_end - scan.position
    try:
        for start in range(0, length, _CHUNK_BYTES):
            chunk = os.pread(fd, min(_CHUNK_BYTES, length - start), scan.position + start)
            write_all(disk, copy, [chunk], start)
        disk.fdatasync(copy)
    except OSError as error:
        if not is_full(error):
            raise
        os.ftruncate(copy, 0)
        disk.fdatasync(copy)
        write_all(disk, fd, [bytes(min(GROUP_HEADER_BYTES, length))], scan.position)
        return False
    finally:
        os.close(copy)
    crash_point("journal.recovery_cut_saved")
    for start in range(0, length, _CHUNK_BYTES):
        write_all(disk, fd, [bytes(min(_CHUNK_BYTES, length - start))], scan.position + start)
    return True


def remove_cut(cut: Path, disk: Disk) -> None:
    """Remove a torn tail for good: the file that it was kept in and, where that had no room, its bytes in the
    segment."""
    name, _, position = cut.stem.partition(".")
    if cut.stat().st_size == 0 and position.isdigit():
        _truncate_torn(cut.with_name(name + SUFFIX), int(position), disk)
    cut.unlink()


def _truncate_torn(segment: Path, position: int, disk: Disk) -> None:
    try:
        fd = os.open(segment, os.O_RDWR)
    except FileNotFoundError:
        return
    try:
        if not any(os.pread(fd, GROUP_HEADER_BYTES, position)):  # no group begins there
            os.ftruncate(fd, min(position, os.fstat(fd).st_size))
            disk.fdatasync(fd)
    finally:
        os.close(fd)
