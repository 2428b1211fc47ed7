"""One process of a role at a time on a database, over all machines: the one whose session holds the role's lock.

The lock goes with its session: when the process ends, and when the server does. Whoever waits for it stands by, with
nothing of the database in memory. Who lost it and finds that another has it is told to end, as if by hand.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Literal

import psycopg

from hookline.database.postgres.address import conninfo
from hookline.database.postgres.errors import translating
from hookline.database.postgres.patience import PatientConnection
from hookline.database.postgres.schema import MAKING_SPACE
from hookline.database.sqlite import DatabaseAway
from hookline.telemetry.log import logger

Role = Literal["control", "profiles"]

LOCKS: dict[Role, int] = {"control": 101, "profiles": 102}
"""Beside the numbers of the schemas, and that of the installation."""
LOOK_SECONDS = 0.5
"""From one look at the session to the next; who stands by looks half as often, so that after a restart of the server
the one that had the lock is first."""
_OPTIONS = [f"-c tcp_keepalives_{name}={seconds}" for name, seconds in (("idle", 5), ("interval", 2), ("count", 3))]
"""The server notices within seconds that a machine is gone, and not within hours."""


class Turn:
    """``take`` until it is had, then ``keep``; ``close`` lets the next one have it."""

    def __init__(self, url: str, role: Role) -> None:
        self._role = role
        self._conninfo = conninfo(url, f"hookline {role} turn", _OPTIONS)
        self._session: PatientConnection | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"{role}-turn", daemon=True)

    def take(self) -> bool:
        """Take the lock if nobody has it; raise DatabaseAway while the server cannot be reached."""
        with translating():
            if self._session is None or self._session.closed:
                self._session = PatientConnection.connect(self._conninfo, autocommit=True)
                self._session.address = self._conninfo
            row = self._session.execute(
                "SELECT pg_try_advisory_lock(%s, %s)", (MAKING_SPACE, LOCKS[self._role])
            ).fetchone()
        return row == (True,)

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

    def _keep(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                if not self._holds() and not self.take():
                    logger().error("turn_lost", role=self._role, next_step="another process has it; this one ends")
                    os.kill(os.getpid(), signal.SIGTERM)
                    return
            except DatabaseAway:
                continue  # nobody can write meanwhile, and whoever comes first has it then

    def _holds(self) -> bool:
        if self._session is None or self._session.closed:
            return False
        try:
            self._session.execute("SELECT 1")
        except psycopg.Error:
            self._session.close()
            return False
        return True
