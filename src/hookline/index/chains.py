"""Find where in a range of offsets a key is (hash chains, the same in memory and in a file), and between which times
its records were received.

The records of a range are numbered from 1, and 0 is none. Each bucket has a chain of the numbers at which a key of that
bucket came first, newest first: its head starts it, links go on. There ``newest`` is the last repeat of the key, whose
link leads to the one before and so at last to the first again; so a chain stays short however often one key is
repeated. A repeat is its own ``newest``, which tells it from the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
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


SPAN_RECORDS = 1024
"""Offsets that share one pair of times; a format constant of sealed runs."""

_NEVER = 2**63 - 1


class Times:
    """The earliest and the latest ``received_at`` of each span of offsets from ``first_offset`` on."""

    __slots__ = ("_highs", "_lows", "first_offset")

    def __init__(self, first_offset: int, lows: array[int] | None = None, highs: array[int] | None = None) -> None:
        self.first_offset = first_offset
        self._lows = array("q") if lows is None else lows
        self._highs = array("q") if highs is None else highs

    def cover(self, offset: int, next_offset: int, low: int, high: int) -> None:
        """Note that the records in ``[offset, next_offset)`` were received between ``low`` and ``high``."""
        last = (next_offset - 1 - self.first_offset) // SPAN_RECORDS
        while len(self._lows) <= last:
            self._lows.append(_NEVER)
            self._highs.append(-_NEVER)
        for span in range((offset - self.first_offset) // SPAN_RECORDS, last + 1):
            self._lows[span] = min(self._lows[span], low)
            self._highs[span] = max(self._highs[span], high)

    def within(self, offset: int, received_at: int, window_ms: int) -> bool | None:
        """Return whether the record at ``offset`` was received at most the window before; None when only it can
        tell."""
        span = (offset - self.first_offset) // SPAN_RECORDS
        if not 0 <= span < len(self._lows) or self._lows[span] == _NEVER:
            return None
        if received_at - self._lows[span] <= window_ms:
            return True
        return False if received_at - self._highs[span] > window_ms else None

    @property
    def low(self) -> int | None:
        """Return the earliest time of all, None when there is none."""
        return min(self._lows) if self._lows else None

    @property
    def high(self) -> int | None:
        """Return the latest time of all, None when there is none."""
        return max(self._highs) if self._highs else None

    def __len__(self) -> int:
        return len(self._lows)

    def to_bytes(self) -> bytes:
        """Write all spans: the early times, then the late ones, 8 bytes each, little-endian."""
        return _little_endian(self._lows).tobytes() + _little_endian(self._highs).tobytes()

    @classmethod
    def from_bytes(cls, first_offset: int, data: bytes) -> Times:
        """Read what ``to_bytes`` wrote."""
        lows, highs = array("q"), array("q")
        lows.frombytes(data[: len(data) // 2])
        highs.frombytes(data[len(data) // 2 :])
        return cls(first_offset, _little_endian(lows), _little_endian(highs))


def _little_endian(values: array[int]) -> array[int]:
    from sys import byteorder

    if byteorder == "big":
        values = array("q", values)
        values.byteswap()
    return values
