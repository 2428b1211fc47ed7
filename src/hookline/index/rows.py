"""In which rows of a Bloom filter a key has its bits: three, named by its first words."""

from __future__ import annotations

from typing import NamedTuple

from hookline.index.keys import KEY_BYTES, in_every_lane, lanes, words

ROWS_PER_EVENT = 16
"""Rows per event of a run: with three rows set per event, 0.5 % of foreign keys pass for one run."""

_ROW_WORDS = (1 << 32) + (1 << 64) + 1
"""One in each of the three words of a key that its rows are numbered by."""


class Rows(NamedTuple):
    """The row numbers of some keys, a list for each of the three."""

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
    """The number of rows, a power of two, for runs of this many events."""
    return max(1 << 10, 1 << (run_events * ROWS_PER_EVENT - 1).bit_length())


def rows_of(keys: bytes, rows: int) -> Rows:
    """Return in which rows, of so many, each of the keys has its bits: its first words, modulo the number of rows."""
    count = len(keys) // KEY_BYTES
    numbers = words(lanes(keys) & in_every_lane((rows - 1) * _ROW_WORDS, count), count)
    return Rows(numbers[0::4].tolist(), numbers[1::4].tolist(), numbers[2::4].tolist())
