"""One of many deliver processes shows itself in the database: that it is there, and which partitions it holds.

Who owns what is the consumer group's and the epochs' to say (decision 26), not these rows'. They are for people, who
cannot see other machines' processes, and for the processes among themselves: in the transaction that writes a row those
of the others are read, and so they agree on what several of them would like to have (decision 36).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.sqlite import engine as sqlite
from hookline.database.upsert import replacing
from hookline.deliver.cluster.worker_state import WorkerState, encode

BEAT_SECONDS = 2.0
GONE_MS = 3_600_000
"""A process that ended without a word is shown as gone for so long."""

CLOSE_SECONDS = 1.0
"""A process that ends does not wait longer for the database to hear of it."""

_PUT = replacing("workers", ("worker",), ("started_at", "seen_at", "state"))


class Row(NamedTuple):
    """What another process said last."""

    worker: str
    seen_ms: int
    state: str


class Owned(NamedTuple):
    """Who has taken a partition last."""

    partition: int
    epoch: int
    worker: str


class Party(Protocol):
    """Whoever speaks in a worker's row; all on the heartbeat's thread."""

    def tell(self) -> WorkerState:
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
        """What is held has changed: say so now."""
        self._wake.set()

    def close(self) -> None:
        """End, and take the row away where the database can be reached; idempotent."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def beat(self, connection: Connection) -> float:
        """Write the row once, and drop those of processes that have been gone for long; return when to do it again."""
        mine = self._party.tell()
        connection.execute("BEGIN IMMEDIATE")
        try:
            query = "SELECT worker, seen_at, state FROM workers WHERE worker <> ?"
            others = [Row(*row) for row in connection.execute(query, (self._worker,))]
            owned = [Owned(*row) for row in connection.execute("SELECT partition, epoch, worker FROM owned")]
            now_ms = self._now_ms()
            text = encode(self._party.agree(mine, others, owned))
            connection.execute(_PUT, (self._worker, self._started_ms, now_ms, text))
            # By clocks that may differ: who owns something, and so may hold a share, is there or will be missed.
            owners = {each.worker for each in owned}
            for row in others:
                if row.seen_ms < now_ms - GONE_MS and row.worker not in owners:
                    connection.execute("DELETE FROM workers WHERE worker = ?", (row.worker,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
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
