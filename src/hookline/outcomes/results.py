"""Read the results of attempts as deliver wrote them, the newest from the progress ring, and list a destination's
newest first.

What was read last is kept, since whoever looks at one event mostly looks at its neighbours next.

Not thread-safe. A page is found in steps as long as its reader wants to go on: with few attempts among those of many
busy destinations a search may take long, and then begins again where it was.
"""

from __future__ import annotations

import heapq
import mmap
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from hookline.database.location import DatabaseLocation
from hookline.outcomes.outcome import from_number
from hookline.outcomes.progress import (
    BUCKET_SHIFT,
    DUPLICATE_TAG,
    ENTRY_BYTES,
    OFFSET_MASK,
    POSITION_SHIFT,
    URL_BITS,
    Entry,
    entries,
    entries_of,
    positions_of,
)
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.rows import BlockKey, SavedAttempt
from hookline.whole_file import is_readable

RING_KEPT_SECONDS = 0.05
BLOCKS_KEPT = 4
"""Of up to 2 MB each."""


class _Block(NamedTuple):
    entries: bytes
    positions: bytes


class Results:
    """Reads the ring and the blocks; not thread-safe."""

    def __init__(self, data_path: Path, deliver: DeliverReader) -> None:
        """``deliver`` is closed by whoever opened it."""
        self._deliver = deliver
        self._path = data_path / "progress.ring"
        self._ring: mmap.mmap | None = None
        self._newest = _Block(b"", b"")
        self._copied = 0.0
        self._kept: OrderedDict[BlockKey, _Block] = OrderedDict()

    def of_position(self, partition: int, offset: int) -> Iterator[Entry]:
        """Yield every entry of one position, those in the ring first; one that is in both comes twice."""
        position = partition << POSITION_SHIFT | offset
        newest = self._ring_now()
        yield from entries_of(newest.entries, position, newest.positions)
        for block in self._blocks(partition, offset):
            yield from entries_of(block.entries, position, block.positions)

    def delivered(self, lanes: Collection[int], partition: int, bucket: int) -> frozenset[int]:
        """Return the offsets of one bucket that some lane of these delivered."""
        found = self._of_bucket(partition, bucket)
        return frozenset(e.position & OFFSET_MASK for e in found if e.lane in lanes and 200 <= e.result < 300)

    def repeats(self, partition: int, bucket: int) -> frozenset[int]:
        """Return the offsets of dropped repeats of the events in one bucket; the repeats may lie in later ones."""
        found = self._of_bucket(partition, bucket)
        return frozenset(e.at_ms & OFFSET_MASK for e in found if e.lane == DUPLICATE_TAG)

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._kept.clear()
        if self._ring is not None:
            self._ring.close()
            self._ring = None

    def _of_bucket(self, partition: int, bucket: int) -> Iterator[Entry]:
        """Yield the entries of a whole bucket; those in both come twice."""
        for block in [*self._deliver.attempts.blocks_in(partition, bucket), self._ring_now().entries]:
            for entry in entries(block):
                position = entry.position
                if position >> POSITION_SHIFT == partition and (position & OFFSET_MASK) >> BUCKET_SHIFT == bucket:
                    yield entry

    def _blocks(self, partition: int, offset: int) -> Iterator[_Block]:
        for key in self._deliver.attempts.blocks_of(partition, offset):
            block = self._kept.get(key)
            if block is None:
                found = self._deliver.attempts.block(key.id)
                if found is None:
                    continue
                block = self._kept[key] = _Block(found, positions_of(found))
                while len(self._kept) > BLOCKS_KEPT:
                    self._kept.popitem(last=False)
            else:
                self._kept.move_to_end(key)
            yield block

    def _ring_now(self) -> _Block:
        """Results newer than the last checkpoint are only in the ring."""
        now = time.monotonic()
        if now - self._copied > RING_KEPT_SECONDS:
            if self._ring is None:
                if not self._path.exists() or self._path.stat().st_size % ENTRY_BYTES:
                    return _Block(b"", b"")
                with self._path.open("rb") as file:
                    if not is_readable(file.fileno()):  # deliver makes it anew at its start
                        return _Block(b"", b"")
                    self._ring = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            copy = self._ring[:]
            self._newest, self._copied = _Block(copy, positions_of(copy)), now
        return self._newest


