"""Which entries count at an instant: those that were, in the window that ends then or between two fixed instants.

An event counts from its own time on: one that is dated ahead does not count yet. A window of length W holds what is
younger than W, so an entry leaves at its time plus W. A fixed stretch holds its first instant and not its second.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from hookline.connections.definitions.model import ComputedTrait, Condition
from hookline.connections.definitions.times import instants_ms, window_ms
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
