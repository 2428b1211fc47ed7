"""The rate that was chosen for the time after a pause ends once nothing waits, and does not begin again.

Looks into the lanes: that a rate holds is not seen from outside while little is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hookline.deliver.lanes.lane import Lane
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.ledger import Ledger
from tests.worlds.watch import Watch

SURE_SECONDS = 1.0
"""A lane is level when it has nothing to send for so long, in a process that runs for so long."""


class Levels:
    """Follows which lanes have nothing to send, as far as looks every half second tell."""

    def __init__(self, clock: SimulatedClock, ledger: Ledger, watch: Watch) -> None:
        self._clock = clock
        self._ledger = ledger
        self._watch = watch
        self._level_since: dict[int, float] = {}
        self._ended: set[int] = set()
        """Lanes that have been level since their last pause."""
        self._first_look: dict[int, tuple[Lane, float]] = {}
        """By number: the lane of the process that runs, and the time of the first look at it."""

    def found(self, lanes: Iterable[Lane]) -> Iterator[str]:
        """Yield lanes that keep to the rate of a catch-up that is over."""
        now = self._clock.seconds
        for lane in lanes:
            known, looked_at = self._first_look.get(lane.number, (None, now))
            if known is not lane:  # a process that began a moment ago has not looked at its lanes yet
                self._first_look[lane.number], looked_at = (lane, now), now
            if lane.is_replay or lane.drains:  # what is drained gets nothing more that a rate could hold up
                continue
            if lane.paused:
                self._ended.discard(lane.number)
            if lane.catch_up_rate is not None and lane.number in self._ended:
                yield f"lane {lane.number} catches up again, with {lane.catch_up_rate:g} attempts per second"
            is_level = not (lane.paused or lane.busy or lane.detached or lane.retry_count)
            if not is_level or self._is_disturbed(lane.number):
                self._level_since[lane.number] = now
            elif now - max(looked_at, self._level_since.setdefault(lane.number, now)) < SURE_SECONDS:
                continue
            elif lane.catch_up_rate is not None:
                yield f"lane {lane.number} has nothing to send and keeps to {lane.catch_up_rate:g} attempts per second"
            else:
                self._ended.add(lane.number)

    def changed(self, lane: int) -> None:
        """A pause ended, or was only now made known: there may be something to catch up with."""
        self._ended.discard(lane)
        self._level_since[lane] = self._clock.seconds

    def crashed(self, kept_until: float) -> None:
        """The process is gone: where a lane may not have been level when that was saved, it may catch up again."""
        for lane in list(self._level_since):
            since = self._level_since[lane]
            if since > kept_until - SURE_SECONDS or self._is_disturbed(lane) or self._has_new(lane, since):
                self.changed(lane)

    def _is_disturbed(self, lane: int) -> bool:
        """Whether something was sent since the lane became level."""
        return self._watch.last_sent.get(lane, 0.0) >= self._level_since.get(lane, 0.0)

    def _has_new(self, lane: int, since: float) -> bool:
        newest = (position for position, event in reversed(self._ledger.events.items()) if event.at >= since)
        return any(lane in self._ledger.lanes_of(position) for position in newest)
