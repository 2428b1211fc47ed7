"""Where in a range of offsets a key is: hash chains, the same ones in memory and in the file of a sealed run.

The records of a range are numbered from 1, and 0 is none. Each bucket has a chain of the numbers at which a key of that
bucket came first, newest first: its head starts it, links go on. There ``newest`` is the last repeat of the key, whose
link leads to the one before and so at last to the first again; so a chain stays short however often one key is
repeated. A repeat is its own ``newest``, which tells it from the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from hookline.index.keys import KEY_BYTES, in_every_lane, lanes, rejected, words

_WORD_BITS = 32
_LAST_WORD = KEY_BYTES * 8 - _WORD_BITS


class Entry(NamedTuple):
    """One record: its number and key, the newest repeat of that, and the next older number."""

    number: int
    key: bytes
    newest: int
    link: int


class Chains(ABC):
    """The chains over the keys of the offsets from ``first_offset`` on."""

    first_offset: int
    next_offset: int
    latest: int
    """The latest time at which one of them was received."""
    bucket_bits: int
    salt: int
    """Odd; chosen by chance, so that nobody can choose messageIds that all fall into one bucket."""

    def __len__(self) -> int:
        """Return how many offsets are covered."""
        return self.next_offset - self.first_offset

    @abstractmethod
    def head(self, bucket: int) -> int:
        """Return the number at which the chain of a bucket starts."""

    @abstractmethod
    def entry(self, number: int) -> Entry:
        """Return what is known of a number."""

    @abstractmethod
    def newest(self, start: int, count: int) -> Sequence[int]:
        """Return the newest repeats of the keys at so many numbers."""

    def candidates(self, key: bytes, before: int) -> tuple[int, ...]:
        """Return the smallest and the largest offset below ``before`` with the key, as far as there are."""
        found = self._first(key)
        limit = before - self.first_offset + 1
        if found is None or found.number >= limit:
            return ()
        first = last = found.number
        if found.newest >= limit and (there := self.entry(limit)).key == key:
            last = there.link  # it is read again: a repeat has its own link, however many came since
        elif found.newest:
            last = found.newest
        while last >= limit:
            last = self._older(self.entry(last))
        ends = (first, last) if last > first else (first,)
        return tuple([self.first_offset - 1 + number for number in ends])

    def offsets(self, fingerprint: bytes) -> list[int]:
        """Return every offset that holds the fingerprint, ascending, rejected records included."""
        numbers: list[int] = []
        for key in (fingerprint, rejected(fingerprint)):
            first = self._first(key)
            if first is None:
                continue
            number = first.newest
            while number > first.number:
                numbers.append(number)
                number = self._older(self.entry(number))
            numbers.append(first.number)
        return [self.first_offset - 1 + number for number in sorted(numbers)]

    def repeats(self, first_offset: int, count: int) -> list[int]:
        """Return the indexes of those of the offsets, all of this range, whose key this range has before them."""
        start = first_offset - self.first_offset + 1
        newest = self.newest(start, count)
        if not any(newest):
            return []
        return [index for index, number in enumerate(newest) if number == start + index]

    def _first(self, key: bytes) -> Entry | None:
        """Return the entry at which the key is first."""
        number = self.head(bucket_of(key, self.salt, self.bucket_bits))
        while number:
            entry = self.entry(number)
            if entry.key == key:
                return entry
            number = self._older(entry)
        return None

    def _older(self, entry: Entry) -> int:
        """Follow a link, or end where a damaged file has one that does not lead back."""
        return entry.link if entry.link < entry.number else 0


def bucket_of(key: bytes, salt: int, bits: int) -> int:
    """Return the bucket of a key: the upper bits of the product of its last word and the salt."""
    word = int.from_bytes(key[-_WORD_BITS // 8 :], "little")
    return word * salt >> (_WORD_BITS - bits) & ((1 << bits) - 1)


def buckets_of(keys: bytes, salt: int, bits: int) -> list[int]:
    """Return the buckets of all keys."""
    count = len(keys) // KEY_BYTES
    last_words = lanes(keys) >> _LAST_WORD & in_every_lane((1 << _WORD_BITS) - 1, count)
    found = last_words * salt >> (_WORD_BITS - bits) & in_every_lane((1 << bits) - 1, count)
    return words(found, count)[::4].tolist()
