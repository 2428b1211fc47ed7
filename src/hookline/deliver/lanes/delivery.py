"""One event on its way to one destination, and the failures it has met there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hookline.connections.model import WEBHOOKS_MAX
from hookline.deliver.event import Event
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.send.port import Failure

ALL_URLS = (1 << WEBHOOKS_MAX) - 1
"""The mask of every URL a destination can have."""

REFUSED = ALL_URLS << WEBHOOKS_MAX
"""In a mask: the URLs that have refused the event for good (fan-out ``all``)."""

ASKED_TO_WAIT = 1 << (2 * WEBHOOKS_MAX)
"""In a retry row's mask: its time is the one that the receiver asked for, and no probe comes before it."""

ACCEPTED = ASKED_TO_WAIT << 1
"""In a mask: every URL that is neither to be tried nor has refused has accepted the event. Without it some may not have
been asked: with other fan-outs than ``all`` not every URL is."""


Moved = tuple[int | None, ...]
"""For each URL that a destination has now, the index that it had before; None for one that is new."""


def moved(before: Sequence[str], now: Sequence[str]) -> Moved | None:
    """Return where a destination's URLs stood before, None where none moved, or there are none."""
    if before == now or not now:
        return None
    return tuple(before.index(url) if url in before else None for url in now)


def moved_mask(urls: int, moved: Moved) -> int:
    """Return a mask as it was, for the URLs that there are now; one that is new is to be tried too."""
    found = urls & (ASKED_TO_WAIT | ACCEPTED)
    for index, before in enumerate(moved):
        if before is None:
            found |= 1 << index
        else:
            found |= (urls >> before & 1) << index | (urls >> before + WEBHOOKS_MAX & 1) << index + WEBHOOKS_MAX
    return found


class FailedTry(msgspec.Struct, gc=False, eq=False):
    """The failure of one URL within a delivery."""

    target: Target
    failure: Failure
    at_ms: int
    milliseconds: int


class Delivery(msgspec.Struct, gc=False, eq=False):
    """One attempt for one event: at most one request per URL at a time.

    A first attempt at a lane's only URL, as most are, has none as long as nothing fails: the event stands for it.
    """

    lane: Lane
    event: Event
    first_at_ms: int
    attempt: int = 1
    urls: int = ALL_URLS
    """Bit i set: URL i is to be tried. Above them, with fan-out ``all``, bit i + 5: URL i has refused for good; and
    ``ACCEPTED``."""
    from_row: bool = False
    accepted: bool = False
    """Whether a URL has accepted although others are still asked (fan-out ``all``)."""
    outstanding: int = 1
    """Requests without an answer."""
    done: bool = False
    unhealthy: bool = False
    """Whether it holds one of the slots that lanes not fully healthy share."""
    targets: Sequence[Target] = ()
    failures: list[FailedTry] | None = None

    def choose(self, targets: Sequence[Target]) -> list[Target]:
        """Those of a lane's URLs that are to be tried."""
        return [target for target in targets if self.urls >> target.index & 1] or list(targets)

    def needs_nobody(self) -> bool:
        """Return whether, by what was answered before, there is nothing left to ask for: all that the event was to be
        accepted by have answered, or are no more; or one has accepted it, where one is enough."""
        if self.lane.to_all:
            return not self.urls & ALL_URLS
        silent = ~(self.urls | self.urls >> WEBHOOKS_MAX) & (1 << len(self.lane.targets)) - 1
        return self.urls & ACCEPTED > 0 and silent > 0

    def has_failed(self, target: Target) -> bool:
        """Return whether the URL has failed in this attempt."""
        return any(failed.target.is_as(target) for failed in self.failures or ())

    def not_failed(self) -> list[Target]:
        """Return the URLs to be tried that have not failed in this attempt."""
        return [target for target in self.choose(self.lane.targets) if not self.has_failed(target)]
