"""Per-user order of a lane (``delivery.order: user``): one user's events go one after the other, oldest first.

An event is *pending* from the moment the lane takes it until it is delivered, given up or set aside; only the first
pending event of a user may be sent. The others wait in memory (``held``) or, beyond a bound, as retry rows that are
never due by themselves: their turn is called. So one user's trouble holds up that user only."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from hookline.deliver.event import Event
from hookline.limits import LIMITS
from hookline.outcomes.progress import POSITION_SHIFT

BURST_SECONDS = 0.1
"""How long unused attempts are kept."""
GATHERED_BURST_SECONDS = 1.0
"""The same where events leave in batches: with less, a batch would hold a tenth of what a second may bring."""
BURST_MIN = 2.0
"""So many are kept in any case: with one, the time between two looks would be lost at slow rates."""


class Rate:
    """Attempts per second, ``part`` of them for this process; times are monotonic seconds, given by the caller.

    Whoever has all of them begins with a full burst, a part begins with nothing: others may have used theirs just now.
    """

    __slots__ = ("_burst", "_left", "_mine", "_since", "burst_seconds", "per_second", "taken")

    def __init__(self, per_second: float, part: float = 1.0, burst_seconds: float = BURST_SECONDS) -> None:
        self.per_second = per_second
        self.burst_seconds = burst_seconds
        self.taken = 0
        """Attempts that have begun."""
        self._left = self._mine = 0.0
        self._since: float | None = 0.0
        self.share(part)
        if part >= 1.0:
            self._left = self._burst

    def share(self, part: float) -> None:
        """Keep to another part from now on; what was saved up is kept as far as it is a burst of that."""
        if not self._mine and part < 1.0:
            self._since = None
        self._mine = self.per_second * part
        self._burst = max(BURST_MIN, self._mine * self.burst_seconds) if part > 0 else 0.0
        self._left = min(self._left, self._burst)

    @property
    def burst(self) -> int:
        """Return how many may begin at once after a rest."""
        return int(self._burst)

    def spacing_seconds(self, alone: bool) -> float:
        """Return how far apart single attempts are that exceed nothing; ``alone``: no other process makes any."""
        return 1 / (self.per_second if alone else self._mine or self.per_second)

    def available(self, now_seconds: float) -> int:
        """Return how many attempts may begin now."""
        waited_seconds = 0.0 if self._since is None else max(0.0, now_seconds - self._since)
        self._left = min(self._burst, self._left + waited_seconds * self._mine)
        self._since = now_seconds
        return int(self._left)

    def take(self, count: int) -> None:
        """So many have begun; they were available, or they were urgent and are paid for later."""
        self._left -= count
        self.taken += count


class UserOrder:
    """The pending events of one lane. A position names an event; ``held`` are those in memory, by position."""

    __slots__ = ("_held_max", "_pending", "_user_of", "before", "called", "held")

    def __init__(self, held_max: int = LIMITS.held_events_max, before: Iterable[int] = ()) -> None:
        self._held_max = held_max
        self.before = set(before)
        """Places of the events that were being sent when the order began: whose they are it does not know."""
        self.held: dict[int, Event] = {}
        self.called: list[int] = []
        """Places of rows whose turn has come."""
        self._pending: dict[str, list[int]] = {}
        self._user_of: dict[int, str] = {}

    def admit(self, event: Event) -> bool:
        """Return whether the event may be sent now; if not, it is pending from now on and held."""
        if self.note(event.position, event.record.user_key):
            return True
        self.held[event.position] = event
        return False

    def note(self, position: int, user: str) -> bool:
        """Make an event pending; return whether it is the first of its user."""
        positions = self._pending.setdefault(user, [])
        if position not in self._user_of:
            self._user_of[position] = user
            insort(positions, position)
        return positions[0] == position

    def may_start(self, position: int) -> bool:
        """Return whether a row may be tried: it is the first of its user, or was set aside."""
        user = self._user_of.get(position)
        return user is None or self._pending[user][0] == position

    @property
    def waiting(self) -> int:
        """Return how many pending events are not the first of their user."""
        return len(self._user_of) - len(self._pending)

    def goes_on(self, in_flight: Iterable[int], *, has_rows: bool) -> bool:
        """Return whether others follow as soon as what is being sent is answered, or have been called; without rows
        what was called is done."""
        users = (self._user_of.get(position) for position in in_flight)
        is_called = has_rows and bool(self.called)
        return is_called or any(user is not None and len(self._pending[user]) > 1 for user in users)

    def holds_up(self, position: int) -> bool:
        """Return whether the event is pending: others of its user wait for it, or would."""
        return position in self._user_of

    def finished(self, position: int) -> Event | None:
        """Let an event hold up its user no longer; return the next one when it is held. A row's turn is called."""
        user = self._user_of.pop(position, None)
        if user is None:
            return None
        positions = self._pending[user]
        was_first = positions[0] == position
        positions.remove(position)
        if not positions:
            del self._pending[user]
            return None
        if not was_first:
            return None
        following = self.held.pop(positions[0], None)
        if following is None:
            self.called.append(positions[0])
        return following

    def spill(self, position: int) -> bool:
        """Return whether a held event must wait as a row, because too many are in memory; then it is no longer held."""
        if len(self.held) <= self._held_max:
            return False
        del self.held[position]
        return True

    def let_go(self, only: int | None = None) -> list[Event]:
        """Give up what is held in memory, or ``only`` of one partition, to become rows; they stay pending."""
        held = [event for event in self.held.values() if only is None or event.position >> POSITION_SHIFT == only]
        for event in held:
            del self.held[event.position]
        return held

    def forget(self, partition: int) -> None:
        """Give up every event of a partition. Its users have no events in others."""
        for position in [position for position in self._user_of if position >> POSITION_SHIFT == partition]:
            user = self._user_of.pop(position)
            self.held.pop(position, None)
            self._pending[user].remove(position)
            if not self._pending[user]:
                del self._pending[user]
        self.called = [position for position in self.called if position >> POSITION_SHIFT != partition]

    def call(self, position: int) -> None:
        """Call the turn of a row, if it is the first of its user; otherwise its turn comes when the others are done."""
        if self.may_start(position):
            self.called.append(position)
