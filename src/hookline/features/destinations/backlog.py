"""Count exactly how many events wait for destinations, by routing what lies between their lanes and the journal's end.

Every record is looked at once for each destination that has yet to come to it. What was found is kept as one bit, so
that a lane that moves on takes its own events out of the count. A short backlog is counted when somebody asks. The rest
is counted by a thread that takes at most ``CORE_SHARE`` of a core, and only while somebody keeps asking. Until then the
count is the most that it can be.

A repeated event counts until its destination comes to it and drops it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from hookline.connections.model import Destination, LaneConfig
from hookline.journal.port import JournalError, Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record
from hookline.route.decision import not_routed_reason
from hookline.route.filters import filters_of
from hookline.telemetry.log import logger

CORE_SHARE = 0.02
ALLOWANCE_SECONDS = 1.0
"""Processor time that may be saved up while nothing is counted: the first hundred thousand events come at once."""
RECORDS_PER_STEP = 1_024
RECORDS_PER_QUESTION = 5_000
"""Looked at while somebody waits for the answer: about 25 ms."""
ASKED_SECONDS = 30.0
"""The thread counts until nobody has asked for so long."""
CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS
CHUNKS_MAX = 50_000
"""Over all destinations, of 500 bytes at most: two hundred million events. What is beyond stays "at most"."""


class Stretch(NamedTuple):
    """Offsets ``[start, end)`` that a lane has yet to come to; with ``source`` only events of that one are meant."""

    partition: int
    start: int
    end: int
    source: str | None = None


class Lane(NamedTuple):
    """A destination with its lane and what that has yet to come to."""

    destination: Destination
    config: LaneConfig
    stretches: Sequence[Stretch]


class Count(NamedTuple):
    """Say how many events wait, or with ``exact`` false the most it can be; ``first`` is the partition and offset of
    the first one in each partition, as far as it was counted."""

    events: int = 0
    exact: bool = True
    first: tuple[tuple[int, int], ...] = ()


class _Found:
    """Hold what was found in a chunk of offsets: the events of a destination among the first ``seen``, as bits."""

    __slots__ = ("bits", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self.bits = 0


class _Marks:
    """Hold what was found for one destination as it is now, by source of a backfill, partition and chunk."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.filters = filters_of(lane.destination)
        self.chunks: dict[tuple[str | None, int, int], _Found] = {}
        self._whole: dict[tuple[str | None, int], int] = {}
        """By source and partition: the chunk before which nothing has to be looked at."""

    def holds_for(self, lane: Lane) -> bool:
        """Return whether what was found is still so: neither the destination nor its sources have changed, and the lane
        did not go back to what it had passed, as when its breaker opens. Nobody may have looked at that."""
        mine = self.lane
        starts = _starts(lane)
        return (mine.destination, mine.config.sources, mine.config.until) == (
            lane.destination,
            lane.config.sources,
            lane.config.until,
        ) and all(start <= starts.get(each, start) for each, start in _starts(mine).items())

    def waits(self, record: Record, stretch: Stretch, offset: int) -> bool:
        """Return whether the event is one of the lane's."""
        if record.rejection is not None or record.erased:
            return False
        if stretch.source is not None and (record.to is not None or record.source != stretch.source):
            return False
        if not_routed_reason(record, self.lane.destination, self.lane.config, stretch.partition, offset) is not None:
            return False
        return self.filters is None or self.filters.passes(record)

    def count(self) -> Count:
        """Return what waits, as far as it was looked at."""
        events, exact = 0, True
        first: dict[int, int] = {}
        for stretch in self.lane.stretches:
            for chunk in range(stretch.start >> CHUNK_BITS, (stretch.end - 1 >> CHUNK_BITS) + 1):
                base = chunk << CHUNK_BITS
                begin, end = max(stretch.start - base, 0), min(stretch.end - base, CHUNK)
                found = self.chunks.get((stretch.source, stretch.partition, chunk))
                seen = 0 if found is None else min(found.seen, end)
                if found is not None and seen > begin:
                    bits = (found.bits & ((1 << seen) - 1)) >> begin
                    events += bits.bit_count()
                    if bits and stretch.partition not in first:
                        first[stretch.partition] = base + begin + (bits & -bits).bit_length() - 1
                if seen < end:
                    events += end - max(seen, begin)
                    exact = False
        return Count(events, exact, tuple(first.items()))

    def first_unseen(self) -> tuple[int, int] | None:
        """Return the partition and chunk to look at next; None when everything was looked at."""
        found = None
        for stretch in self.lane.stretches:
            key = (stretch.source, stretch.partition)
            chunk = max(stretch.start >> CHUNK_BITS, self._whole.get(key, 0))
            while chunk << CHUNK_BITS < stretch.end and self.missing(stretch, chunk) is None:
                chunk += 1
            # All before it are whole or passed, and the last one may only grow.
            self._whole[key] = min(chunk, stretch.end >> CHUNK_BITS)
            if chunk << CHUNK_BITS < stretch.end and (found is None or (stretch.partition, chunk) < found):
                found = (stretch.partition, chunk)
        return found

    def missing(self, stretch: Stretch, chunk: int) -> int | None:
        """Return how many offsets of a chunk need no look any more; None when all that belong to the stretch were
        looked at."""
        base = chunk << CHUNK_BITS
        found = self.chunks.get((stretch.source, stretch.partition, chunk))
        # What the lane had passed before anybody looked is never asked for.
        seen = max(0 if found is None else found.seen, stretch.start - base)
        return seen if seen < min(stretch.end - base, CHUNK) else None

    def forget_passed(self) -> None:
        """Forget the chunks that the lane has passed."""
        keys = {
            (stretch.source, stretch.partition, chunk)
            for stretch in self.lane.stretches
            for chunk in range(stretch.start >> CHUNK_BITS, (stretch.end - 1 >> CHUNK_BITS) + 1)
        }
        self.chunks = {key: found for key, found in self.chunks.items() if key in keys}
        starts = _starts(self.lane)
        self._whole = {key: chunk for key, chunk in self._whole.items() if key in starts}


