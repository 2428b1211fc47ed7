"""Whether a server answers, as this process last saw it.

While it does not, nobody waits for it: everything that would need a new connection fails at once, and one thread looks
whether it is back. So an event loop that asks the database stands still for one attempt and not for each.
"""

from __future__ import annotations

import threading
import time

import psycopg

from hookline.database.outages import Outages
from hookline.database.postgres.address import conninfo
from hookline.database.postgres.errors import as_ours
from hookline.database.postgres.patience import open_session
from hookline.database.sqlite import DatabaseAway

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
