"""In which rows of a Bloom filter a key has its bits: three of one line, named by its first words.

A line is what memory gives at once (64 bytes, sixteen rows). What a look-up costs is waiting for memory, and so it
waits once instead of three times.
"""

from __future__ import annotations

from typing import NamedTuple

from hookline.index.keys import KEY_BYTES, in_every_lane, lanes, words

ROWS_PER_EVENT = 32
"""Rows per event of a run: with three rows set per event, all of one line, 0.6 % of foreign keys pass for one run."""

LINE_ROWS = 16
_HALF = LINE_ROWS // 2
_WORD_BITS = 32


class FilterPositions(NamedTuple):
    """The row numbers of some keys: in the first half of a line, in the second half of it, and anywhere in it."""

    first: list[int]
    second: list[int]
    third: list[int]

    def again(self) -> list[int]:
        """Return the indexes of the keys that may be the same as one before them."""
        if len(set(self.first)) == len(self.first):
            return []
        before: set[int] = set()
        again: list[int] = []
        for index, row in enumerate(self.first):
            if row in before:
                again.append(index)
            before.add(row)
        return again


def rows_for(run_events: int) -> int:
    """Return the number of rows, a power of two, for runs of this many events."""
    return max(1 << 10, 1 << (run_events * ROWS_PER_EVENT - 1).bit_length())


def rows_of(keys: bytes, rows: int) -> FilterPositions:
    """Return in which rows, of so many, each of the keys has its bits.

    The first word, modulo the number of rows, names the line and a row of its first half; the second word a row of the
    second half, the third word any row of the line.
    """
    count = len(keys) // KEY_BYTES
    given = lanes(keys)
    line = given & in_every_lane(rows - LINE_ROWS, count)
    within = in_every_lane(_HALF - 1 | (_HALF - 1) << _WORD_BITS | (LINE_ROWS - 1) << 2 * _WORD_BITS, count)
    upper = in_every_lane(_HALF << _WORD_BITS, count)
    numbers = words(given & within | upper | line | line << _WORD_BITS | line << 2 * _WORD_BITS, count)
    return FilterPositions(numbers[0::4].tolist(), numbers[1::4].tolist(), numbers[2::4].tolist())
