"""One of many deliver processes shows itself in the database: that it is there, and which partitions it holds.

Nobody decides anything by it: who owns what is the consumer group's and the epochs' to say (decision 26). It is for
people, who cannot see other machines' processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.place import Place
from hookline.database.sqlite import engine as sqlite
from hookline.database.upsert import replacing
from hookline.deliver.worker_state import WorkerState, encode

BEAT_SECONDS = 2.0
GONE_MS = 3_600_000
"""A process that ended without a word is shown as gone for so long."""

CLOSE_SECONDS = 1.0
"""A process that ends does not wait longer for the database to hear of it."""

_PUT = replacing("workers", ("worker",), ("started_at", "seen_at", "state"))


class Heartbeat:
    """Writes this worker's row in a thread of its own, in which ``state`` is asked, too."""

    def __init__(
        self,
        place: Place,
        worker: str,
        state: Callable[[], WorkerState],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._place = place
        self._worker = worker
        self._state = state
        self._clock = clock
        self._started_ms = self._now_ms()
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def hurry(self) -> None:
        """What is held has changed: say so now."""
        self._wake.set()

    def close(self) -> None:
        """End, and take the row away where the database can be reached; idempotent."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(CLOSE_SECONDS)

    def beat(self, connection: Connection) -> None:
        """Write the row once, and drop those of processes that have been gone for long."""
        now_ms = self._now_ms()
        connection.execute(_PUT, (self._worker, self._started_ms, now_ms, encode(self._state())))
        connection.execute("DELETE FROM workers WHERE seen_at < ?", (now_ms - GONE_MS,))

    def leave(self, connection: Connection) -> None:
        """Take the row away."""
        connection.execute("DELETE FROM workers WHERE worker = ?", (self._worker,))

    def _run(self) -> None:
        connection = connect(self._place, synchronous="NORMAL")
        try:
            while not self._closing:
                self._tried(self.beat, connection)
                self._wake.wait(BEAT_SECONDS)
                self._wake.clear()
            self._tried(self.leave, connection)
        finally:
            connection.close()

    def _tried(self, work: Callable[[Connection], None], connection: Connection) -> None:
        try:
            work(connection)
        except sqlite.Error:
            return  # the database is away, which its pool has said

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)
