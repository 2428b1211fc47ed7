"""Rates that people set: never a burst above them, whatever comes back, restarts or is replayed at once.

Counts attempts, not requests: one attempt may ask several URLs.
"""

from __future__ import annotations

from collections.abc import Iterator

from hookline.deliver.lanes.order import BURST_MIN, BURST_SECONDS, GATHERED_BURST_SECONDS
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.ledger import Ledger, Place

PROBES = 2.0
"""Single attempts that find out whether a receiver is back do not wait for the rate; what follows pays for them."""


class Pace:
    """Follows what each destination, each replay, and each catch-up after a pause gets."""

    def __init__(self, clock: SimulatedClock, ledger: Ledger) -> None:
        self._clock = clock
        self._ledger = ledger
        self._left: dict[object, tuple[float, float, float]] = {}
        """(attempts that may begin at once, since when, and how many may at most)"""
        self._catching_up: dict[int, tuple[float, set[Place]]] = {}
        """By lane: the rate, and what waited when the pause ended."""

    def began(self, lane: int, position: Place) -> Iterator[str]:
        """An attempt has begun; yield which rate it exceeds."""
        destination = self._ledger.name_of(lane)
        gathers = self._ledger.may_gather(destination, self._clock.seconds)
        burst_seconds = GATHERED_BURST_SECONDS if gathers else BURST_SECONDS
        yield from self._count(destination, self._ledger.rate_of(destination, self._clock.seconds), burst_seconds)
        replay = self._ledger.replays.get(lane)
        if replay is not None:
            yield from self._count(lane, replay.rate, burst_seconds)
        if lane in self._catching_up:
            rate, waiting = self._catching_up[lane]
            yield from self._count(("catching up", lane), rate, burst_seconds)
            if position >= max(waiting):  # what is left of them waits as rows, for a user's turn or another try
                del self._catching_up[lane]

    def resumed(self, lane: int, rate: float, waiting: set[Place]) -> None:
        """A pause has ended: what waits is to be sent no faster than this."""
        self._left.pop(("catching up", lane), None)
        if waiting:
            self._catching_up[lane] = rate, waiting

    def changed(self, lane: int) -> None:
        """The lane's settings changed: what waits may not be its any more."""
        self._catching_up.pop(lane, None)

    def forget(self, erased: set[Place]) -> None:
        """Events will not be sent any more; with the last one that waited, a catch-up has ended."""
        waiting = {lane: (rate, places - erased) for lane, (rate, places) in self._catching_up.items()}
        self._catching_up = {lane: each for lane, each in waiting.items() if each[1]}

    def restarted(self) -> None:
        """What a process saves of unused attempts ends with it; a new one begins with a full burst."""
        self._left.clear()

    def _count(self, who: object, rate: float | None, burst_seconds: float) -> Iterator[str]:
        if rate is None:
            self._left.pop(who, None)
            return
        # Twice the burst: with other settings, or when a catch-up ends, a lane begins with a full one again.
        most = 2 * max(BURST_MIN, rate * burst_seconds)
        left, since, most_before = self._left.get(who, (most, self._clock.seconds, most))
        left = min(most, left + (self._clock.seconds - since) * rate + max(0.0, most - most_before)) - 1
        self._left[who] = left, self._clock.seconds, most
        if left < -PROBES:
            yield f"{who} gets more than {rate:g} attempts per second"
