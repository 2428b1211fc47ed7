"""Read one open segment: a sparse index from offset to file position, and stretches read ahead in growing steps.

A view reads only what the caller says is durable, and it does not know what comes before or after the segment.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hookline.journal.local.disk import OpenFile, read_at
from hookline.journal.local.erase import read_intent
from hookline.journal.local.recovery import Gap, find_gap_in
from hookline.journal.local.segment import (
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    GroupHeader,
    decode_header,
    is_intact,
    is_segment_header,
    segment_name,
)

READ_BYTES_FIRST = 32 * 1024
READ_BYTES_MAX = 512 * 1024
_GROWTH = 4


class Window:
    """Reads a file front to back through one buffer that is used again and again.

    What ``get`` returns is a view of the buffer and holds until the next call. Bytes may be in the buffer from before
    the file changed: whoever asks must have known that they are final when reading began (see ``begin``).
    """

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(READ_BYTES_MAX))
        self._file: OpenFile | None = None
        self._base = 0
        self._filled = 0
        self._ahead_bytes = READ_BYTES_FIRST

    def begin(self, file: OpenFile) -> None:
        """Read from this file from now on; forget what was read before."""
        self._file = file
        self._filled = 0
        self._ahead_bytes = READ_BYTES_FIRST

    def get(self, position: int, length: int) -> memoryview | None:
        """Return the bytes at this place, or None when the file ends before."""
        at = position - self._base
        if at < 0 or at + length > self._filled:
            self._read(position, length)
            at = 0
            if length > self._filled:
                return None
        return self._buffer[at : at + length]

    def _read(self, position: int, length: int) -> None:
        wanted = max(length, self._ahead_bytes)
        if wanted > len(self._buffer):
            self._buffer = memoryview(bytearray(wanted))
        self._ahead_bytes = min(self._ahead_bytes * _GROWTH, READ_BYTES_MAX)
        self._base = position
        self._filled = 0
        assert self._file is not None, "reading has begun"
        with suppress(OSError):
            self._filled = os.preadv(self._file.fd, [self._buffer[:wanted]], position)
        if self._filled < length:  # of what was asked for alone: what lies ahead may be readable in parts
            found = read_at(self._file, length, position)
            self._buffer[: len(found)] = found
            self._filled = len(found)


INDEX_STEP_BYTES = 256 * 1024
"""About this much of the file per entry of the index: 256 entries for a full segment."""

_SCAN_BYTES = 16 * 1024
_NEWEST_GROUPS = 16
"""Of so many at the end of a segment, one intact tells its age."""
_REREAD_SECONDS = (0.0, 0.001, 0.004, 0.016, 0.064)
"""Waits before reading a damaged group again: it may be in the middle of being erased."""


class Place(NamedTuple):
    """Say where a group stands in the segment."""

    position: int
    header: GroupHeader


class GroupDamaged(Exception):
    """The bytes at a place are not the group that begins there."""

    def __init__(self, position: int, offset: int) -> None:
        super().__init__(position, offset)
        self.position = position
        self.offset = offset


class SegmentView:
    """Read access to one segment; the file is closed when the last reference goes."""

    def __init__(self, folder: Path, first_offset: int) -> None:
        self.first_offset = first_offset
        self._folder = folder
        path = folder / segment_name(first_offset)
        self.file = OpenFile(os.open(path, os.O_RDONLY), path)
        """Of this view alone; closed with it."""
        is_segment_header(path, read_at(self.file, SEGMENT_HEADER_BYTES, 0), first_offset)
        self._offsets = [first_offset]
        self._positions = [SEGMENT_HEADER_BYTES]
        self._gaps: dict[int, Gap] = {}
        """By the offset at which damage begins; one with nothing behind it in this segment stops where it begins."""

    def __del__(self) -> None:
        # Generators may still read from a view that the cache has let go: the count of references closes it.
        file = self.__dict__.pop("file", None)
        if file is not None:
            os.close(file.fd)

    @property
    def name(self) -> str:
        """Return the file's name."""
        return self.file.path.name

    def place_of(self, offset: int, end: int) -> Place | None:
        """Return the group that holds ``offset``, or None when it is not in this segment."""
        entry = bisect_right(self._offsets, offset) - 1
        for place in self._places(self._positions[entry], self._offsets[entry], end):
            if offset < place.header.next_offset:
                return place if place.header.first_offset <= offset else None
        return None

    def last_place(self, end: int) -> Place | None:
        """Return the last group below ``end``."""
        entry = bisect_right(self._offsets, end - 1) - 1
        return max(self._places(self._positions[entry], self._offsets[entry], end), default=None)

    def stretch(self, offset: int, end: int) -> list[Place]:
        """Return the group that holds ``offset`` and those of the same index entry before it, oldest first."""
        self.place_of(offset, end)
        entry = bisect_right(self._offsets, offset) - 1
        found: list[Place] = []
        for place in self._places(self._positions[entry], self._offsets[entry], end):
            if place.header.first_offset > offset:
                break
            found.append(place)
        return found

    def place_at(self, position: int, end: int) -> Place | None:
        """Return the group that contains this byte of the file, if it is durable; the next one where the byte is
        damaged."""
        entry = bisect_right(self._positions, position) - 1
        for place in self._places(self._positions[entry], self._offsets[entry], end):
            if position < place.position + place.header.size_bytes:
                return place
        return None

    def last_received_at(self, bound: int) -> int:
        """Return when the last intact record below ``bound``, up to which the groups go, was received; 0
        without any."""
        self.learn_gaps(bound)
        newest = deque(self._places(self._positions[0], self._offsets[0], bound), maxlen=_NEWEST_GROUPS)
        for place in reversed(newest):
            if self._is_intact(place):
                return place.header.received_at_last
        return newest[-1].header.received_at_last if newest else 0

    def gap_around(self, offset: int) -> Gap | None:
        """Return the damage that holds this offset, as far as it is known."""
        first = max((each for each in self._gaps if each <= offset), default=None)
        return None if first is None or self._gaps[first].next_offset <= offset else self._gaps[first]

    def ends_before(self, gap: Gap) -> bool:
        """Return whether this segment is whole and just ends there: what follows was in another one."""
        return gap.stop == gap.position and not any(read_at(self.file, GROUP_HEADER_BYTES, gap.position))

    def learn_gaps(self, bound: int) -> None:
        """Find where headers lead nowhere below ``bound``, up to which the groups of this segment must go."""
        position, offset = self._positions[0], self._offsets[0]
        while offset < bound:
            last: Place | None = None
            for last in self._places(position, offset, bound):
                position, offset = last.position + last.header.size_bytes, last.header.next_offset
            if offset < bound:
                if last is not None and not self._is_intact(last):  # its head was wrong about where it ends
                    position, offset = last.position, last.header.first_offset
                gap = self.learn_gap(GroupDamaged(position, offset), bound)
                position, offset = gap.stop, gap.next_offset

    def learn_gap(self, damaged: GroupDamaged, bound: int) -> Gap:
        """Find where reading goes on behind a damaged group, at ``bound`` at the latest."""
        known = self._gaps.get(damaged.offset)
        if known is None or (known.stop == known.position and known.next_offset < bound):
            gap = find_gap_in(self.file, damaged.position, damaged.offset)
            if gap is None or gap.next_offset >= bound:
                # Looked at again once there is more: the appender goes on behind what it wrote.
                gap = Gap(damaged.offset, damaged.position, bound, damaged.position)
            known = self._gaps[damaged.offset] = gap
        return known

    def load(self, position: int, offset: int, window: Window) -> tuple[GroupHeader, memoryview] | None:
        """Return the intact group at ``position``, which must begin with ``offset``; None when the data ends before it.

        The bytes hold until the window is used again. Raise GroupDamaged when the group stays damaged.
        """
        start = window.get(position, GROUP_HEADER_BYTES)
        if start is None:
            return None
        header = decode_header(start)
        if not header.is_plausible(offset):
            return None
        group = window.get(position, header.size_bytes)
        if group is None or not is_intact(group, header.crc):
            return self._load_again(position, offset)
        return header, group

    def _places(self, position: int, offset: int, end: int) -> Iterator[Place]:
        """Yield the groups below ``end`` by their headers alone, and index them on the way."""
        base, headers = 0, b""
        while offset < end:
            if offset in self._gaps:
                gap = self._gaps[offset]
                if gap.stop == gap.position:
                    return
                position, offset = gap.stop, gap.next_offset
                continue
            if position + GROUP_HEADER_BYTES > base + len(headers):
                base, headers = position, read_at(self.file, _SCAN_BYTES, position)
                if len(headers) < GROUP_HEADER_BYTES:
                    return
            header = decode_header(headers, position - base)
            if not header.is_plausible(offset):
                return
            if position >= self._positions[-1] + INDEX_STEP_BYTES:
                self._offsets.append(offset)
                self._positions.append(position)
            yield Place(position, header)
            position += header.size_bytes
            offset = header.next_offset

    def _is_intact(self, place: Place) -> bool:
        return is_intact(read_at(self.file, place.header.size_bytes, place.position), place.header.crc)

    def _load_again(self, position: int, offset: int) -> tuple[GroupHeader, memoryview]:
        """Read a group whose checksum was wrong once more; after a crash in an erasure, finish it in memory."""
        header = decode_header(read_at(self.file, GROUP_HEADER_BYTES, position))
        for seconds in _REREAD_SECONDS:
            time.sleep(seconds)
            group = bytearray(read_at(self.file, header.size_bytes, position))
            patches = read_intent(self._folder)
            for patch in patches:
                at = patch.position - position
                if patch.first_offset == self.first_offset and 0 <= at <= len(group) - len(patch.data):
                    group[at : at + len(patch.data)] = patch.data
            if is_intact(group, decode_header(group).crc):
                return decode_header(group), memoryview(group)
            if seconds and not patches:
                break  # nothing is being erased
        raise GroupDamaged(position, offset)
