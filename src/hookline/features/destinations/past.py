"""What a destination was at some time, and the lanes it ever had: its own, and those of replays to it."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from msgspec.structs import replace

from hookline.connections.model import Destination, LaneConfig
from hookline.connections.state import decode_object
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.replays.model import ReplayRequest, replay_id

_lane = msgspec.json.Decoder(LaneConfig).decode
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
