"""What callers send: events of a few users and sources, some of them sent again with the same messageId."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from hookline.journal.record import FORMAT_VERSION, Record, fingerprint
from hookline.simulation.scheduler import SimulatedClock
from tests.worlds.plan import SOURCES, USERS

RESENT = 0.12
"""How often a caller sends an earlier event again."""
NOT_WANTED = 0.05
"""How often the caller excludes every destination."""
AIMED = 0.1
"""How often an event is for one destination alone, as those of audiences are."""
EVENTS = ("Order", "Heartbeat", "Order", "View")
CARD = b'"card":"4000"'
"""What a filter may take out of a body."""

_TOTAL = re.compile(rb'"total":(\d+)')


def message_id_of(body: bytes) -> str:
    """Return the messageId of what is sent of an event: the one property that no filter takes out tells it."""
    found = _TOTAL.search(body)
    return f"m{found[1].decode()}" if found is not None else ""


class Arrivals:
    """Makes the records of one run; a message has one source and one user, however often it is sent."""

    def __init__(self, rng: random.Random, clock: SimulatedClock, destinations: int) -> None:
        self.rng = rng
        self._clock = clock
        self._destinations = destinations
        self._sent: list[Record] = []
        self._refused: list[Record] = []
        self._count = 0

    def burst(self, count: int) -> list[Record]:
        """So many records that arrive together; what was refused before comes again first."""
        again, self._refused = self._refused[:count], self._refused[count:]
        return [*again, *(self._next() for _ in range(count - len(again)))]

    def refused(self, records: Sequence[Record]) -> None:
        """These were not acknowledged: the caller sends them again later."""
        self._refused += records

    def forget(self, user: str) -> None:
        """Send nothing again that a user has sent up to now."""
        self._sent = [record for record in self._sent if record.user_key != user]
        self._refused = [record for record in self._refused if record.user_key != user]

    def _next(self) -> Record:
        rng = self.rng
        if self._sent and rng.random() < RESENT:
            return rng.choice(self._sent)
        self._count += 1
        source, message_id = rng.choice(SOURCES), f"m{self._count}"
        aimed = rng.random() < AIMED
        event = EVENTS[self._count % len(EVENTS)].encode()
        record = Record(
            FORMAT_VERSION,
            False,
            self._clock.now_ms(),
            source,
            "track",
            message_id,
            fingerprint(source, message_id),
            f"u{rng.randrange(USERS)}",
            "2026-11-20T07:00:00.000Z",
            "audience" if aimed else "sdk",
            b'{"type":"track","event":"%b","userId":"u1","properties":{%b,"total":%d}}' % (event, CARD, self._count),
            selection={"All": False} if not aimed and rng.random() < NOT_WANTED else None,
            to=(f"d{rng.randrange(self._destinations)}",) if aimed else None,
        )
        self._sent.append(record)
        return record
