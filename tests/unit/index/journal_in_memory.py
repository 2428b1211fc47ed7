"""A journal of one partition in a list, enough of a Reader for the index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hookline.journal.port import Group, OffsetExpired
from hookline.journal.record import Record, Rejection, fingerprint

START_MS = 1_795_158_000_000
REJECTION = Rejection("missing_user_id", "Give a userId or an anonymousId.")


def record(message_id: str, seconds: float = 0, user: str = "u1", *, rejected: bool = False) -> Record:
    """A record received so many seconds after the start."""
    received_at = START_MS + int(seconds * 1000)
    print_ = fingerprint("website", message_id)
    rejection = REJECTION if rejected else None
    return Record(
        1, False, received_at, "website", "track", message_id, print_, user, "", "sdk", b"{}", rejection=rejection
    )


class JournalInMemory:
    """Reads from ``records``; offsets below ``first`` are no longer kept."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = list(records)
        self.first = 0
        self.searched: list[tuple[int, int]] = []

    def partitions(self) -> range:
        return range(1)

    def start(self, partition: int) -> int:
        return self.first

    def end(self, partition: int) -> int:
        return len(self.records)

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        if offset < self.first:
            raise OffsetExpired(self.first)
        while offset < len(self.records):
            records = self.records[offset : offset + 3]
            yield Group(offset, records, 0)
            offset += len(records)

    def get(self, partition: int, offset: int) -> Record | None:
        return self.records[offset] if self.first <= offset < len(self.records) else None

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        self.searched.append((start, end))
        return (offset for offset in range(start, end) if self.records[offset].fingerprint == fingerprint)

    def close(self) -> None:
        pass
