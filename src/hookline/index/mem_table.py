"""The newest records of one partition, indexed in memory until they are sealed into a run.

Everything is in a few flat arrays, 32 bytes per record, as they will be in the file: an object per record would take
five times that, and sealing would have to make them flat.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter

from hookline.index.chains import Chains, Entry, Times, buckets_of
from hookline.index.keys import KEY_BYTES, NO_KEY, user_hashes
from hookline.journal.record import Record

NUMBER_BYTES = 4
"""Size of a number, and of the typecode ``I``."""

ENTRY_BYTES = KEY_BYTES + 2 * NUMBER_BYTES
"""Size of an entry in a run: key, newest repeat, link."""

ENTRIES_PER_PART = 8_192
"""Entries that are put together at once, in a fraction of a millisecond."""


NEVER_OVER = 2**63 - 1
"""Time of the latest record while more may come: chains need every earlier one, however long ago."""


class MemTable(Chains):
    """The records of the offsets in ``[first_offset, next_offset)``."""

    def __init__(self, first_offset: int, run_events: int, salt: int) -> None:
        """Start a range that will take about so many records."""
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.salt = salt
        self.bucket_bits = run_events.bit_length()
        self.latest = NEVER_OVER
        self.times = Times(first_offset)
        self._heads = array("I", bytes(NUMBER_BYTES << self.bucket_bits))
        # Numbers begin at 1: the first place of each stays empty.
        self._links = array("I", [0])
        self._newest = array("I", [0])
        self._keys = bytearray(NO_KEY)
        self._users = array("I")

    def add(self, records: Sequence[Record], keys: bytes, received: Sequence[int], perhaps: set[int]) -> list[int]:
        """Take in the records that follow, with their keys and when they were received (ms); return the indexes of
        those whose key is here already.

        Only indexes in ``perhaps`` are looked at for that.
        """
        first_number = len(self) + 1
        buckets = buckets_of(keys, self.salt, self.bucket_bits)
        self._newest.frombytes(bytes(NUMBER_BYTES * len(records)))
        self._keys += keys
        repeated: list[int] = []
        done = 0
        for index in sorted(perhaps):
            self._put(first_number + done, buckets[done:index])
            done = index
            first = self._first(_at(keys, index))
            if first is not None:
                self._repeat(first.number, first_number + index)
                repeated.append(index)
                done += 1
        self._put(first_number + done, buckets[done:])
        self._users += user_hashes(records)
        self.times.cover(self.next_offset, self.next_offset + len(records), min(received), max(received))
        self.next_offset += len(records)
        return repeated

    def head(self, bucket: int) -> int:
        """Return the number at which the chain of a bucket starts."""
        return self._heads[bucket]

    def entry(self, number: int) -> Entry:
        """Return what is known of a number."""
        return Entry(number, _at(self._keys, number), self._newest[number], self._links[number])

    def newest(self, start: int, count: int) -> array[int]:
        """Return the newest repeats of the keys at so many numbers."""
        return self._newest[start : start + count]

    def forget_users(self, offsets: Sequence[int]) -> None:
        """Overwrite whose records these are."""
        for offset in offsets:
            self._users[offset - self.first_offset] = 0

    def is_forgotten(self, offset: int) -> bool:
        """Return whether a record's user was overwritten; so it seems, very seldom, of another record too."""
        return self._users[offset - self.first_offset] == 0

    def parts(self) -> Iterator[bytearray | array[int]]:
        """Yield what a run holds of this, in the order of the file: heads, entries, users."""
        yield self._heads
        for start in range(0, len(self) + 1, ENTRIES_PER_PART):
            yield self._entries(start, min(start + ENTRIES_PER_PART, len(self) + 1))
        yield self._users

    def _entries(self, start: int, end: int) -> bytearray:
        entries = bytearray((end - start) * ENTRY_BYTES)
        with memoryview(entries).cast("Q") as halves, memoryview(self._keys).cast("Q") as keys:
            halves[0::3], halves[1::3] = keys[start * 2 : end * 2 : 2], keys[start * 2 + 1 : end * 2 : 2]
        with memoryview(entries).cast("I") as words:
            words[4::6], words[5::6] = memoryview(self._newest)[start:end], memoryview(self._links)[start:end]
        return entries

    def _put(self, number: int, buckets: Sequence[int]) -> None:
        """Start the chains of these buckets, one after the other, with new numbers."""
        heads = self._heads
        if len(buckets) > 1 and len(set(buckets)) == len(buckets):
            self._links.extend(itemgetter(*buckets)(heads))
            for new, bucket in enumerate(buckets, number):
                heads[bucket] = new
            return
        follow = self._links.append
        for new, bucket in enumerate(buckets, number):
            follow(heads[bucket])
            heads[bucket] = new

    def _repeat(self, first: int, number: int) -> None:
        self._links.append(self._newest[first] or first)
        self._newest[first] = self._newest[number] = number


def _at(keys: bytes | bytearray, number: int) -> bytes:
    return bytes(keys[number * KEY_BYTES : (number + 1) * KEY_BYTES])
