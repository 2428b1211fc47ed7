"""Records of events that are to be tried again, where the journal is on brokers.

Asking brokers takes milliseconds in which nothing else is sent: with a hundred dead receivers nothing else would be.
"""

from __future__ import annotations

from hookline.journal.record import Record

KEPT_BYTES_MAX = 16 * 1024 * 1024
_RECORD_OVERHEAD_BYTES = 1_000


class KeptRecords:
    """The newest by place, up to a size; what it lacks is in the journal."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._records: dict[int, Record] = {}
        self._bytes = 0

    def keep(self, place: int, record: Record) -> None:
        """Keep a record; the oldest go when there is no room."""
        if place in self._records:
            return
        self._records[place] = record
        self._bytes += _size(record)
        while self._bytes > self._bytes_max:
            self._bytes -= _size(self._records.pop(next(iter(self._records))))

    def get(self, place: int) -> Record | None:
        """The record at a place, if it is kept."""
        return self._records.get(place)

    def clear(self) -> None:
        """Forget all: some of them were erased."""
        self._records.clear()
        self._bytes = 0


def _size(record: Record) -> int:
    return len(record.body) + len(record.envelope or b"") + _RECORD_OVERHEAD_BYTES
