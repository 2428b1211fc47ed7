"""How each destination is doing, and what fails, as deliver wrote it down."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import msgspec

from hookline.api.listing import COUNTED_MAX
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.insights.series_log import Recent

WINDOW_SECONDS = 300
FAILING_SHARE = 0.1
FAILURES_MIN = 3
"""A destination is failing when as many of its requests in the window have failed, and such a share of them."""
RECENT_ATTEMPTS_MAX = 500
"""Failed attempts looked at for each destination's latest one."""


class Failure(NamedTuple):
    """A destination's latest failed attempt."""

    outcome: str
    http_status: int | None
    error: str | None
    at: str


class Health(NamedTuple):
    """What waits for a destination and what it did not get, each counted up to ``COUNTED_MAX``.

    ``detached`` lanes stand apart from the live stream."""

    detached: bool = False
    retrying: int = 0
    dead_letters: int = 0
    failure: Failure | None = None


def is_failing(recent: Recent, retrying: int) -> bool:
    """Return whether a destination that does not get everything gets too little of it."""
    if not retrying and recent.not_delivered <= 0:
        return False
    requests = recent.delivered + recent.failures
    return not recent.delivered or recent.failures >= max(FAILURES_MIN, FAILING_SHARE * requests)


class DestinationHealth:
    """Reads deliver's database; before deliver's first start every destination is simply well."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)

    def of_lanes(self, lanes: dict[str, int]) -> dict[str, Health]:
        """Return the health of destinations, given the lane number of each that is enabled."""
        connection = self._database.open()
        if connection is None:
            return dict.fromkeys(lanes, Health())
        detached = {lane for (lane,) in connection.execute("SELECT DISTINCT lane FROM lanes")}
        failures = _latest_failures(connection)
        return {
            destination: Health(
                detached=lane in detached,
                retrying=_count(connection, "SELECT 1 FROM retries WHERE lane = ?", lane),
                dead_letters=_count(
                    connection,
                    "SELECT 1 FROM dead_letters WHERE destination = ? AND status <> 'discarded'",
                    destination,
                ),
                failure=failures.get(lane),
            )
            for destination, lane in lanes.items()
        }

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()


def _count(connection: Connection, query: str, value: int | str) -> int:
    ((count,),) = connection.execute(
        f"SELECT count(*) FROM ({query} LIMIT {COUNTED_MAX}) AS counted", (value,)
    ).fetchall()
    return int(count)


def _latest_failures(connection: Connection) -> dict[int, Failure]:
    rows = connection.execute(
        "SELECT lane, outcome, http_status, error, at FROM attempts ORDER BY id DESC LIMIT ?", (RECENT_ATTEMPTS_MAX,)
    ).fetchall()
    latest: dict[int, Failure] = {}
    for lane, outcome, status, error, at in rows:
        if outcome != "success":
            latest.setdefault(lane, Failure(outcome, status, error, iso(at)))
    return latest


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
