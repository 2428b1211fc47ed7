"""A destination's failed requests grouped by their cause; read-only, deliver writes them."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import msgspec

from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso

ATTEMPTS_MAX = 10_000
"""Failed requests looked at, the newest ones; where there are more, counts are of these."""
CAUSES_MAX = 50
EXAMPLE_CHARACTERS = 500


class FailureCause(msgspec.Struct, frozen=True, rename="camel"):
    """Failed requests that ended alike; ``example`` is what the newest of them was answered, or why there was none."""

    outcome: str
    http_status: int | None
    count: int
    example: str | None
    url: str | None
    first_at: str
    last_at: str


class Causes(NamedTuple):
    """The causes, most frequent first, and whether every failure of the time was looked at."""

    causes: list[FailureCause]
    complete: bool


class FailureCauses:
    """Safe to share between threads; before deliver's first start there are none."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._lock = threading.Lock()

    def of(self, destination: str, since_ms: int) -> Causes:
        """Return the causes of what failed from a time on."""
        groups = self._rows(
            "SELECT outcome, http_status, count(*) AS failed, min(at), max(at)"
            " FROM (SELECT outcome, http_status, at FROM attempts"
            " WHERE destination = ? AND at >= ? ORDER BY at DESC LIMIT ?) AS newest GROUP BY outcome, http_status"
            " ORDER BY failed DESC, outcome, http_status",
            (destination, since_ms, ATTEMPTS_MAX),
        )
        causes: list[FailureCause] = []
        for outcome, status, count, first_at, last_at in groups[:CAUSES_MAX]:
            # Looked up by itself: reading every answer, only to show one of them, would take most of the time.
            newest = self._rows(
                f"SELECT substr(error, 1, {EXAMPLE_CHARACTERS}), url FROM attempts"
                " WHERE destination = ? AND at = ? AND outcome = ?"
                " AND http_status IS NOT DISTINCT FROM ? LIMIT 1",
                (destination, last_at, outcome, status),
            )
            example, url = newest[0] if newest else (None, None)
            causes.append(FailureCause(outcome, status, count, example or None, url, iso(first_at), iso(last_at)))
        return Causes(causes, sum(group[2] for group in groups) < ATTEMPTS_MAX)

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._database.close()

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock:
            connection = self._database.open()
            return [] if connection is None else connection.execute(query, values).fetchall()
