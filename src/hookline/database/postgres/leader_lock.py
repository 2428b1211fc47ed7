"""One process of a role at a time on a database, over all machines: the one whose session holds the role's lock.

The lock goes with its session: when the process ends or stands still, and when the server does. Whoever waits for it
stands by, with nothing of the database in memory. Who lost it and finds that another has it is told to end, as if by
hand; until it hears of that, what it writes is refused (``fence``).
"""

from __future__ import annotations

import os
import signal
import threading

import psycopg

from hookline.database.postgres.dialect import translating
from hookline.database.postgres.fence import LOCKS, Epoch, Role, begin_epoch, end_epoch
from hookline.database.postgres.schema import MAKING_SPACE
from hookline.database.postgres.sessions import RetryingConnection, conninfo, open_session
from hookline.database.sqlite import engine
from hookline.telemetry.log import logger

POLL_SECONDS = 0.5
"""From one look at the session to the next; who stands by looks half as often, so that after a restart of the server
the one that had the lock is first."""
STILL_SECONDS_MAX = 15.0
"""After so long without a look the server takes the process for stopped, and ends its session."""
_KEEPALIVE = {"tcp_keepalives_idle": 5, "tcp_keepalives_interval": 2, "tcp_keepalives_count": 3}
"""The server notices within seconds that a machine is gone, and not within hours."""


class LeaderLock:
    """``take`` until it is had, then ``keep``; ``close`` lets the next one have it."""

    def __init__(self, url: str, role: Role) -> None:
        self._url = url
        self._role = role
        self._conninfo = conninfo(url, f"hookline {role} turn")
        # Taking a turn over waits until what the last one left open has ended.
        self._settings = {"idle_session_timeout": int(STILL_SECONDS_MAX * 1000), "lock_timeout": 0, **_KEEPALIVE}
        self._epoch: Epoch | None = None
        self._session: RetryingConnection | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"{role}-turn", daemon=True)

    def take(self) -> bool:
        """Take the lock if nobody has it, and nobody had it since this process first took it; raise DatabaseAway while
        the server cannot be reached."""
        with translating():
            if self._session is None or self._session.closed:
                self._session = open_session(self._conninfo, self._settings)
            row = self._session.execute(
                "SELECT pg_try_advisory_lock(%s, %s)", (MAKING_SPACE, LOCKS[self._role])
            ).fetchone()
            if row != (True,):
                return False
            if self._epoch is None:
                self._epoch = begin_epoch(self._session, self._url, self._role)
                return True
            return self._session.execute(self._epoch.found.encode()).fetchone() is not None

    def keep(self) -> None:
        """Look after it in a thread from now on: after an outage take it again, and end the process when it is gone."""
        self._thread.start()

    def close(self) -> None:
        """Let it go; idempotent."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._session is not None:
            self._session.close()
        if self._epoch is not None:
            end_epoch(self._url, self._epoch)

    def _keep(self) -> None:
        while not self._closing.wait(POLL_SECONDS):
            try:
                if not self._holds() and not self.take():
                    logger().error("turn_lost", role=self._role, next_step="another process has it; this one ends")
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
            except engine.Error:
                continue  # nobody can write meanwhile, and whoever comes first has it then

    def _holds(self) -> bool:
        if self._session is None or self._session.closed:
            return False
        try:
            self._session.execute("SELECT 1")
        except psycopg.Error:
            # Only with its session the lock goes; that a statement took too long says nothing of it.
            return not self._session.closed
        return True
