"""The newest records of one partition, indexed in memory until they are sealed into a run."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import chain, islice

from hookline.index.times import Times
from hookline.index.user_hash import USER_HASH_BYTES, user_hash
from hookline.journal.record import Record

REJECTED = 1 << 63
"""Marks the offset of a rejected record: it can be looked up, but is no earlier delivery of anything."""

ENTRIES_PER_STEP = 2_000
"""Entries handled between two pauses of long work: well below a millisecond."""

NO_USER = bytes(USER_HASH_BYTES)
"""Stands for a record without a user."""


class Recent:
    """The fingerprints of the offsets in ``[first_offset, next_offset)``; smallest offset first, repeats aside."""

    __slots__ = ("_firsts", "_rejected", "_repeats", "first_offset", "next_offset", "times", "users")

    def __init__(self, first_offset: int) -> None:
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.times = Times(first_offset)
        self.users = bytearray()
        self._firsts: dict[bytes, int] = {}
        self._repeats: dict[bytes, list[int]] = {}
        self._rejected: list[tuple[bytes, int]] = []

    def __len__(self) -> int:
        """How many offsets are covered."""
        return self.next_offset - self.first_offset

    def add(self, records: Sequence[Record], first_offset: int) -> list[int]:
        """Take in the records that follow; return the indexes of those whose fingerprint is here already."""
        setdefault = self._firsts.setdefault
        users: list[bytes] = []
        repeated: list[int] = []
        offset = first_offset
        for record in records:
            if not record.erased:
                if record.rejection is not None:
                    self._rejected.append((record.fingerprint, offset | REJECTED))
                elif setdefault(record.fingerprint, offset) != offset:
                    self._repeats.setdefault(record.fingerprint, []).append(offset)
                    repeated.append(offset - first_offset)
            users.append(user_hash(record.source, record.user_key) if record.user_key else NO_USER)
            offset += 1
        self.users += b"".join(users)
        received = [record.received_at for record in records]
        self.times.cover(first_offset, offset, min(received), max(received))
        self.next_offset = offset
        return repeated

    def repeated(self, records: Sequence[Record], first_offset: int) -> list[int]:
        """Return the indexes of the records whose fingerprint is here with a smaller offset, without taking them in."""
        get = self._firsts.get
        return [
            index
            for index, record in enumerate(records)
            if (first := get(record.fingerprint)) is not None and first < first_offset + index
        ]

    def candidates(self, fingerprint: bytes, before: int) -> tuple[int, ...]:
        """Return the smallest and the largest offset below ``before`` with the fingerprint, as far as there are."""
        first = self._firsts.get(fingerprint)
        if first is None or first >= before:
            return ()
        repeats = self._repeats.get(fingerprint, [])
        below = bisect_left(repeats, before)
        return (first, repeats[below - 1]) if below else (first,)

    def entries(self) -> Iterator[list[tuple[bytes, int]]]:
        """Yield fingerprint and offset of every entry, some at a time: per fingerprint in the order of the offsets."""
        repeats = ((key, offset) for key, offsets in self._repeats.items() for offset in offsets)
        everything = chain(self._firsts.items(), repeats, self._rejected)
        while some := list(islice(everything, ENTRIES_PER_STEP)):
            yield some
