"""Reading a journal on Kafka, from any place to the end as it is now; waits for brokers where it must."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from confluent_kafka import KafkaException

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.codec import blanked, group_of, noting_damage
from hookline.journal.kafka.cursors import FETCH_RECORDS, Cursors, Run
from hookline.journal.kafka.erased import ErasedPlaces
from hookline.journal.kafka.topic import Watermarks, partition_count
from hookline.journal.port import (
    LOOP_REST_SECONDS,
    LOOP_WAIT_SECONDS,
    Group,
    JournalAway,
    JournalCorrupt,
    OffsetExpired,
)
from hookline.journal.record import Record

T = TypeVar("T")

WAIT_SECONDS = 5.0
PARTITIONS_SECONDS = 1.0
"""How long a number of partitions is believed."""
GET_RECORDS = 32
"""Records read together for one that was asked for: its neighbours are often next."""
NEAR_RECORDS = 1_000
"""Read on to what lies so near behind a record that was asked for: a search takes as long as some thousands."""
_FINGERPRINT_BYTES = 16


class KafkaReader:
    """Reads the topic; ``folder`` holds what was erased. Not thread-safe: one per thread."""

    def __init__(self, folder: Path, address: KafkaAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._address = address
        self._wait_seconds = WAIT_SECONDS
        self._rest_seconds = 0.0
        self._clock = clock
        self._asks_from = 0.0
        self._erased = ErasedPlaces(folder)
        self._watermarks: Watermarks | None = None
        self._cursors = Cursors(address)
        self._partition_count = 0
        self._counted = 0.0
        self._recent: Group | None = None
        self._recent_partition = -1

    def limit_wait(self, wait_seconds: float = LOOP_WAIT_SECONDS, rest_seconds: float = LOOP_REST_SECONDS) -> None:
        """Give brokers ``wait_seconds`` for an answer from now on; for ``rest_seconds`` after one that did not come ask
        nothing, and raise JournalAway at once."""
        self._wait_seconds, self._rest_seconds = wait_seconds, rest_seconds
        if self._watermarks is not None:
            self._watermarks.ask_seconds = wait_seconds

    def partitions(self) -> range:
        """Return the partition numbers; none while there is no topic. Others may add some at any time, so what brokers
        said is believed for ``PARTITIONS_SECONDS``."""
        now = self._clock()
        if self._partition_count == 0:  # a client of its own is told why brokers turn it away
            self._partition_count = self._waited(lambda: partition_count(self._address, self._wait_seconds))
            self._counted = now
        elif now - self._counted >= PARTITIONS_SECONDS:
            self._partition_count = self._waited(self._asking().partition_count)
            self._counted = now
        return range(self._partition_count)

    def start(self, partition: int) -> int:
        """Return the oldest offset still kept."""
        return self._ask(partition)[0]

    def end(self, partition: int) -> int:
        """Return one past the last durable record."""
        return self._ask(partition)[1]

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield the groups from ``offset`` to the end as it is now; the first one begins exactly at ``offset``.

        Raise OffsetExpired when ``offset`` is below ``start`` (also later, when retention overtakes a slow reader),
        ValueError when it is past ``end``, JournalCorrupt where the topic lacks something, JournalAway when brokers do
        not answer in time.
        """
        start, end = self._ask(partition)
        if offset < start:
            raise OffsetExpired(start)
        if offset > end:
            raise ValueError(f"offset {offset} is past the end of the journal, {end}")
        return noting_damage(self._folder, partition, self._groups(partition, offset, end))

    def read_backwards(self, partition: int, before_offset: int) -> Iterator[Group]:
        """Yield the groups below ``before_offset``, newest group first, records of a group oldest first."""
        start, end = self._ask(partition)
        before = min(before_offset, end)
        while before > start:
            first = max(start, before - FETCH_RECORDS)
            groups = list(self._groups_left(partition, first, before))
            yield from reversed(groups)
            before = first

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not (or no longer) kept, or cannot be read any more."""
        try:
            group = self.around(partition, offset)
        except JournalCorrupt:
            return None
        if group is None:
            return None
        record = group.records[offset - group.first_offset]
        return blanked(record) if offset in self._erased.of(partition) else record

    def around(self, partition: int, offset: int) -> Group | None:
        """Some records that were read together, that at ``offset`` among them; None when it is not kept."""
        group = self._recent
        if group is None or self._recent_partition != partition or not group.first_offset <= offset < group.next_offset:
            start, end = self._ask(partition)
            if not start <= offset < end:
                return None
            try:
                group = next(self._groups(partition, offset, min(end, offset + GET_RECORDS)))
            except OffsetExpired:
                return None
            self._recent, self._recent_partition = group, partition
        return group

    def get_all(self, partition: int, offsets: Iterable[int]) -> Iterator[tuple[int, Record]]:
        """Yield the records at these offsets, ascending, each with its offset; leave out what is not kept and what
        cannot be read any more."""
        for near in _stretches(sorted(offsets)):
            if len(near) > 1:
                yield from self._reading_on(partition, near)
            elif (record := self.get(partition, near[0])) is not None:
                yield near[0], record

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the offsets in ``[start, end)`` whose record has the fingerprint, oldest first."""
        if len(fingerprint) != _FINGERPRINT_BYTES:
            raise ValueError(f"a fingerprint has {_FINGERPRINT_BYTES} bytes")
        for group in self.holding(partition, (fingerprint,), start, end):
            for offset, record in enumerate(group.records, group.first_offset):
                if record.fingerprint == fingerprint and not record.erased:
                    yield offset

    def holding(self, partition: int, texts: Sequence[bytes], start: int, end: int) -> Iterator[Group]:
        """Yield the groups in ``[start, end)`` that hold one of these texts in their raw bytes, oldest first."""
        kept, last = self._ask(partition)
        offset, end = max(start, kept), min(end, last)
        try:
            while offset < end:
                try:
                    run = self._run(partition, offset, end)
                    if not any(text in value for value in run.values for text in texts):
                        offset = run.first_offset + len(run.values)
                        continue
                    group = self._group(partition, run)
                except (OffsetExpired, JournalCorrupt) as lost:
                    offset = max(lost.next_offset, offset + 1)
                    continue
                offset = group.next_offset  # less than the run's, where a message in it is no record
                yield group
        finally:
            self._cursors.rest(partition, offset)

    def close(self) -> None:
        """Let go of the connections."""
        self._cursors.close()
        if self._watermarks is not None:
            self._watermarks.close()
            self._watermarks = None

    def _ask(self, partition: int) -> tuple[int, int]:
        """Return where the partition begins and ends; raise JournalAway while brokers know no topic: taken for an empty
        one, it would seem to have dropped what was read of it."""
        if self._partition_count == 0 and not self.partitions():
            raise JournalAway(f"Kafka knows no topic {self._address.topic}, or not yet: try again")
        return self._waited(partial(self._asking().of, partition))

    def _asking(self) -> Watermarks:
        if self._watermarks is None:
            self._watermarks = Watermarks(self._address, self._wait_seconds)
        return self._watermarks

    def _waited(self, question: Callable[[], T]) -> T:
        if self._clock() < self._asks_from:
            raise JournalAway("Kafka did not answer a moment ago")
        try:
            return question()
        except JournalAway:
            self._asks_from = self._clock() + self._rest_seconds
            raise

    def _groups(self, partition: int, offset: int, end: int) -> Iterator[Group]:
        """Read on while somebody asks for more; what was read ahead goes with the iterator."""
        try:
            while offset < end:
                group = self._group(partition, self._run(partition, offset, end))
                offset = group.next_offset
                yield group
        finally:
            self._cursors.rest(partition, offset)

    def _groups_left(self, partition: int, offset: int, end: int) -> Iterator[Group]:
        """As ``_groups``, without what is lost."""
        while offset < end:
            try:
                for group in self._groups(partition, offset, end):
                    offset = group.next_offset
                    yield group
            except (OffsetExpired, JournalCorrupt) as lost:
                offset = max(lost.next_offset, offset + 1)

    def _reading_on(self, partition: int, offsets: Sequence[int]) -> Iterator[tuple[int, Record]]:
        """As ``get_all``, reading everything between the first and the last of them."""
        start, end = self._ask(partition)
        index = 0
        for group in self._groups_left(partition, max(start, offsets[0]), min(end, offsets[-1] + 1)):
            while index < len(offsets) and offsets[index] < group.next_offset:
                if offsets[index] >= group.first_offset:
                    yield offsets[index], group.records[offsets[index] - group.first_offset]
                index += 1

    def _run(self, partition: int, offset: int, end: int) -> Run:
        try:
            return self._waited(lambda: self._cursors.take(partition, offset, end, self._wait_seconds))
        except KafkaException:
            start, end = self._ask(partition)
            if offset < start:
                raise OffsetExpired(start) from None
            if offset < end:  # it was a moment's confusion, as when another broker begins to lead
                raise JournalAway(f"Kafka did not find offset {offset} of partition {partition}: try again") from None
            raise ValueError(f"offset {offset} is past the end of the journal") from None

    def _group(self, partition: int, run: Run) -> Group:
        """Return the records of a run; where a message in it is no record, nobody goes on behind the run."""
        behind, next_offset = run.first_offset + len(run.values), run.first_offset
        try:
            group = group_of(f"{self._address.topic}[{partition}]", run, self._erased.of(partition))
            next_offset = group.next_offset
            return group
        finally:
            if next_offset < behind:
                self._cursors.rest(partition, behind)


def _stretches(offsets: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield ascending offsets in stretches in which each is near the one before."""
    first = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] - offsets[index - 1] > NEAR_RECORDS:
            yield offsets[first:index]
            first = index
