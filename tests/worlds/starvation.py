"""No lane starves: whoever can be reached and has something to get is sent something within a bounded time.

And isolation: destinations that nothing was done to get their events in a time that does not depend on the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hookline.settings import Deliver
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.ledger import Ledger, Place
from tests.worlds.limits import SMALL
from tests.worlds.watch import Watch

HELD_UP_SECONDS = 4.0
"""A destination that was always well gets an event within this, as long as the machine works; longer by the time that
it takes to find out about many receivers that begin to hang together."""
FOUND_OUT = 1.5
"""How much longer that takes, at most, where they answer, but slowly."""
SLACK_SECONDS = 4.0
SECONDS_PER_DESTINATION = 0.5
"""Lanes that are not well share a quarter of the places: the more there are, the longer a turn takes."""


class Starvation:
    """Keeps what each lane still has to get."""

    def __init__(
        self, clock: SimulatedClock, ledger: Ledger, watch: Watch, deliver: Deliver, destinations: int
    ) -> None:
        self.ready_since = clock.seconds
        """Since when the process lives and the disk works."""
        self.well_since: dict[str, float] = {}
        """By destination: since when all its receivers answer; absent while one does not."""
        self.spared: set[str] = set()
        self._clock = clock
        self._ledger = ledger
        self._watch = watch
        self._window_ms = int(deliver.retry_window * 1000)
        self._patience_seconds = 2 * deliver.retry_max + deliver.timeout + SLACK_SECONDS
        self._patience_seconds += SECONDS_PER_DESTINATION * destinations
        self._found_out_seconds = _found_out_seconds(destinations, deliver.timeout)
        self._open: dict[int, dict[Place, float]] = {}
        """By lane: what it has to get, with the time it was stored."""
        self._names: dict[int, str] = {}
        self._stored: Counter[int] = Counter()
        self._released: dict[int, float] = {}

    def stored(self, position: Place) -> None:
        """An event is in the journal."""
        event = self._ledger.events[position]
        if event.duplicate:
            return
        for lane, destination in self._ledger.lanes_of(position).items():
            self._open.setdefault(lane, {})[position] = event.at
            self._names[lane] = destination
            self._stored[lane] += 1

    def found(self) -> Iterator[str]:
        """Yield the lanes that are kept waiting without a reason."""
        now = self._clock.seconds
        for lane, positions in list(self._open.items()):
            if self._ledger.gone_since(lane) is not None:
                del self._open[lane]
                continue
            self._forget_done(lane, positions)
            since = self.well_since.get(self._names[lane])
            due = {position: self._due_at(lane, position, at) for position, at in positions.items()}
            is_full = self._is_full(lane)
            due = {each: at for each, at in due.items() if at <= now and not (is_full and self._is_new(lane, each))}
            if due and self._ledger.may_keep_order(self._names[lane], now):
                first = self._first_to_come(lane, now)
                due = {each: at for each, at in due.items() if each <= first.get(self._user_of(each), each)}
            if since is None or not due or self._is_held(lane):
                continue
            waits_since = max(
                since,
                self.ready_since,
                self._released.get(lane, 0.0),
                min(due.values()),
                self._watch.last_sent.get(lane, 0.0),
                self._watch.asked_until.get(lane, 0.0),
            )
            if now - waits_since > self._patience_seconds:
                yield f"lane {lane} has {len(due)} events to get and nothing was sent for {now - waits_since:.1f} s"
            if self._names[lane] in self.spared:
                held_up = now - max(min(due.values()), self.ready_since)
                rate = self._ledger.rate_of(self._names[lane], now)
                held_up_max = HELD_UP_SECONDS + self._found_out_seconds
                if held_up > held_up_max + (self._stored[lane] / rate if rate is not None else 0):
                    yield f"lane {lane}, always well, waits for offset {min(due)} for {held_up:.1f} s"

    def _is_held(self, lane: int) -> bool:
        """Whether the lane is paused; remembers until when."""
        paused = self._ledger.paused_since(lane) is not None
        if paused:
            self._released[lane] = self._clock.seconds
        return paused

    def _forget_done(self, lane: int, positions: dict[Place, float]) -> None:
        for position in list(positions):
            tries = self._watch.tries.get((lane, position))
            disconnected = self._ledger.disconnected(position, lane, self._names[lane])
            if (
                disconnected
                or position in self._ledger.erasing
                or (self._watch.is_untried((lane, position)) and self._ledger.may_be_filtered(position, lane))
                or (lane, position) in self._watch.lost
                or (tries is not None and (tries.answered_at is not None or tries.final))
                or (tries is not None and self._watch.may_be_done((lane, position), tries))
                or (tries is not None and self._clock.steady_ms() > tries.first_at_ms + self._window_ms)
            ):
                del positions[position]

    def _is_full(self, lane: int) -> bool:
        """Return whether as many rows wait as there may be, for what their receiver asked: nothing new begins then."""
        found = self._watch.lane_of(lane)
        return found is not None and found.retry_count >= SMALL.retry_rows_max

    def _is_new(self, lane: int, position: Place) -> bool:
        return (lane, position) not in self._watch.tries

    def _first_to_come(self, lane: int, now: float) -> dict[str, Place]:
        """Return each user's first event whose time has not come: the others of that user come after it. What a
        receiver had asked for before the lane kept an order holds, too."""
        found: dict[str, Place] = {}
        for (number, position), tries in self._watch.tries.items():
            asked_long = tries.asked_long and tries.answered_at is None
            if (
                number == lane
                and position not in self._ledger.erasing
                and (asked_long or self._due_at(lane, position, 0.0) > now)
            ):
                user = self._user_of(position)
                found[user] = min(position, found.get(user, position))
        return found

    def _user_of(self, position: Place) -> str:
        return self._ledger.events[position].record.user_key

    def _due_at(self, lane: int, position: Place, at: float) -> float:
        """When the event could have been sent, on the monotonic clock."""
        tries = self._watch.tries.get((lane, position))
        wait_ms = tries.not_before_ms - self._clock.steady_ms() if tries is not None and tries.not_before_ms else None
        return at if wait_ms is None else max(at, self._clock.seconds + wait_ms / 1000)


def _found_out_seconds(destinations: int, timeout: float) -> float:
    """Return how long it takes at most until all are known that begin to hang, or to be slow, together.

    Each has to fail a few times, all of them in as many places as there are; those that come when as many are known to
    be slow as may hold places have only the places that are left.
    """
    late = max(0, destinations - SMALL.slow_in_flight_max)
    turns = destinations / SMALL.in_flight_max + late / (SMALL.in_flight_max - SMALL.slow_in_flight_max)
    return turns * SMALL.narrow_failures * timeout * FOUND_OUT
