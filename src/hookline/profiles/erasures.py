"""Follows control's erasures, as deliver does: takes the people of each out of the database and answers there.

Control has overwritten their events in the journal before, so nothing that is read later brings them back.
"""

from __future__ import annotations

from hookline.database.sqlite import DatabaseNotMade
from hookline.privacy.erasure_feed import Erasure, ErasureFeed
from hookline.profiles.courtesy import OrdinaryThread
from hookline.profiles.erasing import Erasing
from hookline.profiles.ingest import Ingest
from hookline.profiles.store import ProfileStore
from hookline.profiles.sync import Sync
from hookline.telemetry.crashpoints import crash_point
from hookline.telemetry.log import logger


class Erasures:
    """Used from the thread of the one writer, which may have stepped back before everybody else; people are erased at
    the priority it had when this was made."""

    def __init__(self, store: ProfileStore, ingest: Ingest, sync: Sync, feed: ErasureFeed) -> None:
        self._thread = OrdinaryThread()
        self._store = store
        self._ingest = ingest
        self._sync = sync
        self._feed = feed
        self._waiting: list[Erasure] = []

    def look(self) -> bool:
        """Look what is wanted; return whether there is something that was not at the last look."""
        try:
            wanted = self._feed.poll()
        except DatabaseNotMade:  # nobody could ask for one yet
            return False
        if wanted is None:
            return False
        self._waiting = [erasure for erasure in wanted if not self._store.has_erased(erasure.key)]
        return bool(self._waiting)

    def follow(self, now_ms: int) -> bool:
        """Carry out the oldest that is wanted; return whether there was one. One that fails, or whose bytes are still
        in the log because somebody reads there, is carried out again at the next look."""
        self.look()
        if not self._waiting:
            return False
        self._thread.run(lambda: self._carry_out(self._waiting[0], now_ms))
        return True

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.close()

    def _carry_out(self, erasure: Erasure, now_ms: int) -> None:
        self._erase(erasure)
        if self._store.empty_log():
            crash_point("profiles.erased_before_answer")
            query = 'UPDATE erasures SET done_at = ? WHERE request = ? AND asked_at = ? AND "round" = ?'
            self._store.connection.execute(query, (now_ms, *erasure.key))
            self._waiting.pop(0)
            logger().info("erased", request=erasure.request, round=erasure.round)

    def _erase(self, erasure: Erasure) -> None:
        ids = self._feed.ids(erasure.request)
        with self._store.transaction() as execute:
            erased = Erasing(self._store, execute, erasure.places).erase(ids)
            execute(
                'INSERT INTO erasures VALUES (?, ?, ?, ?, ?, NULL) ON CONFLICT (request, asked_at, "round")'
                " DO UPDATE SET people = erasures.people + excluded.people,"
                " entries = erasures.entries + excluded.entries",
                (*erasure.key, *erased),
            )
        self._ingest.forget()
        self._sync.begin_again()
