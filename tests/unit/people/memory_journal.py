"""A journal of one partition in memory, and records to put into it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from hookline.events.timestamps import iso
from hookline.journal.port import Group, OffsetExpired, partition_of
from hookline.journal.record import Record, fingerprint
from hookline.outcomes.progress import POSITION_SHIFT

NOW_MS = 1_795_158_000_000
SOURCE = "website"


def record(type: str, message_id: str, at_ms: int = NOW_MS, **body: Any) -> Record:
    """A record as the collection edge stores it."""
    user_key = str(body.get("userId") or body.get("anonymousId") or "")
    written = msgspec.json.encode({"type": type, "messageId": message_id, **body})
    mark = fingerprint(SOURCE, message_id)
    return Record(1, False, NOW_MS, SOURCE, type, message_id, mark, user_key, iso(at_ms), "sdk", written)


class MemoryJournal:
    """Groups in a list; a reader of the port."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.first = 0

    def append(self, *records: Record) -> None:
        """Add one group."""
        self.groups.append(Group(self.end(0), list(records), 0))

    def stored(self) -> list[tuple[int, Record]]:
        """Everything with its position."""
        return list(enumerate(each for group in self.groups for each in group.records))

    def partitions(self) -> range:
        """There is one."""
        return range(1)

    def start(self, partition: int) -> int:
        """The oldest offset still kept."""
        return self.first

    def end(self, partition: int) -> int:
        """One past the last record."""
        return self.groups[-1].next_offset if self.groups else 0

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """The groups from an offset on."""
        if offset < self.first:
            raise OffsetExpired(self.first)
        for group in self.groups:
            if group.next_offset > offset:
                skipped = max(0, offset - group.first_offset)
                yield Group(group.first_offset + skipped, group.records[skipped:], 0)

    def get(self, partition: int, offset: int) -> Record | None:
        """Nothing asks for it here."""
        raise NotImplementedError

    def find(self, partition: int, fingerprint: bytes, start: int, end: int) -> Iterator[int]:
        """Nothing asks for it here."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to give back."""


class PartitionedJournal(MemoryJournal):
    """The same of many partitions, each of which has some users."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = [MemoryJournal() for _ in range(count)]
        self._in_order: list[tuple[int, Record]] = []

    def append(self, *records: Record) -> None:
        """Add a group for each record."""
        for each in records:
            partition = partition_of(each.user_key, len(self.parts))
            self._in_order.append((partition << POSITION_SHIFT | self.end(partition), each))
            self.parts[partition].append(each)

    def stored(self) -> list[tuple[int, Record]]:
        """Everything with its position, in the order in which it came."""
        return self._in_order

    def partitions(self) -> range:
        """All of them."""
        return range(len(self.parts))

    def end(self, partition: int) -> int:
        """One past a partition's last record."""
        return self.parts[partition].end(0)

    def read(self, partition: int, offset: int) -> Iterator[Group]:
        """A partition's groups from an offset on."""
        return self.parts[partition].read(0, offset)
