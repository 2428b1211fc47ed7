"""A journal into which events arrive at a steady rate: what is in it follows from the clock, so it takes no room.

Stands where a partition's files stand; retention by age and by bytes drops events from the front as there.
"""

from __future__ import annotations

from collections.abc import Iterator

from hookline.journal.local.segment import GROUP_RECORDS
from hookline.journal.port import Group, OffsetExpired
from hookline.journal.record import FORMAT_VERSION, Record
from hookline.settings import Retention
from hookline.simulation.scheduler import SimulatedClock

BODY = b'{"type":"track","event":"Order Completed","userId":"u1","properties":{"total":12.5}}'
TIMESTAMP = "2026-11-20T07:00:00.000Z"


class SteadyJournal:
    """One partition with ``rate`` events a second; each stands for ``weight`` real ones of ``event_bytes``."""

    def __init__(
        self, clock: SimulatedClock, source: str, rate: float, retention: Retention, event_bytes: int, weight: float
    ) -> None:
        self._clock = clock
        self._source = source
        self._rate = rate
        self._began = clock.seconds
        self._began_ms = clock.now_ms()
        self._kept_seconds = retention.events
        self._kept_events = int(retention.bytes / (event_bytes * weight))

    def partitions(self) -> range:
        """Return one partition."""
        return range(1)

    def start(self, partition: int) -> int:
        """Return the oldest offset that retention has left."""
        by_age = int((self._clock.seconds - self._began - self._kept_seconds) * self._rate)
        return max(0, by_age, self.end(partition) - self._kept_events)

    def end(self, partition: int) -> int:
        """Return what has arrived by now."""
        return int((self._clock.seconds - self._began) * self._rate)

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """Yield groups from ``offset`` to the end as it is now."""
        start, end = self.start(partition), self.end(partition)
        if offset < start:
            raise OffsetExpired(start)
        if offset > end:
            raise ValueError(f"offset {offset} is past the end of the journal, {end}")
        return self._groups(offset, end)

    def get(self, partition: int, offset: int) -> Record | None:
        """Return the record at ``offset``, or None when it is not kept."""
        return self._record(offset) if self.start(partition) <= offset < self.end(partition) else None

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Yield the one offset with this fingerprint."""
        offset = int.from_bytes(fingerprint, "big")
        if start <= offset < end:
            yield offset

    def limit_wait(self, wait_seconds: float = 0.0, rest_seconds: float = 0.0) -> None:
        """Nothing is waited for."""

    def close(self) -> None:
        """There is nothing to let go of."""

    def _groups(self, offset: int, end: int) -> Iterator[Group]:
        while offset < end:
            if offset < self.start(0):
                raise OffsetExpired(self.start(0))
            count = min(GROUP_RECORDS, end - offset)
            records = [self._record(each) for each in range(offset, offset + count)]
            yield Group(offset, records, count * len(BODY))
            offset += count

    def _record(self, offset: int) -> Record:
        return Record(
            FORMAT_VERSION,
            False,
            self._began_ms + int(offset * 1000 / self._rate),
            self._source,
            "track",
            f"e{offset}",
            offset.to_bytes(16, "big"),
            "",
            TIMESTAMP,
            "sdk",
            BODY,
        )
