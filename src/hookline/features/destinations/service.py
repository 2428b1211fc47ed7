"""Tell how destinations are and were, and end the lanes of those that are disabled."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.api.services import Services, part
from hookline.beats import next_beat
from hookline.connections.model import Destination, LaneConfig, Offsets, Pause
from hookline.connections.state import decode_object
from hookline.connections.store import ChangeRefused, Store
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, engine
from hookline.features.connections.service import journal_ends
from hookline.journal.port import JournalError
from hookline.outcomes.reader import DeliverReader
from hookline.replays.model import ReplayRequest, replay_id
from hookline.settings import Settings
from hookline.telemetry.log import logger

_lane = msgspec.json.Decoder(LaneConfig).decode
_offsets = msgspec.json.Decoder(Offsets).decode
_request = msgspec.json.Decoder(ReplayRequest).decode


class DestinationPast:
    """Reads the control database; safe to share between threads."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._lock = threading.Lock()

    def lanes(self, destination: str) -> dict[int, str | None]:
        """Return every lane's number, with the id of the replay whose lane it is."""
        query = "SELECT DISTINCT lane FROM objects WHERE kind = 'destination' AND id = ? AND lane IS NOT NULL"
        found: dict[int, str | None] = {_lane(lane).number: None for (lane,) in self._rows(query, destination)}
        for lane, request in self._rows("SELECT lane, request FROM replays"):
            if _request(request).destination == destination:
                found[lane] = replay_id(lane)
        return found

    def streams(self, destination: str) -> list[tuple[LaneConfig, Offsets | None]]:
        """Return every state of its lanes, each with the journal's ends when it ended; None if it is in force."""
        query = (
            "SELECT o.lane, v.ends FROM objects AS o LEFT JOIN versions AS v ON v.version = o.until"
            " WHERE o.kind = 'destination' AND o.id = ? AND o.lane IS NOT NULL ORDER BY o.since"
        )
        return [
            (_lane(lane), None if ends is None else _offsets(ends)) for lane, ends in self._rows(query, destination)
        ]

    def changes(self, destination: str) -> list[int]:
        """Return when each of its versions came into force, ascending by the clock."""
        query = (
            "SELECT v.at FROM objects AS o JOIN versions AS v ON v.version = o.since"
            " WHERE o.kind = 'destination' AND o.id = ? ORDER BY v.at"
        )
        return [at for (at,) in self._rows(query, destination)]

    def at(self, destination: str, at_ms: int, lane: int) -> Destination | None:
        """Return the destination as it was when a lane of it sent something; None when it is not known at all.

        What deliver learns of a change comes a moment after it, so this may be off by a fraction of a second.
        """
        query = (
            "SELECT document FROM objects AS o JOIN versions AS v ON v.version = o.since WHERE kind = ? AND o.id = ?"
        )
        rows = self._rows(query + " AND v.at <= ? ORDER BY since DESC LIMIT 1", "destination", destination, at_ms)
        if not rows:  # what was sent in the millisecond of the first version, on a clock that was set since
            rows = self._rows(query + " ORDER BY since LIMIT 1", "destination", destination)
        if not rows:
            return None
        found: Destination = decode_object("destination", rows[0][0])
        asked = self._rows("SELECT request FROM replays WHERE lane = ?", lane)
        return replace(found, filters=()) if asked and _request(asked[0][0]).ignore_filters else found

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._database.close()

    def _rows(self, query: str, *values: str | int) -> list[Any]:
        with self._lock:
            connection = self._database.open()
            return [] if connection is None else connection.execute(query, values).fetchall()


POLL_SECONDS = 1.0
RESUMED_SECONDS = 10.0
"""After a resume, what deliver still has on record is from before it."""
REASON = "every URL answered 410 Gone; correct the URLs, then resume"


class LaneWatch:
    """Looks at the lanes' rows about once a second; there are rows only for lanes that are not simply healthy."""

    def __init__(self, settings: Settings, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._store = store
        self._monotonic = monotonic
        self._resumed: dict[str, float] = {}
        self._drained: dict[int, set[int]] = {}
        self._deliver = DeliverReader(location_of(settings, "deliver"))

    def resumed(self, destination: str) -> None:
        """A person has resumed it a moment ago."""
        self._resumed[destination] = self._monotonic()

    async def run_forever(self) -> None:
        """Look once a second until cancelled."""
        while True:
            await next_beat(POLL_SECONDS)
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
                with suppress(ChangeRefused):  # deleted in between
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
        self._deliver.close()

    def _lanes(self) -> tuple[set[int], dict[int, set[int]]]:
        """Return the lanes that deliver says are gone, and the partitions in which it says that one is drained."""
        gone: set[int] = set()
        drained: dict[int, set[int]] = {}
        for row in self._deliver.lanes_in("gone", "drained"):
            if row.state == "gone":
                gone.add(row.lane)
            else:
                drained.setdefault(row.lane, set()).add(row.partition)
        return gone, drained


@part
def destination_past(services: Services) -> DestinationPast:
    """Return destinations as they were."""
    return DestinationPast(location_of(services.settings, "control"))


@part
def lane_watch(services: Services) -> LaneWatch:
    """Return what watches lanes that are to end."""
    return LaneWatch(services.settings, services.store)
