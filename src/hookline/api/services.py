"""Give the handlers of the admin API and of the pages the parts they work with, each made when first asked for.

A feature says in its ``service.py`` how its parts are put together, each a function under ``part``; whoever needs one
calls the function with the services. So nothing here knows any feature, and a new one changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from threading import RLock
from typing import Any, TypeVar

from hookline.connections.past import Past
from hookline.connections.store import Store
from hookline.database.connect import Shared
from hookline.database.location import location_of
from hookline.outcomes.reader import DeliverReader
from hookline.settings import Settings

Made = TypeVar("Made")

COUNTED_MAX = 1_000
"""What only shows how much there is, such as dead letters, is counted up to this: pages show many at once."""


class Services:
    """The settings, the connections, and the parts that were asked for; put away in the reverse order."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings = settings
        self.origins: Mapping[str, str] = {}
        """Where each setting came from, by key, where that is known."""
        self.store = store
        self.ready = False
        self._parts: dict[Callable[..., Any], Any] = {}
        self._lock = RLock()  # handlers ask from several threads

    def made(self, make: Callable[[Services], Made]) -> Made:
        """Return what the function makes, the same each time."""
        with self._lock:
            if make not in self._parts:
                self._parts[make] = make(self)
            made: Made = self._parts[make]
        return made

    def close(self) -> None:
        """Give everything back; idempotent."""
        with self._lock:
            while self._parts:
                _, part = self._parts.popitem()  # what was asked for while it was made comes before it, and goes after
                close = getattr(part, "close", None)
                if close is not None:
                    close()


def part(make: Callable[[Services], Made]) -> Callable[[Services], Made]:
    """Have a function make its part once for each ``Services``."""

    @wraps(make)
    def given(services: Services) -> Made:
        return services.made(make)

    return given


@part
def control_database(services: Services) -> Shared:
    """Return the one connection to ``control.db`` that accounts, tokens, sessions and the audit log share."""
    return Shared(location_of(services.settings, "control"))


@part
def deliver_reader(services: Services) -> DeliverReader:
    """Return what deliver wrote down."""
    return DeliverReader(location_of(services.settings, "deliver"))


@part
def list_reader(services: Services) -> DeliverReader:
    """Return the same for lists and counts that may read every row, in a thread: nobody else waits for their lock."""
    return DeliverReader(location_of(services.settings, "deliver"))


@part
def connections_past(services: Services) -> Past:
    """Return connections as they were."""
    return Past(location_of(services.settings, "control"))
