"""Aggregates: one value of the entries that count. None depends on the order in which events came in.

Numbers are those that were numbers in the event: text is never converted. Whole numbers come out as integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import fsum, isfinite
from typing import TypeAlias

from hookline.connections.definitions.model import Aggregate
from hookline.people.definitions.feature import Entry

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


def _total(numbers: Sequence[float]) -> float | None:
    """Return the exact sum, which no order changes; None when it is beyond what a number can hold."""
    try:
        total = fsum(numbers)
    except OverflowError:
        return None
    return total if isfinite(total) else None


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
