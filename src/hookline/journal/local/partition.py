"""The writing side of one partition: encodes records into groups, writes, synchronises, publishes, rotates segments.

It knows nothing of callers and event loops. One thread at a time.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from hookline.journal.local.disk import END_NAME, Disk, EndFile, is_full, write_all
from hookline.journal.local.recovery import Tail
from hookline.journal.local.retention import insisted_bytes
from hookline.journal.local.segment import (
    SEGMENT_HEADER_BYTES,
    EncodedGroup,
    NextSegment,
    encode_groups,
    list_segments,
    segment_name,
)
from hookline.journal.port import GROUP_BYTES_MAX, JournalFailed, JournalFull, Needed
from hookline.journal.record import Record
from hookline.telemetry.crashpoints import crash_point

FIRST_SEGMENT_BYTES = 8 * 1024 * 1024
"""A new journal starts small, so that starting stays quick; each segment is twice the one before, up to a bound."""

SEGMENTS_IN_MEMORY = 4
"""Full segments that stay in the page cache, for readers that are a little behind. Of those before, the memory serves
the next ones: pages that the machine has at hand take a fraction of the time of others, and nobody else's are driven
out."""


class PartitionWriter:
    """Appends to one partition; ``next_offset`` is its durable end."""

    def __init__(self, folder: Path, disk: Disk, next_segment: NextSegment, tail: Tail, segment_bytes: int) -> None:
        self.folder = folder
        self.next_offset = tail.next_offset
        self.sync_seconds = 0.0
        """How long the last call of ``write`` was with the disk."""
        self._disk = disk
        self._next = next_segment
        self._segment = tail.segment
        self._position = tail.position
        self._first_at = tail.first_at
        self._segment_bytes = segment_bytes
        self._group_bytes_max = min(GROUP_BYTES_MAX, segment_bytes - SEGMENT_HEADER_BYTES)
        self._is_torn = False
        """Whether a write that met a full disk left something behind the data of the current segment."""
        self._roll = False
        self._full: deque[int] = deque()
        """The first offsets of the full segments that may be in the page cache."""
        self._end_file = EndFile(folder / END_NAME, writable=True)
        self.sealed_bytes = 0
        """What the segments before the current one take."""
        self.count_sealed()

    @property
    def first_at(self) -> int:
        """Return when the oldest record of the current segment was received, in milliseconds; 0 when it is empty."""
        return self._first_at

    @property
    def position(self) -> int:
        """Return how much of the current segment is written."""
        return 0 if self._segment is None else self._position

    def insisted_bytes(self, number: int, needed: Needed) -> int:
        """Return how many bytes working lanes do not let go. May be asked beside a thread that writes."""
        # The segment before its position: between the two another one may begin, and what is written of that is less.
        first = None if self._segment is None else self._segment.first_offset
        is_waited_for = self.next_offset > needed.working.get(number, 0)
        return insisted_bytes(self.folder, number, needed, first, self.position if is_waited_for else 0)

    def count_sealed(self) -> None:
        """Look what the segments before the current one take, for some are gone."""
        current = None if self._segment is None else self._segment.first_offset
        sealed = (self.folder / segment_name(first) for first in list_segments(self.folder) if first != current)
        self.sealed_bytes = sum(path.stat().st_size for path in sealed)

    def would_wait(self, bytes_waiting: int) -> bool:
        """Return whether writing this much has to wait for a segment that is still being filled."""
        return (self._roll or self._room() < bytes_waiting) and not self._next.is_ready

    def write(self, records: Sequence[Record]) -> None:
        """Store the records and publish them; raise JournalFull (try again later) or JournalFailed (exit)."""
        self.sync_seconds = 0.0
        groups = list(encode_groups(records, self.next_offset, self._group_bytes_max))
        has_room = self._room() >= sum(group.size_bytes for group in groups)
        if self._roll or not has_room:
            try:
                # Before the first byte: a full disk should refuse the whole call, not its second half.
                self._next.wait(self._next_bytes())
            except JournalFull:
                if not has_room:
                    raise
                self._roll = False  # it is asked for again; until there is room the present one goes on
        if self._roll:
            self._seal()
        run: list[EncodedGroup] = []
        run_bytes = 0
        for group in groups:
            if self._room() < run_bytes + group.size_bytes:
                self._commit(run)
                run, run_bytes = [], 0
                self._rotate(self._next_bytes())
            run.append(group)
            run_bytes += group.size_bytes
        self._commit(run)

    def prepare(self) -> None:
        """Create a segment now if there is none to write to, so that the first append is quick."""
        if self._segment is None:
            self._rotate(self._next_bytes())

    def roll(self) -> None:
        """Begin a new segment with the next write, so that the present one can expire."""
        self._roll = self._segment is not None

    def close(self) -> None:
        """Close the files; what was written is durable already."""
        self._next.close()
        self._end_file.close()
        self._close_segment()

    def _next_bytes(self) -> int:
        """Return the size of the next segment: twice the present one's, within the bounds."""
        present = 0 if self._segment is None else self._segment.size_bytes
        return min(self._segment_bytes, max(FIRST_SEGMENT_BYTES, 2 * present))

    def _room(self) -> int:
        return 0 if self._segment is None else self._segment.size_bytes - self._position

    def _commit(self, run: list[EncodedGroup]) -> None:
        if not run:
            return
        assert self._segment is not None
        started = time.perf_counter()
        length = self._write_groups(run)
        crash_point("journal.after_write_before_sync")
        try:
            self._disk.fdatasync(self._segment.fd)
        except OSError as error:
            raise _failed(self.folder, error) from error
        self.sync_seconds += time.perf_counter() - started
        crash_point("journal.after_sync_before_publish")
        self._position += length
        self._first_at = self._first_at or run[0].received_at_last
        self.next_offset += sum(group.record_count for group in run)
        self._end_file.publish(self.next_offset)
        # Early: at full speed a segment lasts hardly longer than filling the next one takes.
        if self._room() < self._segment.size_bytes * 7 // 8:
            self._next.begin(self._next_bytes())
            if self._room() < self._segment.size_bytes // 3:
                self._next.prepare_soon()

    def _write_groups(self, run: list[EncodedGroup]) -> int:
        assert self._segment is not None
        if self._is_torn:
            # In one step, though the rest of the segment takes room anew: half of a group over others that were refused
            # before it would be taken for damage in front of these.
            self._truncate(self._position)
            self._truncate(self._segment.size_bytes)
            self._is_torn = False
        buffers = [part for group in run for part in (group.header, group.payload)]
        try:
            return write_all(self._disk, self._segment.fd, buffers, self._position)
        except OSError as error:
            if not is_full(error):
                raise _failed(self.folder, error) from error
            self._is_torn = True
            raise _full(self.folder) from error

    def _rotate(self, segment_bytes: int) -> None:
        if self._is_torn:
            self._cut_segment()
        segment = self._next.take(self.next_offset, segment_bytes)
        if self._segment is not None:
            self._full.append(self._segment.first_offset)
            self.sealed_bytes += self._segment.size_bytes
            if len(self._full) > SEGMENTS_IN_MEMORY:
                self._disk.let_go(self.folder / segment_name(self._full.popleft()))
        self._close_segment()
        self._segment = segment
        self._position = SEGMENT_HEADER_BYTES
        self._first_at = 0

    def _seal(self) -> None:
        """End the current segment where its data ends, and close it."""
        if self._segment is not None:
            self._cut_segment()
            self.sealed_bytes += self._position
            self._close_segment()
        self._roll = False

    def _cut_segment(self) -> None:
        """Give back to the disk what of the current segment is behind its data.

        What a write that met a full disk left there is gone for good before another segment begins: from then on
        nothing overwrites it, and it looks like groups with the offsets of that segment.
        """
        assert self._segment is not None
        self._truncate(self._position)
        self._segment = self._segment._replace(size_bytes=self._position)
        if self._is_torn:
            try:
                self._disk.fdatasync(self._segment.fd)
            except OSError as error:
                raise _failed(self.folder, error) from error
            self._is_torn = False

    def _truncate(self, size_bytes: int) -> None:
        """Make the file of the current segment this long; what it grows by reads as zeros."""
        assert self._segment is not None
        try:
            os.ftruncate(self._segment.fd, size_bytes)
        except OSError as error:
            raise _full(self.folder) if is_full(error) else _failed(self.folder, error) from error

    def _close_segment(self) -> None:
        if self._segment is not None:
            os.close(self._segment.fd)
            self._segment = None


def _full(folder: Path) -> JournalFull:
    return JournalFull(f"no room in {folder}: free disk space or lower retention.bytes")


def _failed(folder: Path, error: OSError) -> JournalFailed:
    return JournalFailed(f"the disk refused to store events in {folder} ({error}): check the disk, then start again")
