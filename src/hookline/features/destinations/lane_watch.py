"""What deliver finds out about a lane and control records: every URL is gone, or nothing is left to drain.

A destination whose every URL has answered 410 is paused (DESIGN 6.2); until then deliver parks its events by itself, so
nothing depends on how soon this looks. A disabled one that has got what was accepted before loses its lane.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hookline.connections.model import Pause
from hookline.connections.store import ChangeRefused, Store
from hookline.database.location import location_of
from hookline.database.read_only import ReadOnly
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, engine
from hookline.features.connections.journal_ends import journal_ends
from hookline.journal.port import JournalError
from hookline.settings import Settings
from hookline.telemetry.log import logger

POLL_SECONDS = 1.0
RESUMED_SECONDS = 10.0
"""After a resume, what deliver still has on record is from before it."""
REASON = "every URL answered 410 Gone; mend the URLs, then resume"


class LaneWatch:
    """Looks at the lanes' rows about once a second; there are rows only for lanes that are not simply healthy."""

    def __init__(self, settings: Settings, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._store = store
        self._monotonic = monotonic
        self._resumed: dict[str, float] = {}
        self._drained: dict[int, set[int]] = {}
        self._database = ReadOnly(location_of(settings, "deliver"))

    def resumed(self, destination: str) -> None:
        """A person has resumed it a moment ago."""
        self._resumed[destination] = self._monotonic()

    async def run_forever(self) -> None:
        """Look once a second until cancelled."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            began = self._monotonic()
            try:
                self.look()
            except DatabaseAway:  # it was said; whoever else uses the event loop comes first now
                await asyncio.sleep(LOCKED_REST * (self._monotonic() - began))
            except (engine.Error, OSError, JournalError) as error:
                logger().warning("lane_watch_failed", error=str(error), next_step="it looks again in a second")

    def look(self) -> list[str]:
        """Pause what is gone; return which destinations that were."""
        self._store.catch_up()
        now = self._monotonic()
        self._resumed = {id: at for id, at in self._resumed.items() if now - at < RESUMED_SECONDS}
        gone, drained = self._lanes()
        drained_before, self._drained = self._drained, drained
        paused: list[str] = []
        for stored in self._store.destinations() if gone or drained else ():
            lane, id = stored.lane, stored.object.id
            if lane is not None and lane.until is not None and lane.until.keys() <= drained.get(lane.number, set()):
                if not lane.until.keys() <= drained_before.get(lane.number, set()):
                    continue  # at the next look it is on the disk: a power cut cannot take it back
                self._store.end_drain(id, "hookline", lambda: journal_ends(self._settings))
                logger().info("destination_drained", destination=id)
                continue
            if lane is None or lane.number not in gone or lane.paused is not None or id in self._resumed:
                continue
            pause = Pause(
                since=self._store.now_ms(), steady_since=self._store.steady_ms(), reason=REASON, by="hookline"
            )
            try:
                self._store.pause(id, pause, "hookline", lambda: journal_ends(self._settings))
            except ChangeRefused:
                continue  # deleted or disabled in between
            logger().warning("destination_paused", destination=id, reason=REASON)
            paused.append(id)
        return paused

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()

    def _lanes(self) -> tuple[set[int], dict[int, set[int]]]:
        """Return the lanes that deliver says are gone, and the partitions in which it says that one is drained."""
        gone: set[int] = set()
        drained: dict[int, set[int]] = {}
        connection = self._database.open()
        query = "SELECT state, lane, partition FROM lanes WHERE state IN ('gone', 'drained')"
        for state, lane, partition in connection.execute(query) if connection is not None else ():
            if state == "gone":
                gone.add(lane)
            else:
                drained.setdefault(lane, set()).add(partition)
        return gone, drained