def _starts(lane: Lane) -> dict[tuple[str | None, int], int]:
    """Return where what is left begins, by source of a backfill and partition."""
    starts: dict[tuple[str | None, int], int] = {}
    for each in lane.stretches:
        key = (each.source, each.partition)
        starts[key] = min(each.start, starts.get(key, each.start))
    return starts


class BacklogCounter:
    """Safe to share between threads. ``journal`` is read by one at a time: who reads it beside the counter holds
    ``reading``."""

    def __init__(self, journal: Callable[[], Reader], clock: Callable[[], float] = time.monotonic) -> None:
        self._journal = journal
        self._clock = clock
        self.reading = threading.Lock()
        self._marks: dict[str, _Marks] = {}
        self._asked = 0.0
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def count(self, lanes: Sequence[Lane]) -> dict[str, Count]:
        """Return what waits for each destination; the thread goes on with what could not be counted at once."""
        with self.reading:
            self._asked = self._clock()
            self._follow(lanes)
            self._look(RECORDS_PER_QUESTION)
            counts = {id: marks.count() for id, marks in self._marks.items()}
            if not all(count.exact for count in counts.values()) and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="backlog-counter", daemon=True)
                self._thread.start()
        return counts

    def close(self) -> None:
        """End the thread; idempotent."""
        self._ended.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def _follow(self, lanes: Sequence[Lane]) -> None:
        before, self._marks = self._marks, {}
        for lane in lanes:
            marks = before.get(lane.destination.id)
            if marks is None or not marks.holds_for(lane):
                marks = _Marks(lane)
            marks.lane = lane
            marks.forget_passed()
            self._marks[lane.destination.id] = marks

    def _run(self) -> None:
        allowance, before = ALLOWANCE_SECONDS, self._clock()
        while True:
            began = time.thread_time()
            with self.reading:
                if self._ended.is_set() or self._clock() - self._asked > ASKED_SECONDS:
                    self._thread = None
                    return
                try:
                    looked = self._look(RECORDS_PER_STEP)
                except Exception:  # noqa: BLE001 - the thread's border: a question tries again, and says what is wrong
                    logger().warning("backlog_not_counted", exc_info=True, next_step="it is tried again when asked for")
                    looked = 0
            now = self._clock()
            allowance = min(ALLOWANCE_SECONDS, allowance + CORE_SHARE * (now - before))
            allowance, before = allowance - (time.thread_time() - began), now
            rest = -allowance / CORE_SHARE if allowance < 0 else 0.0 if looked else 1.0
            self._ended.wait(max(rest, 0.001))

    def _look(self, records: int) -> int:
        """Look at so many records that some lane has yet to come to, and somewhat more; return how many it were."""
        kept = sum(len(marks.chunks) for marks in self._marks.values())
        looked = 0
        while looked < records and kept < CHUNKS_MAX:
            firsts = [first for marks in self._marks.values() if (first := marks.first_unseen()) is not None]
            if not firsts:
                break
            partition, chunk = min(firsts)
            lanes = [
                (marks, stretch, seen)
                for marks in self._marks.values()
                for stretch in marks.lane.stretches
                if stretch.partition == partition
                and stretch.start < (chunk + 1) << CHUNK_BITS
                and (seen := marks.missing(stretch, chunk)) is not None
            ]
            kept += len(lanes)
            try:
                looked += self._look_at(partition, chunk, lanes)
            except JournalError:  # brokers are away: what is not counted stays "at most"
                break
        return looked

    def _look_at(self, partition: int, chunk: int, lanes: list[tuple[_Marks, Stretch, int]]) -> int:
        base = chunk << CHUNK_BITS
        end = min(base + CHUNK, max(stretch.end for _, stretch, _ in lanes))
        start = base + min(seen for _, _, seen in lanes)
        found = [(seen, [0], marks, stretch) for marks, stretch, seen in lanes]
        looked = 0
        for group in read_on(self._journal(), partition, start, end):
            for offset, record in enumerate(group.records, group.first_offset):
                if not start <= offset < end:
                    continue
                looked += 1
                for seen, bits, marks, stretch in found:
                    if offset - base >= seen and offset < stretch.end and marks.waits(record, stretch, offset):
                        bits[0] |= 1 << (offset - base)
        for _, bits, marks, stretch in found:
            kept = marks.chunks.setdefault((stretch.source, partition, chunk), _Found())
            kept.bits |= bits[0]
            kept.seen = max(kept.seen, min(stretch.end - base, CHUNK))
        return max(looked, 1)