NO_LANE = -1


class LoggedAttempt(NamedTuple):
    """One request. ``url`` is None for a result in a block, which has only the URL's number."""

    key: Key
    partition: int
    offset: int
    lane: int
    at_ms: int
    outcome: str
    http_status: int | None
    milliseconds: int
    number: int | None = None
    url: str | None = None
    url_index: int | None = None
    error: str | None = None
    next_at_ms: int | None = None
    head: str | None = None

    @property
    def id(self) -> str:
        """Return what it is called: ``attempt_key`` reads it back."""
        return id_of(self.key)


class AttemptFilter(NamedTuple):
    """Hold what is asked for; None asks for nothing. Times are milliseconds, ``[since_ms, until_ms)``."""

    outcome: str | None = None
    http_status: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, attempt: LoggedAttempt) -> bool:
        """Return whether an attempt is meant."""
        return (
            (self.outcome is None or attempt.outcome == self.outcome)
            and (self.http_status is None or attempt.http_status == self.http_status)
            and (self.since_ms is None or attempt.at_ms >= self.since_ms)
            and (self.until_ms is None or attempt.at_ms < self.until_ms)
        )


class AttemptPage(NamedTuple):
    """Attempts found, and the key after which the next page begins; None when there are no more."""

    attempts: list[LoggedAttempt]
    after: Key | None


class AttemptLog:
    """Reads the database at ``location`` and the progress ring of the data folder; before deliver first started there
    are no attempts."""

    def __init__(self, data_path: Path, location: DatabaseLocation) -> None:
        self._deliver = DeliverReader(location)
        self._of_events = Results(data_path, self._deliver)

    def newest(
        self,
        destination: str,
        lanes: Collection[int],
        wanted: AttemptFilter,
        limit: int,
        before: Key,
        takes: Callable[[LoggedAttempt], bool],
        due: Callable[[], bool],
    ) -> AttemptPage:
        """At most ``limit`` attempts older than ``before``; ``lanes`` are all that the destination ever had.

        ``takes`` says further whether an attempt is meant; when ``due`` says so, the page ends with what it has.
        """
        if wanted.until_ms is not None:
            before = min(before, (wanted.until_ms, 0, 0, 0, 0))
        found: list[LoggedAttempt] = []
        streams = self._failures(destination, before), self._results(lanes, wanted, before)
        for attempt in heapq.merge(*streams, key=lambda each: each.key, reverse=True):
            if wanted.since_ms is not None and attempt.at_ms < wanted.since_ms:
                return AttemptPage(found, None)
            if attempt.lane != NO_LANE and wanted.takes(attempt) and takes(attempt):
                found.append(attempt)
            if len(found) >= limit or due():
                return AttemptPage(found, attempt.key)
        return AttemptPage(found, None)

    def get(self, destination: str, lanes: Collection[int], key: Key) -> LoggedAttempt | None:
        """Return one attempt by its key."""
        if key[1] == FAILURE:
            row = self._deliver.attempts.get(key[2], destination)
            return _of_row(row) if row is not None else None
        position = key[3]
        found = map(_of_entry, self._of_events.of_position(position >> POSITION_SHIFT, position & OFFSET_MASK))
        return next((each for each in found if each.key == key and each.lane in lanes), None)

    def number(self, attempt: LoggedAttempt) -> int:
        """Return which try of its event an attempt was."""
        if attempt.number is not None:
            return attempt.number
        return self._deliver.attempts.last_number(attempt.lane, attempt.partition, attempt.offset, attempt.at_ms) + 1

    def remark(self, attempt: LoggedAttempt) -> str | None:
        """Return what a sink said when it accepted the event."""
        return self._deliver.attempts.remark(attempt.lane, attempt.partition, attempt.offset)

    def close(self) -> None:
        """Close the files; idempotent."""
        self._of_events.close()
        self._deliver.close()

    def _failures(self, destination: str, before: Key) -> Iterator[LoggedAttempt]:
        id = {RESULT: 0, FAILURE: before[2]}.get(before[1], 1 << 62)
        return map(_of_row, self._deliver.attempts.newest(destination, before[0], id))

    def _results(self, lanes: Collection[int], wanted: AttemptFilter, before: Key) -> Iterator[LoggedAttempt]:
        """Yield the results in blocks, and for each block that is looked at a place holder (``NO_LANE``), so that a
        long search for few results can end in between."""
        waiting: list[tuple[tuple[int, ...], LoggedAttempt]] = []
        for id, at in self._deliver.attempts.blocks_before(before[0]):
            # No block that is still to come holds anything newer than this.
            while waiting and waiting[0][1].at_ms > at:
                yield heapq.heappop(waiting)[1]
            block = self._deliver.attempts.block(id)
            for attempt in _wanted_of(block, lanes, wanted) if block is not None else ():
                if attempt.key < before:
                    heapq.heappush(waiting, (tuple(-part for part in attempt.key), attempt))
            if at < before[0]:
                yield LoggedAttempt((at, NOTHING, 0, 0, 0), 0, 0, NO_LANE, at, "", None, 0)
        while waiting:
            yield heapq.heappop(waiting)[1]


