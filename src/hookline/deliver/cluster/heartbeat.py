"""Show one of many deliver processes in the database: that it is there, and what it tells of itself.

By these rows the processes agree on a receiver's limits and learn of its outages (``agreement``).

Who owns what is the consumer group's and the epochs' to say (decision 26), not these rows'. They are for people, who
cannot see other machines' processes, and for the processes among themselves: in the transaction that writes a row those
of the others are read, and so they agree on what several of them would like to have (decision 36).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec

from hookline.database.connect import connect
from hookline.database.connection import Connection, replacing, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import engine as sqlite

BREAKERS_MAX = 1_000
"""Destinations named; of more than that one need not know which."""


class Share(msgspec.Struct, frozen=True, array_like=True):
    """Hold what a process holds of a lane's limits, and what it could use.

    ``at_once`` and ``part`` (of the rate, 1.0 is all) nobody else may have. ``most`` is the lane's own limit of
    requests at once, 0 for none. ``turn_seconds`` is for how long it has waited for a first request at once; below
    zero, for how long it has had some.
    """

    most: int
    at_once: int
    wants: int
    turn_seconds: float
    part: float
    needs: float


class BreakerFound(msgspec.Struct, frozen=True, array_like=True):
    """Hold what a process found out about a receiver: that it is down, back, or about to fail (``narrow``).

    ``outage`` numbers what was found, so that all know which end belongs to which begin. ``probes`` is how often this
    process has asked since, ``can_probe`` whether it has something to ask with, ``age_ms`` how long ago it began.
    """

    outage: int
    state: Literal["open", "over", "narrow"]
    probes: int
    can_probe: bool
    age_ms: int
    reason: str


class WorkerState(msgspec.Struct, frozen=True, rename="camel"):
    """The epoch of each partition that it holds, and the destinations whose breaker is open there.

    ``alone``: it owns every partition, and holds all of every limit. Otherwise ``shares`` and ``breakers`` are by
    lane, and ``weight`` is how many partitions it goes on with.
    """

    epochs: dict[str, int] = {}
    open_breakers: list[str] = []
    alone: bool = False
    weight: int = 0
    shares: dict[int, Share] = {}
    breakers: dict[int, BreakerFound] = {}


def encode(state: WorkerState) -> str:
    """As text."""
    return msgspec.json.encode(state).decode()


decode = msgspec.json.Decoder(WorkerState).decode


BEAT_SECONDS = 2.0
GONE_MS = 3_600_000
"""A process that ended without a word is shown as gone for so long."""

CLOSE_SECONDS = 1.0
"""A process that ends does not wait longer for the database to hear of it."""

_PUT = replacing("workers", ("worker",), ("started_at", "seen_at", "state"))


class Row(NamedTuple):
    """Hold what another process said last."""

    worker: str
    seen_ms: int
    state: str


class Owned(NamedTuple):
    """Say who has taken a partition last."""

    partition: int
    epoch: int
    worker: str


class Party(Protocol):
    """Whoever speaks in a worker's row; all on the heartbeat's thread."""

    def report(self) -> WorkerState:
        """Return how things are now."""

    def agree(self, mine: WorkerState, others: Sequence[Row], owned: Sequence[Owned]) -> WorkerState:
        """Return what is to be written, in view of what others have written."""

    def agreed(self) -> float:
        """Do what follows, now that it is written; return the seconds until the next beat."""


class Heartbeat:
    """Writes this worker's row in a thread of its own."""

    def __init__(
        self, location: DatabaseLocation, worker: str, party: Party, clock: Callable[[], float] = time.time
    ) -> None:
        self._location = location
        self._worker = worker
        self._party = party
        self._clock = clock
        self._started_ms = self._now_ms()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def beat_soon(self) -> None:
        """Say now that what is held has changed."""
        self._wake.set()

    def close(self) -> None:
        """End, and take the row away where the database can be reached; idempotent."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def beat(self, connection: Connection) -> float:
        """Write the row once, and drop those of processes that have been gone for long; return when to do it again."""
        mine = self._party.report()
        with transaction(connection) as execute:
            query = "SELECT worker, seen_at, state FROM workers WHERE worker <> ?"
            others = [Row(*row) for row in execute(query, (self._worker,))]
            owned = [Owned(*row) for row in execute("SELECT partition, epoch, worker FROM owned")]
            now_ms = self._now_ms()
            text = encode(self._party.agree(mine, others, owned))
            execute(_PUT, (self._worker, self._started_ms, now_ms, text))
            # By clocks that may differ: who owns something, and so may hold a share, is there or will be missed.
            owners = {each.worker for each in owned}
            for row in others:
                if row.seen_ms < now_ms - GONE_MS and row.worker not in owners:
                    execute("DELETE FROM workers WHERE worker = ?", (row.worker,))
        return self._party.agreed()

    def leave(self, connection: Connection) -> None:
        """Take the row away."""
        connection.execute("DELETE FROM workers WHERE worker = ?", (self._worker,))

    def _run(self) -> None:
        connection = connect(self._location, synchronous="NORMAL")
        try:
            while not self._closing:
                seconds = self._tried(self.beat, connection)
                self._wake.wait(BEAT_SECONDS if seconds is None else seconds)
                self._wake.clear()
            self._tried(self.leave, connection)
        finally:
            connection.close()

    def _tried(self, work: Callable[[Connection], float | None], connection: Connection) -> float | None:
        try:
            return work(connection)
        except sqlite.Error:
            return None  # the database is away, which its pool has said

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
