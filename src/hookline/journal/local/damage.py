"""Finds where intact groups go on behind damage, and remembers on which records the disk has failed.

Groups carry their own offset and checksum, so what stands behind a damaged stretch is found without it: by the headers
where those still lead on, otherwise by whatever looks like a header and has the right checksum.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from hookline.journal.local.segment import GROUP_HEADER_BYTES, GroupHeader, decode_header, is_intact

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


def find_gap_in(fd: int, position: int, offset: int) -> Gap | None:
    """As ``find_gap``, in an open file: read in growing stretches, for nearly all damage is small."""
    left = max(0, os.fstat(fd).st_size - position)
    length = _WINDOW_BYTES_FIRST
    while True:
        # Not mapped: the appender may give back what is beyond the data, and such a page must not be touched then.
        data = os.pread(fd, min(length, left), position)
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
