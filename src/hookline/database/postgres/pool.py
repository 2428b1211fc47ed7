"""The connections of one process to one schema: few, opened when they are needed, given from hand to hand.

While the server does not answer, nobody waits for it: everything that would need a new connection fails at once, and
one thread looks whether it is back. So an event loop that asks the database stands still for one attempt and not for
each.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Literal, NamedTuple

import psycopg

from hookline.database.location import Schema
from hookline.database.outages import OUTAGES, Outages
from hookline.database.postgres.commit_mark import look_back
from hookline.database.postgres.dialect import ADAPTERS, as_ours, translating
from hookline.database.postgres.requirements import is_unusable
from hookline.database.postgres.sessions import RetryingConnection, conninfo, open_session
from hookline.database.sqlite import (
    BUSY_TIMEOUT_SECONDS,
    READ_TIMEOUT_SECONDS,
    DatabaseAway,
    DatabaseLocked,
    DatabaseReadOnly,
    engine,
)

POLL_SECONDS = 0.25


class ServerHealth:
    """One for each URL of a process; safe to share between threads. It looks while somebody draws on its pools."""

    def __init__(self, url: str, outages: Outages) -> None:
        self.users = 0
        self._address = conninfo(url, "hookline")
        self._outages = outages
        self._reason = ""
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise DatabaseAway while the server is known to be away."""
        if self._reason:
            raise DatabaseAway(self._reason)

    def went(self, reason: str) -> None:
        """A connection could not be made; idempotent."""
        with self._lock:
            if self._reason:
                return
            self._reason = reason
            self._outages.begin(DatabaseAway(reason))
        threading.Thread(target=self._look, name="database presence", daemon=True).start()

    def _look(self) -> None:
        is_back = False
        while self.users and not (is_back := self._answers()):
            time.sleep(POLL_SECONDS)
        with self._lock:
            self._reason = ""
            self._outages.end(is_back)

    def _answers(self) -> bool:
        try:
            open_session(self._address).close()
        except psycopg.Error as error:
            self._reason = str(as_ours(error))
            return False
        return True


CONNECTIONS_MAX = 8
"""Of one kind to one schema; who needs another one waits for it."""

TRANSACTION_IDLE_SECONDS_MAX = 10.0
"""For how long a transaction may ask for nothing before the server ends it: a process that stands still, or a machine
that is gone, would keep everybody else from writing to the schema."""

Real = RetryingConnection


class PoolBusy(DatabaseLocked):
    """Other threads of this process hold all connections of a pool for longer than one waits."""

    next_step = "See what the server does with this process's sessions: SELECT * FROM pg_stat_activity."


class Kind(NamedTuple):
    """To what, and how, its connections are opened."""

    schema: Schema
    read_only: bool
    synchronous: Literal["FULL", "NORMAL"]


class Pool:
    """Safe to share between threads."""

    def __init__(self, kind: Kind, health: ServerHealth) -> None:
        self.kind = kind
        self.presence = health
        self.users = 0
        """Connections of the rooms that draw on it."""
        self._conninfo = conninfo(kind.schema.url, f"hookline {kind.schema.which}")
        self._settings = _settings(kind)
        self._idle: list[Real] = []
        self._open = 0
        self._changed = threading.Condition()

    def borrow(self) -> Real:
        """Return a connection that nobody else uses until it is given back; raise DatabaseAway when there is none."""
        end = time.monotonic() + BUSY_TIMEOUT_SECONDS
        with self._changed:
            while not self._idle and self._open >= CONNECTIONS_MAX:
                if not self._changed.wait(end - time.monotonic()):
                    busy = PoolBusy(f"all {CONNECTIONS_MAX} connections of this process to it are in use")
                    OUTAGES.note(self.kind.schema.name, busy)
                    raise busy
            if self._idle:
                return self._idle.pop()
            self._open += 1
        try:
            self.presence.check()
            with translating():
                real = open_session(self._conninfo, self._settings, cursor_factory=psycopg.RawCursor, context=ADAPTERS)
        except DatabaseAway as away:
            self._forget_one()
            self.presence.went(str(away))
            raise
        except BaseException:
            self._forget_one()
            raise
        try:
            with translating():
                look_back(real, self.kind.schema.url)
        except BaseException:
            real.close()
            self._forget_one()
            raise
        return real

    def give_back(self, real: Real) -> None:
        """Somebody else may have it, unless it is broken or in the middle of something."""
        if real.closed or real.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            real.close()
            self._forget_one()
            return
        real.has_rested = True
        with self._changed:
            self._idle.append(real)
            self._changed.notify()

    def met(self, error: psycopg.Error) -> engine.Error:
        """Return the error of ours that a statement met; one that passes is noted."""
        ours = as_ours(error)
        # Who opened it to read only asked for it; that a session broke is found out with the next one.
        asked_for = self.kind.read_only and isinstance(ours, DatabaseReadOnly)
        if isinstance(ours, DatabaseAway) and ours.kind != "away" and not asked_for:
            OUTAGES.note(self.kind.schema.name, ours, partial(is_unusable, self.kind.schema))
        return ours

    def close_idle(self) -> None:
        """Close those that nobody uses: the server went, or nobody draws on the pool any more."""
        with self._changed:
            closed, self._idle = self._idle, []
            self._open -= len(closed)
            self._changed.notify_all()
        for real in closed:
            real.close()

    def _forget_one(self) -> None:
        with self._changed:
            self._open -= 1
            self._changed.notify()


_pools: dict[Kind, Pool] = {}
_healths: dict[str, ServerHealth] = {}
_lock = threading.Lock()


def join(kind: Kind) -> Pool:
    """Return the process's pool of a kind; whoever joins leaves it again."""
    with _lock:
        pool = _pools.get(kind)
        if pool is None:
            url = kind.schema.url
            pool = _pools[kind] = Pool(kind, _healths.setdefault(url, ServerHealth(url, OUTAGES)))
        pool.users += 1
        pool.presence.users += 1
        return pool


def leave(pool: Pool) -> None:
    """The last one closes the connections."""
    with _lock:
        pool.users -= 1
        pool.presence.users -= 1
        if not pool.presence.users:
            del _healths[pool.kind.schema.url]
        if pool.users:
            return
        del _pools[pool.kind]
    pool.close_idle()


def _settings(kind: Kind) -> dict[str, str | int | None]:
    """Return what a session is given: each of them, for a pooler may have had others in it before."""
    return {
        "search_path": kind.schema.name,
        "lock_timeout": int((READ_TIMEOUT_SECONDS if kind.read_only else BUSY_TIMEOUT_SECONDS) * 1000),
        "idle_in_transaction_session_timeout": int(TRANSACTION_IDLE_SECONDS_MAX * 1000),
        "default_transaction_read_only": "on" if kind.read_only else None,
        "synchronous_commit": "off" if kind.synchronous == "NORMAL" else "on",
    }