def _of_row(row: SavedAttempt) -> LoggedAttempt:
    return LoggedAttempt(
        (row.at_ms, FAILURE, row.id, 0, 0),
        row.partition,
        row.offset,
        row.lane,
        row.at_ms,
        row.outcome,
        row.http_status,
        row.milliseconds or 0,
        number=row.number,
        url=row.url,
        error=row.error or None,
        next_at_ms=row.next_at_ms,
        head=row.head,
    )


def _wanted_of(block: bytes, lanes: Collection[int], wanted: AttemptFilter) -> Iterator[LoggedAttempt]:
    """Yield the results of a block that may be meant; most blocks hold none, which one pass over one word of each
    tells."""
    words = memoryview(block).cast("Q")[2 :: ENTRY_BYTES // 8].tolist()
    if any(_is_meant(word, lanes, wanted) for word in {word & 0xFFFF_FFFF_FFFF for word in words}):
        yield from (_of_entry(entry) for entry in entries(block) if entry.lane in lanes)


def _is_meant(word: int, lanes: Collection[int], wanted: AttemptFilter) -> bool:
    if (word & 0xFFFF_FFFF) >> URL_BITS not in lanes:
        return False
    outcome, status = from_number(word >> 32)
    return wanted.outcome in (None, outcome) and wanted.http_status in (None, status)


def _of_entry(entry: Entry) -> LoggedAttempt:
    outcome, status = from_number(entry.result)
    return LoggedAttempt(
        (entry.at_ms, RESULT, entry.lane, entry.position, entry.url_index),
        entry.position >> POSITION_SHIFT,
        entry.position & OFFSET_MASK,
        entry.lane,
        entry.at_ms,
        outcome,
        status,
        entry.milliseconds,
        url_index=entry.url_index,
    )


RESULT, FAILURE, NOTHING = 0, 1, 2
"""Kinds: a result in a block, a row, and a position in the order before everything of its millisecond."""
PARTS = 5

Key = tuple[int, int, int, int, int]
"""(ms, RESULT, lane, position, URL's number) or (ms, FAILURE, row, 0, 0)."""


def id_of(key: Key) -> str:
    """Return the attempt's id, which is also the cursor behind it."""
    return "-".join(map(str, key))


def attempt_key(text: str) -> Key | None:
    """Return the key that an attempt's id stands for; None for what is no id."""
    parts = text.split("-")
    if len(parts) != PARTS or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        return None
    at, kind, first, second, third = map(int, parts)
    return None if max(at, kind, first, second, third) >= 1 << 63 else (at, kind, first, second, third)
