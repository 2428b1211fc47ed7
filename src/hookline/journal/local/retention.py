"""Drops the oldest segments of a journal by age and by total bytes, whole ones and never a partition's last.

Age goes first. By bytes, segments go until the total fits: first those that nobody waits for, then those that only held
lanes wait for, then those that working lanes have waited for longer than they may insist on; of each kind the oldest
one first. What working lanes wait for and is younger stays, whatever it comes to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from hookline.journal.local.disk import Disk
from hookline.journal.local.end_file import END_MAX
from hookline.journal.local.recovery import CUT_SUFFIX
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.local.segment_view import SegmentView
from hookline.journal.local.start_file import write_start
from hookline.journal.port import Needed
from hookline.telemetry.crashpoints import crash_point

SEALED_KEPT = 1_024
"""Segments whose newest time is remembered: nothing is added to them any more."""
_NEVER = 1 << 63
"""Later than any record: the partition has no segment to give up."""


def drop_expired(
    folders: Sequence[Path], disk: Disk, oldest_ms: int, bytes_max: int, needed: Needed | None = None
) -> int:
    """Remove segments whose newest record is older than ``oldest_ms``, or beyond ``bytes_max``; return bytes freed.

    Without ``needed`` nobody is asked.
    """
    expirable = [_Expirable(folder, number, needed, disk) for number, folder in enumerate(folders)]
    freed = 0
    for partition in expirable:
        while partition.newest_ms < oldest_ms:
            freed += partition.drop_oldest()
    while sum(partition.total_bytes for partition in expirable) > bytes_max:
        candidates = [partition for partition in expirable if partition.rank is not None]
        if not candidates:
            break
        freed += min(candidates, key=lambda each: (each.rank, each.newest_ms)).drop_oldest()
    for partition in expirable:
        if partition.has_changed:
            disk.sync_folder(partition.folder)
    return freed


def insisted_bytes(folders: Sequence[Path], needed: Needed) -> int:
    """Return how many bytes of whole segments, none of them a partition's last, working lanes do not let go."""
    return sum(_Expirable(folder, number, needed, Disk()).insisted_bytes() for number, folder in enumerate(folders))


class _Expirable:
    """The segments of one partition that may go, oldest first."""

    def __init__(self, folder: Path, number: int, needed: Needed | None, disk: Disk) -> None:
        self.folder = folder
        self._disk = disk
        self.has_changed = False
        self._number = number
        self._needed = needed
        self._segments = list_segments(folder)
        self._sizes = {first: (folder / segment_name(first)).stat().st_size for first in self._segments}
        self.total_bytes = sum(self._sizes.values())
        self.newest_ms = self._newest_ms()

    @property
    def rank(self) -> int | None:
        """Return how soon the oldest segment may go by its bytes, lower first; None when it may not."""
        return None if len(self._segments) < 2 else self._rank(*self._segments[:2])

    def drop_oldest(self) -> int:
        """Remove the oldest segment and what recovery kept of it; return its bytes."""
        if self.has_changed:
            crash_point("journal.retention_between_segments")
        first = self._segments.pop(0)
        write_start(self.folder, self._segments[0], self._disk)
        path = self.folder / segment_name(first)
        path.unlink()
        for cut in self.folder.glob(f"{path.stem}*{CUT_SUFFIX}"):
            cut.unlink()
        self.has_changed = True
        self.total_bytes -= self._sizes[first]
        self.newest_ms = self._newest_ms()
        return self._sizes[first]

    def insisted_bytes(self) -> int:
        """Return the bytes of all segments from the first one on that may not go."""
        for index, (first, end) in enumerate(zip(self._segments, self._segments[1:], strict=False)):
            if self._rank(first, end) is None:
                return sum(self._sizes[each] for each in self._segments[index:-1])
        return 0

    def _rank(self, first: int, end: int) -> int | None:
        if self._needed is None:
            return 0
        if end > self._needed.working.get(self._number, 0):
            return 2 if self._received_ms(first) < self._needed.young_ms else None
        return 1 if end > self._needed.held.get(self._number, end) else 0

    def _newest_ms(self) -> int:
        if len(self._segments) < 2:
            return _NEVER
        return self._received_ms(self._segments[0])

    def _received_ms(self, first: int) -> int:
        return _sealed_ms(self.folder / segment_name(first))


@lru_cache(maxsize=SEALED_KEPT)
def _sealed_ms(path: Path) -> int:
    return last_received_at(path)


def last_received_at(path: Path) -> int:
    """Return when the last record of a segment was received, by the service's own clock; 0 for one without records.
    Damaged ones are passed over."""
    first = int(path.stem)
    view = SegmentView(path.parent, first)
    return view.last_received_at(next((after for after in list_segments(path.parent) if after > first), END_MAX))
