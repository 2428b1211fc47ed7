"""Both ledgers joined: what was acknowledged, what arrived, what is missing, and how long each injection was felt."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from hookline.bench import receiver
from hookline.bench.ledger import Ledger
from tests.faults.sender import ACKNOWLEDGED, BATCH_EVENTS, CUT_OFF, DUE, REFUSED, STARTED_NS, UNEXPECTED

LATE_SECONDS = 1.0
"""Answered or arrived later than this after it was due: the fault is felt."""

_COUNTS = (
    "acknowledged",
    "arrived",
    "lost",
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
    """How long one injection was felt, in seconds, until the next one at most; 0 where it was not.

    ``answered`` and ``arrived``: from the injection until the last batch was answered, or event arrived, that was late.
    ``unanswered`` and ``nothing_arrived``: the longest time without any answer, or arrival.
    """

    answered: float
    arrived: float
    unanswered: float
    nothing_arrived: float


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """The ledgers joined: events, but ``refused`` and ``cut_off``, which are requests."""

    acknowledged: int
    arrived: int
    lost: int
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


def balance(accepted: Ledger, arrivals: Ledger, rate: float, injections: Sequence[Injection]) -> Balance:
    """Join what the sender and the receiver wrote down."""
    began = accepted.counters[STARTED_NS] / 1e9
    lost = 0
    answered: list[tuple[float, float]] = []
    arrived: list[tuple[float, float]] = []
    for first in range(1, accepted.counters[DUE] + 1, BATCH_EVENTS):
        due = began + (first - 1) / rate
        times = arrivals.times[first : first + BATCH_EVENTS].tolist()
        arrived += [(at, at - due) for at in times if at]
        if accepted.times[first]:
            answered.append((accepted.times[first], accepted.times[first] - due))
            lost += sum(not at for at in times)
    answered.sort()
    arrived.sort()
    return Balance(
        acknowledged=len(answered) * BATCH_EVENTS,
        arrived=len(arrived),
        lost=lost,
        duplicates=int(arrivals.counters[receiver.DUPLICATES]),
        refused=int(accepted.counters[REFUSED]),
        cut_off=int(accepted.counters[CUT_OFF]),
        unexpected=int(accepted.counters[UNEXPECTED]),
        wrong_signatures=int(arrivals.counters[receiver.WRONG_SIGNATURE]),
        recoveries=_recoveries(answered, arrived, [each.at for each in injections]),
        answered_by_second=_by_second((at for at, _ in answered), began, BATCH_EVENTS),
        arrived_by_second=_by_second((at for at, _ in arrived), began, 1),
        injected_seconds=tuple(each.at - began for each in injections),
    )


def backlog(accepted: Ledger, arrivals: Ledger) -> tuple[int, int]:
    """Just now: events due and not acknowledged, and events acknowledged and not arrived."""
    acknowledged = accepted.counters[ACKNOWLEDGED]
    came = arrivals.counters[receiver.RECEIVED] - arrivals.counters[receiver.DUPLICATES]
    return accepted.counters[DUE] - acknowledged, max(0, acknowledged - came)


def _recoveries(
    answered: list[tuple[float, float]], arrived: list[tuple[float, float]], injected: list[float]
) -> tuple[Recovery, ...]:
    felt = _felt(answered, injected), _felt(arrived, injected)
    return tuple(
        Recovery(answered=a, unanswered=without_answer, arrived=b, nothing_arrived=without_arrival)
        for (a, without_answer), (b, without_arrival) in zip(*felt, strict=True)
    )


def _felt(times: list[tuple[float, float]], injected: list[float]) -> list[tuple[float, float]]:
    """By injection: until the last late one, and the longest gap; of times in order, each with how late it was."""
    found = [(0.0, 0.0)] * len(injected)
    before = injected[0] if injected else 0.0
    for at, late in times:
        number = bisect_right(injected, at) - 1
        if number >= 0:
            last, gap = found[number]
            found[number] = (at - injected[number] if late > LATE_SECONDS else last, max(gap, at - before))
        before = at
    return found


def _by_second(times: Iterable[float], began: float, weight: int) -> tuple[int, ...]:
    counts = Counter(int(at - began) for at in times)
    return tuple(weight * counts[second] for second in range(max(counts, default=-1) + 1))
