"""Aggregate the entries that count at an instant: one value each, whatever the order in which events came in.

An event counts from its own time on: one that is dated ahead does not count yet. A window of length W holds what is
younger than W, so an entry leaves at its time plus W. A fixed stretch holds its first instant and not its second.

Numbers are those that were numbers in the event: text is never converted. Whole numbers come out as integers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Context, Decimal
from math import isfinite
from operator import attrgetter, eq
from typing import NamedTuple, TypeAlias

from hookline.connections.definitions.model import Aggregate, ComputedTrait, Condition, instants_ms, window_ms
from hookline.people.definitions.feature import Entry

NEVER = (1 << 63) - 1
"""An instant that never comes."""

AT: Callable[[Entry], int] = attrgetter("at_ms")


class Counted(NamedTuple):
    """The entries ``[start, stop)`` count, and nothing changes of itself before ``until`` (ms)."""

    start: int
    stop: int
    until: int


Stretch: TypeAlias = Callable[[Sequence[Entry], int], Counted]


def stretch_of(clause: Condition | ComputedTrait) -> Stretch:
    """Return the entries that count for a clause, as a function of all of them and the time."""
    if clause.within is not None:
        return _sliding(window_ms(clause.within))
    if clause.between is not None:
        return _fixed(*instants_ms(clause.between))
    return _ever


def past(entries: Sequence[Entry], now_ms: int) -> tuple[int, int]:
    """Return how many entries lie not in the future, and when the next one comes."""
    count = len(entries)
    if not count or entries[-1].at_ms <= now_ms:
        return count, NEVER
    count = bisect_right(entries, now_ms, key=AT)
    return count, entries[count].at_ms


def _ever(entries: Sequence[Entry], now_ms: int) -> Counted:
    return Counted(0, *past(entries, now_ms))


def _sliding(window: int) -> Stretch:
    def counted(entries: Sequence[Entry], now_ms: int) -> Counted:
        stop, until = past(entries, now_ms)
        start = bisect_right(entries, now_ms - window, 0, stop, key=AT)
        if start < stop:
            until = min(until, entries[start].at_ms + window)
        return Counted(start, stop, until)

    return counted


def _fixed(begins: int, ends: int) -> Stretch:
    def counted(entries: Sequence[Entry], now_ms: int) -> Counted:
        start = bisect_left(entries, min(begins, now_ms + 1), key=AT)
        stop = max(start, bisect_left(entries, min(ends, now_ms + 1), key=AT))
        coming = bisect_left(entries, max(begins, now_ms + 1), key=AT)
        until = NEVER
        if coming < len(entries) and entries[coming].at_ms < ends:
            until = entries[coming].at_ms
        return Counted(start, stop, until)

    return counted


UNIQUE_LIST_MAX = 100
"""Values of a ``uniqueList``; beyond that the ones seen last stay."""

EMPTY: dict[Aggregate, object] = {"count": 0, "sum": 0, "uniqueCount": 0, "uniqueList": []}
"""The aggregates of no entries; None for all others."""

Scalar: TypeAlias = float | str | bool
Aggregator: TypeAlias = Callable[[Sequence[Entry]], object]

_WHOLE_MAX = 2.0**53


def values_of(entries: Sequence[Entry]) -> Iterator[Scalar]:
    """Yield the values there are, oldest first."""
    return (entry.value for entry in entries if entry.value is not None)


def numbers_of(entries: Sequence[Entry]) -> list[float]:
    """Return the values that are numbers, oldest first."""
    return [entry.value for entry in entries if entry.value.__class__ in _NUMBERS]  # type: ignore[misc]


_NUMBERS = frozenset({int, float})


def _sum(entries: Sequence[Entry]) -> object:
    return _tidy(_total(numbers_of(entries)))


def _average(entries: Sequence[Entry]) -> object:
    numbers = numbers_of(entries)
    total = _total(numbers)
    return None if not numbers or total is None else _tidy(total / len(numbers))


def _min(entries: Sequence[Entry]) -> object:
    return _tidy(min(numbers_of(entries), default=None))


def _max(entries: Sequence[Entry]) -> object:
    return _tidy(max(numbers_of(entries), default=None))


def _first(entries: Sequence[Entry]) -> object:
    return _tidy(next(values_of(entries), None))


def _last(entries: Sequence[Entry]) -> object:
    return _tidy(next(values_of(entries[::-1]), None))


def _most_frequent(entries: Sequence[Entry]) -> object:
    """Of several that are as frequent, the one seen last."""
    counts = Counter(map(_key, values_of(entries[::-1])))
    return _tidy(counts.most_common(1)[0][0][1]) if counts else None


def _unique_list(entries: Sequence[Entry]) -> object:
    newest = list(dict.fromkeys(map(_key, values_of(entries[::-1]))))[:UNIQUE_LIST_MAX]
    return [_tidy(value) for _, value in sorted(newest, key=_rank)]


def _unique_count(entries: Sequence[Entry]) -> object:
    return len(set(map(_key, values_of(entries))))


AGGREGATES: dict[Aggregate, Aggregator] = {
    "count": len,
    "sum": _sum,
    "average": _average,
    "min": _min,
    "max": _max,
    "mostFrequent": _most_frequent,
    "first": _first,
    "last": _last,
    "uniqueList": _unique_list,
    "uniqueCount": _unique_count,
}


_SMALL = 1e12
"""Below it a number with two digits behind the point is told from its neighbours."""
_EXACTLY = Context(prec=800)
"""Digits: 309 before the point, 324 behind it and 17 of each number, so that no sum is ever rounded."""


def _total(numbers: Sequence[float]) -> float | None:
    """Return the exact sum of the numbers as they were written, which no order changes: 33.63 three times is 100.89.

    None when it is beyond what a number can hold.
    """
    hundredths = [round(number * 100) for number in numbers if abs(number) < _SMALL]
    if len(hundredths) == len(numbers) and all(map(eq, numbers, (each / 100 for each in hundredths))):
        return sum(hundredths) / 100  # amounts of money: ten times as fast
    total = Decimal(0)
    for number in numbers:
        total = _EXACTLY.add(total, Decimal(repr(number)))
    found = float(total)
    return found if isfinite(found) else None


def _key(value: Scalar) -> tuple[bool, Scalar]:
    """Return what tells values apart: to Python, true is 1."""
    return value.__class__ is bool, value


def _rank(key: tuple[bool, Scalar]) -> tuple[int, Scalar]:
    is_truth, value = key
    return (2 if is_truth else 1 if isinstance(value, str) else 0), value


def _tidy(value: Scalar | None) -> Scalar | None:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _WHOLE_MAX:
        return int(value)
    return value
