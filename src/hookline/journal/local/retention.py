"""Drops the oldest segments of a journal by age and by total bytes, whole ones and never a partition's last, and
foresees when that takes which event.

Age goes first. By bytes, segments go until the total fits: first those that nobody waits for, then those that only held
lanes wait for, then those that working lanes have waited for longer than they may insist on; of each kind the oldest
one first. What working lanes wait for and is younger stays, whatever it comes to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from hookline.journal.local.disk import END_MAX, Disk, write_start
from hookline.journal.local.recovery import CUT_SUFFIX
from hookline.journal.local.segment import list_segments, segment_name
from hookline.journal.local.segment_view import SegmentView
from hookline.journal.port import Needed
from hookline.settings import Retention
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


def insisted_bytes(folder: Path, number: int, needed: Needed, written_first: int | None, written_bytes: int) -> int:
    """Return how many bytes of a partition working lanes do not let go, in whole segments; of the one that is being
    written, which begins at offset ``written_first``, what is written."""
    return _Expirable(folder, number, needed, Disk()).insisted_bytes(written_first, written_bytes)


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

    def insisted_bytes(self, written_first: int | None, written_bytes: int) -> int:
        """Return the bytes of all segments from the first one on that may not go. One that comes after the one being
        written has its name before it is written to: it holds nothing yet."""
        for first, end in zip(self._segments, self._segments[1:], strict=False):
            if self._rank(first, end) is None:
                break
        else:
            return written_bytes
        sizes = {each: size for each, size in self._sizes.items() if written_first is None or each <= written_first}
        if written_first in sizes:
            sizes[written_first] = written_bytes
        return sum(size for each, size in sizes.items() if each >= first)

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
        sealed = (self.folder / segment_name(each) for each in self._segments[:-1] if each >= first)
        return _first_time(map(_sealed_ms, sealed))


def _first_time(times: Iterable[int]) -> int:
    """Return when the last record of a segment was received, given that of it and of all after it: one of which nothing
    can be read is as old as the next one of which something can."""
    return next((each for each in times if each), _NEVER)


@lru_cache(maxsize=SEALED_KEPT)
def _sealed_ms(path: Path) -> int:
    return last_received_at(path)


def last_received_at(path: Path) -> int:
    """Return when the last record of a segment was received, by the service's own clock; 0 for one without records.
    Damaged ones are passed over."""
    first = int(path.stem)
    view = SegmentView(path.parent, first)
    return view.last_received_at(next((after for after in list_segments(path.parent) if after > first), END_MAX))


GROWTH_MS_MIN = 3_600_000
"""Growth is taken over at least so long, or a burst would look like an end."""


class Segments:
    """The segments of one partition, oldest first, with what retention knows of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._firsts = list_segments(folder)
        self._sizes = [(folder / segment_name(first)).stat().st_size for first in self._firsts]
        self.total_bytes = sum(self._sizes)

    def holding(self, offset: int) -> int | None:
        """Return the index of the segment that holds an offset; None for the newest one, which is never dropped."""
        index = max(0, bisect_right(self._firsts, offset) - 1)
        return index if index < len(self._firsts) - 1 else None

    def bytes_from(self, index: int) -> int:
        """Return the bytes of this segment and all newer ones."""
        return sum(self._sizes[index:])

    def newest_ms(self, index: int) -> int:
        """Return when the last record of a segment was received, as retention takes it."""
        return _first_time(last_received_at(self._folder / segment_name(first)) for first in self._firsts[index:-1])


class LocalForecast:
    """Reads the names and sizes of the segments, and a header of those in which something waits."""

    def __init__(self, folder: Path, limits: Retention) -> None:
        self._folder = folder
        self._limits = limits

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """As ``RetentionForecast``: of every position but those in the newest segment, which is never dropped."""
        journal = {int(each.name): Segments(each) for each in self._folder.iterdir() if each.name.isdigit()}
        all_bytes = sum(segments.total_bytes for segments in journal.values())
        drops_ms: dict[tuple[int, int], int] = {}

        def drop_ms(partition: int, offset: int) -> int | None:
            segments = journal.get(partition)
            index = segments.holding(offset) if segments else None
            if segments is None or index is None:
                return None
            if (partition, index) not in drops_ms:
                share = segments.total_bytes / all_bytes
                drops_ms[partition, index] = self._drop_ms(segments, index, share, now_ms)
            return drops_ms[partition, index]

        return drop_ms

    def close(self) -> None:
        """Nothing is held."""

    def _drop_ms(self, segments: Segments, index: int, share: float, now_ms: int) -> int:
        """Return when the segment goes: by age, or earlier by bytes if the journal goes on growing as it did since.

        Partitions share the bytes; each is taken to keep the ``share`` it has now.
        """
        newest_ms = segments.newest_ms(index)
        by_age = newest_ms + self._limits.events * 1000
        grown = segments.bytes_from(index + 1)
        left = max(0.0, self._limits.bytes * share - segments.bytes_from(index))
        by_bytes = now_ms + left / grown * max(GROWTH_MS_MIN, now_ms - newest_ms)
        return int(min(by_age, by_bytes))
