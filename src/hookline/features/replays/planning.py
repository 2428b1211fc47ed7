"""What a replay comes to: how many events, which ones where single ones are meant, and a few to look at.

Reads journal and outcomes in steps of a fraction of a second, so that several go on beside each other in one thread,
and a long one shows how far it is. Nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from hookline.connections.model import Destination, Offsets
from hookline.database.location import DatabaseLocation
from hookline.events.fingerprint import fingerprint
from hookline.events.timestamps import iso
from hookline.features.dead_letters.places import dead_letter_places
from hookline.features.dead_letters.service import DeadLetterLog
from hookline.index import lookup
from hookline.journal.opening import open_reader
from hookline.journal.port import Reader
from hookline.journal.reading import read_on
from hookline.journal.record import Record
from hookline.outcomes.buckets import Buckets
from hookline.outcomes.progress import BUCKET_SHIFT
from hookline.replays.model import ReplayRequest
from hookline.replays.offset_set import RUNS_MAX, OffsetSet
from hookline.replays.predicate import event_name, predicate_of

SAMPLE_MAX = 5
STEP_SECONDS = 0.05
LOOKUPS_MAX = 64
"""Up to so many messageIds (times sources) are looked up in the index; more are found by reading the stretch."""


class SampleEvent(msgspec.Struct, frozen=True, rename="camel"):
    """One of the events that would be sent."""

    message_id: str
    source: str
    type: str
    event: str | None
    user_id: str
    received_at: str


class Planning:
    """The count of one request, ``[starts, ends)`` of each partition. Make and use it in one thread."""

    def __init__(
        self,
        data_path: Path,
        deliver: DatabaseLocation,
        request: ReplayRequest,
        destination: Destination,
        starts: Offsets,
        ends: Offsets,
    ) -> None:
        self.count = 0
        self.sample: list[SampleEvent] = []
        self.scanned = 0
        self.of = sum(ends[partition] - starts[partition] for partition in ends)
        """Events to be looked at."""
        self.places: dict[int, OffsetSet] | None = None
        """The events found, where single ones are meant and they are few enough to name."""
        self._data_path = data_path
        self._deliver = deliver
        self._request = request
        self._destination = destination
        self._starts, self._ends = starts, ends
        self._ids = None if request.message_ids is None else frozenset(request.message_ids)
        self._sends = predicate_of(request, destination)
        self._step_ends = 0.0

    def steps(self) -> Iterator[None]:
        """Do the work, pausing after each step."""
        journal, buckets = open_reader(self._data_path / "journal"), Buckets(self._data_path, self._deliver)
        letters = DeadLetterLog(self._deliver)
        try:
            if self._request.by_places:
                self.places = {}
            wanted = self._request.dead_letter_filter()
            if wanted is not None:
                found = yield from dead_letter_places(letters, buckets, journal, wanted, self._destination, self._due)
                yield from self._look_at(journal, found)
            elif self._ids is not None and len(self._ids) * len(self._sources()) <= LOOKUPS_MAX:
                yield from self._look_at(journal, self._look_up(journal))
            else:
                for partition in self._ends:
                    yield from self._read(journal, buckets, partition)
        finally:
            letters.close()
            buckets.close()
            journal.close()

    def _sources(self) -> tuple[str, ...]:
        return self._destination.sources if self._request.source is None else (self._request.source,)

    def _look_up(self, journal: Reader) -> dict[int, set[int]]:
        """Return the first event of each messageId: a later one of the same id is a repeat."""
        found: dict[int, set[int]] = {partition: set() for partition in self._ends}
        for source in self._sources():
            for message_id in self._ids or ():
                for partition, offsets in found.items():
                    wanted = fingerprint(source, message_id)
                    kept = lookup.find(journal, self._data_path / "index", partition, wanted)
                    good = (offset for offset in kept if _is_good(journal.get(partition, offset)))
                    offsets.update(first for first in [next(good, None)] if first is not None)
        return found

    def _look_at(self, journal: Reader, found: dict[int, set[int]]) -> Iterator[None]:
        self.of, self.scanned = sum(map(len, found.values())), 0
        for partition, offsets in found.items():
            for offset in sorted(offsets):
                self.scanned += 1
                if self._starts.get(partition, 0) <= offset < self._ends.get(partition, 0):
                    record = journal.get(partition, offset)
                    if record is not None:
                        self._take(record, partition, offset)
                if self._due():
                    yield

    def _read(self, journal: Reader, buckets: Buckets, partition: int) -> Iterator[None]:
        offset, end = self._starts[partition], self._ends[partition]
        bucket, repeats = -1, set[int]()
        for group in read_on(journal, partition, offset, end):
            for at, record in enumerate(group.records, group.first_offset):
                if at >> BUCKET_SHIFT != bucket:
                    bucket = at >> BUCKET_SHIFT
                    repeats = {each for each in repeats if each >= at} | buckets.repeats(partition, bucket)
                if at < end and at not in repeats:
                    self._take(record, partition, at)
            self.scanned += min(group.next_offset, end) - group.first_offset
            if self._due():
                yield

    def _take(self, record: Record, partition: int, offset: int) -> None:
        if (self._ids is not None and record.message_id not in self._ids) or not self._sends(record):
            return
        self.count += 1
        if len(self.sample) < SAMPLE_MAX:
            self.sample.append(_sample(record))
        if self.places is not None:
            places = self.places.setdefault(partition, OffsetSet())
            places.add(offset, offset + 1)
            if places.runs > RUNS_MAX and self._request.dead_letter_filter() is None and self._ids is None:
                self.places = None  # so many that the whole stretch is read again instead

    def _due(self) -> bool:
        now = time.monotonic()
        if now < self._step_ends:
            return False
        self._step_ends = now + STEP_SECONDS
        return True


def _sample(record: Record) -> SampleEvent:
    return SampleEvent(
        record.message_id,
        record.source,
        record.type,
        event_name(record) or None,
        record.user_key,
        iso(record.received_at),
    )


def _is_good(record: Record | None) -> bool:
    return record is not None and record.rejection is None and not record.erased
