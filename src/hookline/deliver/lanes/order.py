"""Per-user order of a lane (``delivery.order: user``): one user's events go one after the other, oldest first.

An event is *pending* from the moment the lane takes it until it is delivered, given up or set aside; only the first
pending event of a user may be sent. The others wait in memory (``held``) or, beyond a bound, as retry rows that are
never due by themselves: their turn is called. So one user's trouble holds up that user only.
"""

from __future__ import annotations

from bisect import insort

from hookline.deliver.event import Event
from hookline.limits import LIMITS
from hookline.outcomes.progress import PLACE_SHIFT

NEVER_MS = 2**62
"""The due time of a row whose turn is called."""


class UserOrder:
    """The pending events of one lane. A place names an event; ``held`` are those in memory, by place."""

    __slots__ = ("_held_max", "_pending", "_user_of", "called", "held")

    def __init__(self, held_max: int = LIMITS.held_events_max) -> None:
        self._held_max = held_max
        self.held: dict[int, Event] = {}
        self.called: list[int] = []
        """Places of rows whose turn has come."""
        self._pending: dict[str, list[int]] = {}
        self._user_of: dict[int, str] = {}

    def admit(self, event: Event) -> bool:
        """Return whether the event may be sent now; if not, it is pending from now on and held."""
        if self.note(event.place, event.record.user_key):
            return True
        self.held[event.place] = event
        return False

    def note(self, place: int, user: str) -> bool:
        """Make an event pending; return whether it is the first of its user."""
        places = self._pending.setdefault(user, [])
        if place not in self._user_of:
            self._user_of[place] = user
            insort(places, place)
        return places[0] == place

    def may_start(self, place: int) -> bool:
        """Return whether a row may be tried: it is the first of its user, or was set aside."""
        user = self._user_of.get(place)
        return user is None or self._pending[user][0] == place

    @property
    def waiting(self) -> int:
        """Return how many pending events are not the first of their user."""
        return len(self._user_of) - len(self._pending)

    def holds_up(self, place: int) -> bool:
        """Return whether the event is pending: others of its user wait for it, or would."""
        return place in self._user_of

    def finished(self, place: int) -> Event | None:
        """Return the event no longer holds up its user; return the next one when it is held. A row's turn is called."""
        user = self._user_of.pop(place, None)
        if user is None:
            return None
        places = self._pending[user]
        was_first = places[0] == place
        places.remove(place)
        if not places:
            del self._pending[user]
            return None
        if not was_first:
            return None
        following = self.held.pop(places[0], None)
        if following is None:
            self.called.append(places[0])
        return following

    def spill(self, place: int) -> bool:
        """Return whether a held event must wait as a row, because too many are in memory; then it is no longer held."""
        if len(self.held) <= self._held_max:
            return False
        del self.held[place]
        return True

    def let_go(self, only: int | None = None) -> list[Event]:
        """Give up what is held in memory, or ``only`` of one partition, to become rows; they stay pending."""
        held = [event for event in self.held.values() if only is None or event.place >> PLACE_SHIFT == only]
        for event in held:
            del self.held[event.place]
        return held

    def forget(self, partition: int) -> None:
        """Give up every event of a partition. Its users have no events in others."""
        for place in [place for place in self._user_of if place >> PLACE_SHIFT == partition]:
            user = self._user_of.pop(place)
            self.held.pop(place, None)
            self._pending[user].remove(place)
            if not self._pending[user]:
                del self._pending[user]
        self.called = [place for place in self.called if place >> PLACE_SHIFT != partition]

    def call(self, place: int) -> None:
        """Call the turn of a row, if it is the first of its user; otherwise its turn comes when the others are done."""
        if self.may_start(place):
            self.called.append(place)
