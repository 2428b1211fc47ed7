"""Dead letters growing: how many each destination got within the last hour, counted as they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.features.notices.conditions.finding import Finding, Moment

WINDOW_MS = 3_600_000
STEP_MS = 60_000
"""The hour is counted in minutes."""
FIRST_LOOK_ROWS_MAX = 200_000
"""Rows of the last hour read when control starts."""


class DeadLetters:
    """Reads only rows that are new since the last look."""

    kinds = ("dead_letters_growing",)

    def __init__(self, location: DatabaseLocation, threshold: int) -> None:
        self._database = ReadOnly(location)
        self._threshold = threshold
        self._last_id: int | None = None
        # Per destination: minute, lowest id of that minute, count.
        self._minutes: dict[str, deque[tuple[int, int, int]]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Destinations with too many; half as many keep a notice open."""
        connection = self._database.open()
        if not self._threshold:
            return ()
        if connection is None:
            return None
        self._read(connection, moment.now_ms)
        self._forget(moment.now_ms - WINDOW_MS)
        found = []
        for destination in sorted(self._minutes.keys() & moment.enabled):
            minutes = self._minutes[destination]
            if sum(count for _, _, count in minutes) * 2 < self._threshold:
                continue
            count = _still_there(connection, destination, minutes[0][1])
            if count * 2 >= self._threshold:
                detail = f"{count:,} events not delivered within an hour".replace(",", "\u202f")
                found.append(Finding(self.kinds[0], destination, detail, count, weak=count < self._threshold))
        return found

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()

    def _read(self, connection: Connection, now_ms: int) -> None:
        ((newest,),) = connection.execute("SELECT coalesce(max(id), 0) FROM dead_letters").fetchall()
        after = max(0, newest - FIRST_LOOK_ROWS_MAX) if self._last_id is None else self._last_id
        self._last_id = max(newest, self._last_id or 0)
        if newest <= after:
            return
        rows = connection.execute(
            "SELECT destination, at / ? AS minute, min(id), count(*) FROM dead_letters"
            " WHERE id > ? AND id <= ? AND at >= ? GROUP BY destination, minute ORDER BY minute",
            (STEP_MS, after, newest, now_ms - WINDOW_MS),
        )
        for destination, minute, first_id, count in rows.fetchall():
            self._minutes.setdefault(destination, deque()).append((minute, first_id, count))

    def _forget(self, before_ms: int) -> None:
        for destination, minutes in list(self._minutes.items()):
            while minutes and minutes[0][0] * STEP_MS < before_ms:
                minutes.popleft()
            if not minutes:
                del self._minutes[destination]


def _still_there(connection: Connection, destination: str, first_id: int) -> int:
    """Return what a breaker took back when it opened does not count."""
    query = "SELECT count(*) FROM dead_letters WHERE destination = ? AND id >= ? AND status <> 'discarded'"
    ((count,),) = connection.execute(query, (destination, first_id)).fetchall()
    return int(count)
