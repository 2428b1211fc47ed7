"""Open sessions with a server as its URL says, in the one way, with bounds on waiting for what it may never answer.

Nothing of a session is asked for here (``options``): a pooler before the server would refuse it, and a URL of several
hosts would take what only reads for a standby. It is set by the session's first statement. That is also what
tells whether there is a server: a pooler takes newcomers with nobody behind it.

A server that is frozen, or behind a cut cable, closes nothing, and a statement may rightly take long: so a quiet one is
no reason to give it up, and a server that has no session for a newcomer is.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from hookline.database.postgres.dialect import translating

CONNECT_SECONDS_MAX = 5
SILENCE_MS_MAX = 10_000
"""A server that does not acknowledge what was sent for so long is taken for gone."""


def conninfo(url: str, application: str) -> str:
    """Return what the client library is told; raise OperationalError for a URL that cannot be read."""
    with translating():
        given = conninfo_to_dict(url)
    several = "," in f"{given.get('host', '')}{given.get('hostaddr', '')}"
    if several and given.get("target_session_attrs", "any") == "any":
        given["target_session_attrs"] = "primary"  # any would stay with a standby that answers first
    defaults: dict[str, Any] = {
        "connect_timeout": CONNECT_SECONDS_MAX,
        "tcp_user_timeout": SILENCE_MS_MAX,
        "keepalives_idle": SILENCE_MS_MAX // 1000,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "application_name": application,
    }
    return make_conninfo(**{**defaults, **given, "client_encoding": "UTF8"})


def without_password(url: str) -> str:
    """Host, port and name of the database, for people."""
    given = conninfo_to_dict(url)
    return f"{given.get('dbname', '')} at {given.get('host', 'this machine')}:{given.get('port', '5432')}"


ResultT = TypeVar("ResultT")

QUIET_SECONDS = 5.0
"""From one look at the server to the next while no answer comes, and the longest wait for a new session."""


class RetryingConnection(psycopg.Connection[tuple[object, ...]]):
    """``address`` is what it was connected by, empty until its session has begun."""

    address = ""
    has_rested = False
    """Say whether it lay in a pool, where nothing shows that it breaks."""

    @classmethod
    def open(cls, address: str, settings: Mapping[str, str | int | None] | None = None, **how: Any) -> Self:
        """Open a session as ``open_session`` does."""
        given = settings or {}
        resets = [f"RESET {name}" for name, value in given.items() if value is None]
        values = [f"set_config('{name}', '{value}', false)" for name, value in given.items() if value is not None]
        text = "; ".join([*resets, f"SELECT {', '.join(values) or 1}"])
        session = cls.connect(address, autocommit=True, **how)
        try:
            session.execute(text.encode(), prepare=False)
        except BaseException:
            session.close()
            raise
        session.address = address
        return session

    def wait(self, gen: Generator[Any, Any, ResultT], *arguments: Any, **options: Any) -> ResultT:
        """As psycopg's, which runs the generator; raise OperationalError, closed, when the server is gone."""
        return super().wait(self._watched(gen), *arguments, **options)

    def _watched(self, gen: Generator[Any, Any, ResultT]) -> Generator[Any, Any, ResultT]:
        looked = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() - looked >= QUIET_SECONDS:
                    self._look()
                    looked = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as done:
            result: ResultT = done.value
            return result

    def _look(self) -> None:
        try:
            if not self.address:
                raise psycopg.OperationalError(
                    f"no session within {QUIET_SECONDS:g} s: the server stands still, or a pooler before it has none"
                    " to give"
                )
            type(self).open(self._same_server()).close()
        except psycopg.OperationalError:
            self.close()
            raise

    def _same_server(self) -> str:
        """Of several hosts another one may answer."""
        info = self.info
        return make_conninfo(self.address, host=info.host, hostaddr=info.hostaddr or None, port=info.port)


def open_session(
    address: str, settings: Mapping[str, str | int | None] | None = None, **how: Any
) -> RetryingConnection:
    """Connect, set what the session needs, and return it; raise psycopg's errors.

    ``settings`` are names and values of the server's parameters, written by us; None is what the database, the role or
    the server has, now and when that is changed. ``how`` goes to psycopg.
    """
    return RetryingConnection.open(address, settings, **how)
