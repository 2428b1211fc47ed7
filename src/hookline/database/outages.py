"""What is wrong with the databases of this process, by database and kind: said once when it begins and once when it is
over.

A server that is away is looked for (``postgres.presence``), which says when it is back. Of everything else is known
only that somebody met it: it is over when nobody has met it for a while.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hookline.telemetry.log import logger

QUIET_SECONDS = 15.0
"""Who writes waits 5 s for a lock, and the slowest of those who try again by themselves does so after another 5 s."""
POLL_SECONDS = 0.5
SERVER = "PostgreSQL"
"""What is away when it is no single database."""


class Trouble(Protocol):
    """Hold what somebody met: a DatabaseAway of one of its kinds, whose text is the reason."""

    kind: str
    code: str
    next_step: str


@dataclass(slots=True)
class Outage:
    """One that is not over; times are the monotonic clock's."""

    database: str
    trouble: Trouble
    since: float
    seen: float
    lasts: Callable[[str], bool]
    """Asks whether a trouble of this kind is there still."""

    @property
    def kind(self) -> str:
        """Of what kind it is."""
        return self.trouble.kind


def _unknown(_: str) -> bool:
    return False


class Outages:
    """Those of a process; safe to share between threads, and anybody may look."""

    def __init__(self) -> None:
        self.ended = 0
        """How often the server was away, and is back."""
        self.last_seconds = 0.0
        """For how long it was the last time."""
        self._open: dict[tuple[str, str], Outage] = {}
        self._lock = threading.Lock()
        self._watched = False

    @property
    def is_away(self) -> bool:
        """Return whether the server cannot be reached right now."""
        return any(outage.kind == "away" for outage in self.current())

    def current(self) -> list[Outage]:
        """Those that are not over, the longest first."""
        return list(self._open.values()) if self._open else []

    def codes(self) -> dict[str, bool]:
        """Return the codes of those that are not over, as what keeps a role from its work."""
        return {outage.trouble.code: True for outage in self.current()}

    def gauge(self) -> dict[str, dict[str, int]]:
        """Return the kinds of those that are not over, as a metric."""
        return {"kind": {outage.kind: 1 for outage in self.current()}}

    def begin(self, away: Trouble) -> None:
        """The server does not answer."""
        self._note(SERVER, away, _unknown)

    def end(self, is_back: bool) -> None:
        """It answers again, or nobody of this process wants it any more."""
        with self._lock:
            outage = self._open.pop((SERVER, "away"), None)
            if outage is not None:
                self.last_seconds = time.monotonic() - outage.since
                self.ended += 1
        if outage is not None and is_back:
            logger().info("database_back", database=SERVER, kind="away", seconds=round(self.last_seconds, 1))

    def note(self, database: str, trouble: Trouble, lasts: Callable[[str], bool] = _unknown) -> None:
        """Somebody could not do what it wanted. ``lasts`` asks whether that is so still, where it can be asked."""
        self._note(database, trouble, lasts)
        with self._lock:
            if self._watched:
                return
            self._watched = True
        threading.Thread(target=self._watch, name="database outages", daemon=True).start()

    def _note(self, database: str, trouble: Trouble, lasts: Callable[[str], bool]) -> None:
        now = time.monotonic()
        with self._lock:
            outage = self._open.get((database, trouble.kind))
            if outage is not None:
                outage.seen = now
                return
            self._open[database, trouble.kind] = Outage(database, trouble, now, now, lasts)
        next_step = f"{trouble.next_step} Hookline then recovers automatically."
        logger().error(trouble.code, database=database, reason=str(trouble), next_step=next_step)

    def _watch(self) -> None:
        """End what nobody meets any more, until there is nothing left."""
        while True:
            time.sleep(POLL_SECONDS)
            now = time.monotonic()
            for outage in self.current():
                if outage.kind != "away" and now - outage.seen >= QUIET_SECONDS:
                    self._look(outage)
            with self._lock:
                if all(kind == "away" for _, kind in self._open):
                    self._watched = False
                    return

    def _look(self, outage: Outage) -> None:
        if outage.lasts(outage.kind):
            outage.seen = time.monotonic()
            return
        with self._lock:
            del self._open[outage.database, outage.kind]
        seconds = round(outage.seen - outage.since, 1)
        logger().info("database_back", database=outage.database, kind=outage.kind, seconds=seconds)


OUTAGES = Outages()
"""Those of this process."""
