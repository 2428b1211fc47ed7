"""Both ledgers joined: what was acknowledged, what arrived, what is missing, and how long each injection was felt."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from itertools import accumulate, pairwise

import msgspec

from hookline.bench import receiver
from hookline.bench.event import Ledger
from tests.faults.sender import ACKNOWLEDGED, BATCH_EVENTS, CUT_OFF, DUE, REFUSED, STARTED_NS, UNEXPECTED

WAITING_SECONDS = 1.0
"""A fault is felt while more waits than becomes due in so long a time."""

_COUNTS = (
    "acknowledged",
    "arrived",
    "lost",
    "damaged",
    "duplicates",
    "refused",
    "cut_off",
    "unexpected",
    "wrong_signatures",
)


class Injection(msgspec.Struct, frozen=True):
    """What was done, and when by the monotonic clock."""

    what: str
    at: float


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """How long one injection was felt, in seconds; 0 where it was not before the next one.

    ``answered`` and ``arrived``: from the injection until no more waits for an answer, or to arrive, than becomes due
    in ``WAITING_SECONDS``, to the second. ``unanswered`` and ``nothing_arrived``: the longest time without any answer,
    or arrival, before the next injection.
    """

    answered: float
    arrived: float
    unanswered: float
    nothing_arrived: float


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """The ledgers joined: events, but ``refused`` and ``cut_off``, which are requests.

    ``damaged`` did not arrive because their bytes in the journal were changed; they are not ``lost``."""

    acknowledged: int
    arrived: int
    lost: int
    damaged: int = 0
    duplicates: int
    refused: int
    cut_off: int
    unexpected: int
    wrong_signatures: int
    recoveries: tuple[Recovery, ...]
    answered_by_second: tuple[int, ...]
    arrived_by_second: tuple[int, ...]
    injected_seconds: tuple[float, ...]

    @property
    def duplicate_share(self) -> float:
        """Duplicates per acknowledged event."""
        return self.duplicates / max(1, self.acknowledged)

    def __add__(self, later: Balance) -> Balance:
        """Two runs as one, one after the other."""
        seconds = max(len(self.answered_by_second), len(self.arrived_by_second))
        pad = (0,) * seconds
        sums = {name: getattr(self, name) + getattr(later, name) for name in _COUNTS}
        return Balance(
            **sums,
            recoveries=self.recoveries + later.recoveries,
            answered_by_second=(self.answered_by_second + pad)[:seconds] + later.answered_by_second,
            arrived_by_second=(self.arrived_by_second + pad)[:seconds] + later.arrived_by_second,
            injected_seconds=self.injected_seconds + tuple(seconds + at for at in later.injected_seconds),
        )


def balance(
    accepted: Ledger, arrivals: Ledger, rate: float, injections: Sequence[Injection], damaged: Set[int] = frozenset()
) -> Balance:
    """Join what the sender and the receiver wrote down; ``damaged`` are events that may be missing."""
    began = accepted.counters[STARTED_NS] / 1e9
    due = accepted.counters[DUE]
    missing: set[int] = set()
    answered: list[float] = []
    arrived: list[float] = []
    for first in range(1, due + 1, BATCH_EVENTS):
        times = arrivals.times[first : first + BATCH_EVENTS].tolist()
        arrived += filter(None, times)
        if accepted.times[first]:
            answered.append(accepted.times[first])
            missing.update(first + number for number, at in enumerate(times) if not at)
    injected = [each.at - began for each in injections]
    answered_by_second = _by_second((at - began for at in answered), BATCH_EVENTS)
    arrived_by_second = _by_second((at - began for at in arrived), 1)
    return Balance(
        acknowledged=len(answered) * BATCH_EVENTS,
        arrived=len(arrived),
        lost=len(missing - damaged),
        damaged=len(missing & damaged),
        duplicates=int(arrivals.counters[receiver.DUPLICATES]),
        refused=int(accepted.counters[REFUSED]),
        cut_off=int(accepted.counters[CUT_OFF]),
        unexpected=int(accepted.counters[UNEXPECTED]),
        wrong_signatures=int(arrivals.counters[receiver.WRONG_SIGNATURE]),
        recoveries=tuple(
            Recovery(answered=a, arrived=b, unanswered=c, nothing_arrived=d)
            for a, b, c, d in zip(
                caught_up(answered_by_second, rate, due, injected),
                caught_up(arrived_by_second, rate, due, injected),
                _longest_gaps(sorted(at - began for at in answered), injected),
                _longest_gaps(sorted(at - began for at in arrived), injected),
                strict=True,
            )
        ),
        answered_by_second=answered_by_second,
        arrived_by_second=arrived_by_second,
        injected_seconds=tuple(injected),
    )


def backlog(accepted: Ledger, arrivals: Ledger) -> tuple[int, int]:
    """Just now: events due and not acknowledged, and events acknowledged and not arrived."""
    acknowledged = accepted.counters[ACKNOWLEDGED]
    repeated_or_other = arrivals.counters[receiver.DUPLICATES] + arrivals.counters[receiver.UNNUMBERED]
    came = arrivals.counters[receiver.RECEIVED] - repeated_or_other
    return accepted.counters[DUE] - acknowledged, max(0, acknowledged - came)


def caught_up(counts: Sequence[int], rate: float, due: int, injected: Sequence[float]) -> list[float]:
    """By injection: how long until no more waits again, of ``counts`` by second, than may; ``due`` in all."""
    waiting = [min(rate * (second + 1), due) - done for second, done in enumerate(accumulate(counts))]
    is_felt = [each > rate * WAITING_SECONDS for each in waiting]
    found: list[float] = []
    for at, following in zip(injected, [*injected[1:], math.inf], strict=True):
        begins = next((s for s in range(int(at), len(is_felt)) if is_felt[s] and s < following), None)
        if begins is None:
            found.append(0.0)
        else:
            found.append(next((s for s in range(begins, len(is_felt)) if not is_felt[s]), len(is_felt)) - at)
    return found


def _longest_gaps(times: Sequence[float], injected: Sequence[float]) -> list[float]:
    """By injection: the longest gap that ends before the next one; ``times`` ascend."""
    found = [0.0] * len(injected)
    for before, at in pairwise(times):
        number = bisect_right(injected, at) - 1
        if number >= 0:
            found[number] = max(found[number], at - max(before, injected[0]))
    return found


def _by_second(times: Iterable[float], weight: int) -> tuple[int, ...]:
    counts = Counter(map(int, times))
    return tuple(weight * counts[second] for second in range(max(counts, default=-1) + 1))
