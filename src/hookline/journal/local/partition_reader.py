"""The reading side of a local journal, for any process beside the one that appends: files only, no locks.

A partition is read across its segments, which appear and vanish meanwhile.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from hookline.journal.damaged import note_damage
from hookline.journal.local.disk import END_NAME, EndFile, read_at, read_start
from hookline.journal.local.erase import FoundGroup
from hookline.journal.local.recovery import Gap
from hookline.journal.local.segment import GROUP_HEADER_BYTES, GroupHeader, decode_records, list_segments, segment_name
from hookline.journal.local.segment_view import GroupDamaged, Place, SegmentView, Window
from hookline.journal.port import LOOP_REST_SECONDS, LOOP_WAIT_SECONDS, Group, JournalCorrupt, OffsetExpired
from hookline.journal.record import Record

VIEWS_MAX = 16
"""Segments kept open per partition."""
PLACES_MAX = 64
"""Readers of one partition that go on without a search."""
WINDOWS_MAX = 4
"""Read buffers kept for the next reader."""

_FIND_BYTES = 1024 * 1024
_WINDOW_BYTES = 28_000
"""CPython looks for a short text two to four times as quickly in less than 30,000 bytes as in more."""
_FINGERPRINT_BYTES = 16


class PartitionReader:
    """A view of one partition for reading; everything below the published end, nothing else."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._end_file: EndFile | None = None
        self._segments: list[int] = []
        self._start = 0
        self._logged: set[tuple[int, int]] = set()
        """Damage that was noted by this reader."""
        self._views: dict[int, SegmentView] = {}
        self._places: dict[int, tuple[int, int]] = {}
        self._windows: list[Window] = []

    def start(self) -> int:
        """Return the oldest offset still kept."""
        if not self._segments or not os.path.exists(self._folder / segment_name(self._segments[0])):
            self._refresh()
        return self._start

    def end(self) -> int:
        """Return one past the last durable record; 0 as long as no one has ever appended."""
        if self._end_file is None:
            try:
                self._end_file = EndFile(self._folder / END_NAME)
            except FileNotFoundError:
                return 0
        return self._end_file.value

    def read(self, offset: int) -> Iterator[Group]:
        """Yield groups from ``offset`` to the end as it is now; OffsetExpired and ValueError as the port says."""
        start, end = self.start(), self.end()
        if offset < start:
            raise OffsetExpired(start)
        if offset > end:
            raise ValueError(f"offset {offset} is past the end of the journal, {end}")
        return self._groups(offset, end)

    def read_backwards(self, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest first, until what retention left."""
        end = self.end()
        before = min(before_offset, end)
        window = self._take_window()
        try:
            while before > self.start():
                try:
                    view, _ = self._find(before - 1, end)
                    window.begin(view.file)
                    for place in reversed(view.stretch(before - 1, end)):
                        data = self._load(view, place, end, window)
                        yield _group(place.header, data, place.header.first_offset, before)
                        before = place.header.first_offset
                except JournalCorrupt as damaged:
                    if damaged.next_offset >= before:  # otherwise the group's head was wrong about what it holds
                        before = min(before, damaged.offset)
        except OffsetExpired:
            return
        finally:
            self._give_window(window)

    def get_group(self, offset: int) -> FoundGroup | None:
        """Return the group that holds ``offset``, or None when it is not kept; raise JournalCorrupt when it is lost."""
        end = self.end()
        if not 0 <= offset < end or offset < self.start():
            return None
        while True:
            try:
                return self._found(*self._find(offset, end), end)
            except OffsetExpired:
                return None
            except JournalCorrupt as damaged:
                if damaged.next_offset > offset:
                    raise
                # Else the damaged group's head was wrong about what it holds, which is known from now on.

    def find(self, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` with this fingerprint, searching the raw bytes of the segments."""
        if len(fingerprint) != _FINGERPRINT_BYTES:
            raise ValueError(f"a fingerprint has {_FINGERPRINT_BYTES} bytes")
        for group in self._holding((fingerprint,), start, end):
            for found in _offsets_with(group, fingerprint):
                if start <= found < end:
                    yield found

    def holding(self, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts somewhere in their raw bytes, oldest
        first."""
        for found in self._holding(texts, start, end):
            yield _group(found.header, memoryview(found.data), start, end)

    def locate(self, offsets: Sequence[int]) -> Iterator[tuple[FoundGroup, list[int]]]:
        """Yield the groups that hold these offsets, with those that each holds; leave out what is not kept and what
        cannot be read any more."""
        left, at = sorted(set(offsets)), 0
        while at < len(left):
            try:
                group = self.get_group(left[at])
            except JournalCorrupt as damaged:
                at = bisect_left(left, damaged.next_offset, at)
                continue
            if group is None:
                at += 1
                continue
            behind = bisect_left(left, group.header.next_offset, at)
            yield group, left[at:behind]
            at = behind

    def close(self) -> None:
        """Give back files and the map."""
        self._views.clear()
        self._windows.clear()
        if self._end_file is not None:
            self._end_file.close()
            self._end_file = None

    def _groups(self, offset: int, end: int) -> Iterator[Group]:
        window = self._take_window()
        try:
            while offset < end:
                view, position, first = self._begin_at(offset, end)
                after = self._segment_after(view.first_offset, end)
                window.begin(view.file)
                try:
                    # Not beyond where the next one begins: a write that met a full disk may have left something there.
                    while first < end and first != after:
                        loaded = view.load(position, first, window)
                        if loaded is None:
                            break  # the data of this segment ends here
                        header, data = loaded
                        group = _group(header, data, offset, end)
                        position, first = position + header.size_bytes, header.next_offset
                        offset = first
                        self._remember(offset, view.first_offset, position)
                        yield group
                except GroupDamaged as damaged:
                    gap = self._learn_gap(view, damaged, end)
                    if gap.next_offset > offset:
                        raise self._lost(view, gap) from None
        finally:
            self._give_window(window)

    def _begin_at(self, offset: int, end: int) -> tuple[SegmentView, int, int]:
        """Return where to begin reading: segment, position, and the offset of the group there."""
        segment, position = self._places.pop(offset, (-1, 0))
        view = self._views.get(segment)
        if view is not None and self._segment_of(offset) != offset:
            return view, position, offset
        view, place = self._find(offset, end)
        return view, place.position, place.header.first_offset

    def _find(self, offset: int, end: int) -> tuple[SegmentView, Place]:
        """Return the group that holds ``offset``; raise OffsetExpired when it is not kept, JournalCorrupt when it is
        lost."""
        view = self._view_of(offset)
        place = view.place_of(offset, end)
        if place is None:
            self._refresh()  # a later segment may have been created, and hold it
            view = self._view_of(offset)
            place = view.place_of(offset, end)
        if place is None:
            bound = self._bound(view, end)
            view.learn_gaps(bound)
            place = view.place_of(offset, end)
            if place is None:
                gap = view.gap_around(offset)
                raise JournalCorrupt(view.name, offset, bound) if gap is None else self._lost(view, gap)
        return view, place

    def _bound(self, view: SegmentView, end: int) -> int:
        """Up to which offset the groups of a segment go, if it is whole."""
        return min(self._segment_after(view.first_offset, end), end)

    def _learn_gap(self, view: SegmentView, damaged: GroupDamaged, end: int) -> Gap:
        """Return where reading goes on behind a damaged group: in this segment, or in the next one."""
        self._refresh()  # one that was begun meanwhile holds what would be passed over as damaged otherwise
        return view.learn_gap(damaged, self._bound(view, end))

    def _lost(self, view: SegmentView, gap: Gap) -> JournalCorrupt:
        is_missing = view.ends_before(gap)
        name = segment_name(gap.offset) if is_missing else view.name
        return self._noted(JournalCorrupt(name, gap.offset, gap.next_offset, is_missing))

    def _noted(self, error: JournalCorrupt) -> JournalCorrupt:
        if (error.offset, error.next_offset) not in self._logged:
            self._logged.add((error.offset, error.next_offset))
            note_damage(self._folder.parent, int(self._folder.name), error)
        return error

    def _last_place(self, view: SegmentView, end: int) -> Place | None:
        """Return the last group of a segment that has one below ``end``."""
        for _ in range(2):
            bound = self._bound(view, end)
            place = view.place_of(bound - 1, end)
            if place is not None:
                return place
            self._refresh()
        view.learn_gaps(bound)
        return view.last_place(bound)

    def _found(self, view: SegmentView, place: Place, end: int) -> FoundGroup:
        window = self._take_window()
        try:
            window.begin(view.file)
            data = bytes(self._load(view, place, end, window))
        finally:
            self._give_window(window)
        return FoundGroup(view.first_offset, place.position, place.header, data)

    def _load(self, view: SegmentView, place: Place, end: int, window: Window) -> memoryview:
        try:
            loaded = view.load(place.position, place.header.first_offset, window)
            if loaded is not None:
                return loaded[1]
            damaged = GroupDamaged(place.position, place.header.first_offset)
        except GroupDamaged as error:
            damaged = error
        raise self._lost(view, self._learn_gap(view, damaged, end))

    def _holding(self, texts: Sequence[bytes], start: int, end: int) -> Iterator[FoundGroup]:
        end = min(end, self.end())
        offset = max(start, self.start())
        while offset < end:
            try:
                view, first = self._find(offset, end)
                last = self._last_place(view, end)
            except OffsetExpired as expired:
                offset = expired.start
                continue
            except JournalCorrupt as damaged:
                offset = damaged.next_offset
                continue
            if last is not None:
                yield from self._groups_with(view, texts, first.position, last.position + last.header.size_bytes, end)
            offset = self._bound(view, end)

    def _groups_with(
        self, view: SegmentView, texts: Sequence[bytes], position: int, stop: int, end: int
    ) -> Iterator[FoundGroup]:
        """Yield the groups in a range of the file that contain one of these texts somewhere."""
        longest = max(map(len, texts))
        while position < stop:
            data = read_at(view.file, min(_FIND_BYTES, stop - position), position)
            done = 0
            while done < len(data) and (at := _first_of(texts, data, done)) >= 0:
                place = view.place_at(position + at, end)
                if place is None:
                    return
                done = place.position - position
                if place.position > position + at:
                    continue  # it stands in what is damaged
                try:
                    yield self._found(view, place, end)
                except JournalCorrupt:
                    done = at  # where the damage ends is known now
                    continue
                done += place.header.size_bytes
            if position + len(data) >= stop:
                return
            # Step back by less than a text: it may lie across the border.
            position += max(done, len(data) - longest + 1, 1)

    def _remember(self, offset: int, segment: int, position: int) -> None:
        self._places[offset] = (segment, position)
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def _segment_of(self, offset: int) -> int | None:
        index = bisect_right(self._segments, offset) - 1
        return self._segments[index] if index >= 0 else None

    def _segment_after(self, offset: int, end: int) -> int:
        """Return the first offset of the next segment, or the end."""
        index = bisect_right(self._segments, offset)
        return self._segments[index] if index < len(self._segments) else end

    def _view_of(self, offset: int) -> SegmentView:
        """Return the segment that holds ``offset``; raise OffsetExpired when retention was here."""
        if not self._segments:
            self._refresh()
        for _ in range(2):
            first = self._segment_of(offset)
            if first is None:
                if offset < self._start:
                    raise OffsetExpired(self.start())
                after = self._segments[0] if self._segments else self.end()
                raise self._noted(JournalCorrupt(segment_name(self._start), self._start, after, is_missing=True))
            view = self._views.pop(first, None)
            try:
                self._views[first] = view or SegmentView(self._folder, first)
            except FileNotFoundError:
                self._refresh()
                continue
            if len(self._views) > VIEWS_MAX:
                del self._views[next(iter(self._views))]
            return self._views[first]
        raise OffsetExpired(self.start())

    def _refresh(self) -> None:
        try:
            segments = list_segments(self._folder)
            # In this order: retention notes the new start before it removes what is below.
            noted = read_start(self._folder)
        except OSError:
            if not self._segments:
                raise
            return  # closed to us for a while, or no descriptor left: what is open is read on
        self._segments = segments
        first = self._segments[0] if self._segments else self.end()
        self._start = first if noted is None else min(noted, first)
        for first in self._views.keys() - set(self._segments):
            del self._views[first]

    def _take_window(self) -> Window:
        return self._windows.pop() if self._windows else Window()

    def _give_window(self, window: Window) -> None:
        if len(self._windows) < WINDOWS_MAX:
            self._windows.append(window)


def _group(header: GroupHeader, data: memoryview, start: int, stop: int) -> Group:
    """Return the records of an intact group that lie in ``[start, stop)``."""
    records = decode_records(data[GROUP_HEADER_BYTES:])
    first = max(start, header.first_offset)
    if first > header.first_offset or stop < header.next_offset:
        records = records[first - header.first_offset : stop - header.first_offset]
        return Group(first, records, header.size_bytes * len(records) // header.record_count)
    return Group(first, records, header.size_bytes)


def _first_of(texts: Sequence[bytes], data: bytes, start: int) -> int:
    """Return where the first of the texts stands, -1 when there is none."""
    for begin in range(start, len(data), _WINDOW_BYTES):
        found = [data.find(text, begin, begin + _WINDOW_BYTES + len(text) - 1) for text in texts]
        if max(found) >= 0:
            return min(at for at in found if at >= 0)
    return -1


def _offsets_with(group: FoundGroup, fingerprint: bytes) -> Iterator[int]:
    records = decode_records(memoryview(group.data)[GROUP_HEADER_BYTES:])
    for offset, record in enumerate(records, group.header.first_offset):
        if record.fingerprint == fingerprint and not record.erased:
            yield offset


_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_record = msgspec.msgpack.Decoder(Record).decode


class LocalReader:
    """Reads the journal in ``folder``; nothing needs to be there yet. Not thread-safe: one per thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._readers: dict[int, PartitionReader] = {}
        self._count = 0

    def partitions(self) -> range:
        """Return the partition numbers."""
        while (self._folder / str(self._count) / END_NAME).exists():
            self._count += 1
        return range(self._count)

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept."""
        return self._partition(partition).start()

    def end(self, partition: int) -> int:
        """Return one past the last durable record."""
        return self._partition(partition).end()

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` to the end as it is now; the first one begins exactly at ``offset``.

        Raise OffsetExpired when ``offset`` is below ``start`` (also later, when retention overtakes a slow reader),
        ValueError when it is past ``end``, JournalCorrupt where the disk lost something.
        """
        return self._partition(partition).read(offset)

    def read_backwards(self, partition: int, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest group first, records of a group oldest first.

        The first one ends exactly at ``before_offset``, or at the end when that is smaller.
        """
        return self._partition(partition).read_backwards(before_offset)

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not (or no longer) kept, or cannot be read any more."""
        try:
            found = self._partition(partition).get_group(offset)
        except JournalCorrupt:
            return None
        if found is None:
            return None
        return _record(_raws(memoryview(found.data)[GROUP_HEADER_BYTES:])[offset - found.header.first_offset])

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records at these offsets, ascending, each with its offset; leave out what is not kept and what
        cannot be read any more."""
        for found, inside in self.locate(partition, list(offsets)):
            raws = _raws(memoryview(found.data)[GROUP_HEADER_BYTES:])
            for offset in inside:
                yield offset, _record(raws[offset - found.header.first_offset])

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` whose record has the fingerprint, oldest first."""
        return self._partition(partition).find(fingerprint, start, end)

    def holding(self, partition: int, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts in their raw bytes, oldest first: quicker
        than decoding them all. Of the first and last group it yields the records in the range."""
        return self._partition(partition).holding(texts, start, end)

    def locate(self, partition: int, offsets: Sequence[int]) -> Iterator[tuple[FoundGroup, list[int]]]:
        """Yield the groups on the disk that hold these offsets, with the offsets in each: for erasure."""
        return self._partition(partition).locate(offsets)

    def limit_wait(self, wait_seconds: float = LOOP_WAIT_SECONDS, rest_seconds: float = LOOP_REST_SECONDS) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """Give back files and memory maps."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _partition(self, number: int) -> PartitionReader:
        reader = self._readers.get(number)
        if reader is None:
            reader = self._readers[number] = PartitionReader(self._folder / str(number))
        return reader
