"""How each destination is doing, from what deliver wrote down; read-only, deliver is its one writer.

Judged over minutes, not by the last answer: receivers restart, and one 503 among many answers is no outage.
"""

from __future__ import annotations

from typing import NamedTuple

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.insights.series_log import Recent

COUNTED_MAX = 1_000
"""Dead letters and retries of one destination are counted up to this: pages show many destinations at once."""
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
