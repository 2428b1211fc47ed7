"""The calls of clients that have a session of their own, and what they tell of it."""

from __future__ import annotations

from typing import Any

from hookline_client.options import Options
from hookline_client.receipts import Stats
from hookline_client.session import Session
from hookline_client.verbs import Verbs


class SessionVerbs(Verbs):
    """The six calls go to ``_session``, which goes on without the client until what it queued is sent."""

    _session: Session | None = None
    """None until ``__init__`` has made it, so for good when that raised."""

    @property
    def options(self) -> Options:
        """The options in force."""
        return self._living.options

    @property
    def stats(self) -> Stats:
        """How many events were queued, accepted and lost since the client was made, in this process."""
        return self._living.ledger.stats()

    def __del__(self) -> None:
        if self._session is not None:
            self._session.abandon()

    def _call(self, kind: str, given: tuple[object, ...], fields: dict[str, Any]) -> str | None:
        return self._living.call(kind, given, fields)

    @property
    def _living(self) -> Session:
        assert self._session is not None  # None only when __init__ raised
        return self._session
