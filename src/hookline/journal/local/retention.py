"""Drops the oldest segments of a journal by age and by total bytes, whole ones and never a partition's last.

Age goes first. By bytes, the partition whose oldest segment is the oldest gives it up, until the total fits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hookline.journal.local.disk import Disk
from hookline.journal.local.recovery import CUT_SUFFIX
from hookline.journal.local.segment import (
    GROUP_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    decode_header,
    list_segments,
    segment_name,
)
from hookline.telemetry.crashpoints import crash_point

_HEADERS_BYTES = 16 * 1024


def drop_expired(folders: Sequence[Path], disk: Disk, oldest_ms: int, bytes_max: int) -> int:
    """Remove segments whose newest record is older than ``oldest_ms``, or beyond ``bytes_max``; return bytes freed."""
    expirable = [_Expirable(folder) for folder in folders]
    freed = 0
    for partition in expirable:
        while partition.newest_ms < oldest_ms:
            freed += partition.drop_oldest()
    while sum(partition.total_bytes for partition in expirable) > bytes_max:
        oldest = min(expirable, key=lambda partition: partition.newest_ms)
        if oldest.newest_ms == _NEVER:
            break
        freed += oldest.drop_oldest()
    for partition in expirable:
        if partition.has_changed:
            disk.sync_folder(partition.folder)
    return freed


_NEVER = 1 << 63
"""Later than any record: the partition has no segment to give up."""


class _Expirable:
    """The segments of one partition that may go, oldest first."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.has_changed = False
        segments = list_segments(folder)
        self._sizes = {first: (folder / segment_name(first)).stat().st_size for first in segments}
        self._droppable = segments[:-1]
        self.total_bytes = sum(self._sizes.values())
        self.newest_ms = self._newest_ms()

    def drop_oldest(self) -> int:
        """Remove the oldest segment and what recovery kept of it; return its bytes."""
        if self.has_changed:
            crash_point("journal.retention_between_segments")
        first = self._droppable.pop(0)
        path = self.folder / segment_name(first)
        path.unlink()
        for cut in self.folder.glob(f"{path.stem}*{CUT_SUFFIX}"):
            cut.unlink()
        self.has_changed = True
        self.total_bytes -= self._sizes[first]
        self.newest_ms = self._newest_ms()
        return self._sizes[first]

    def _newest_ms(self) -> int:
        if not self._droppable:
            return _NEVER
        return last_received_at(self.folder / segment_name(self._droppable[0]))


def last_received_at(path: Path) -> int:
    """When the last record of a segment was received; 0 for one without records."""
    fd = os.open(path, os.O_RDONLY)
    try:
        position, newest, base, headers = SEGMENT_HEADER_BYTES, 0, 0, b""
        while True:
            if position + GROUP_HEADER_BYTES > base + len(headers):
                base, headers = position, os.pread(fd, _HEADERS_BYTES, position)
                if len(headers) < GROUP_HEADER_BYTES:
                    return newest
            header = decode_header(headers, position - base)
            if header.length == 0:
                return newest
            newest = header.received_at_last
            position += header.size_bytes
    finally:
        os.close(fd)
