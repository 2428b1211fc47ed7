"""Destinations that keep failing: breakers that stay open."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment

ATTEMPTS_LOOKED_AT_MAX = 500
"""Failed attempts read, newest first, to say why breakers are open."""


class Breakers:
    """Reads deliver's report, and its database only when there is something to say."""

    kinds = ("destination_breaker_open",)

    def __init__(self, location: DatabaseLocation, open_seconds: float) -> None:
        self._database = ReadOnly(location)
        self._open_ms = open_seconds * 1000
        self._since_ms: dict[str, int] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Breakers open for longer than the threshold; a pause is told otherwise."""
        if moment.open_breakers is None:
            return None
        is_open = moment.open_breakers - moment.pauses.keys()
        self._since_ms = {id: self._since_ms.get(id) or self._first_seen(id, moment) for id in is_open}
        due = [id for id, since in self._since_ms.items() if moment.now_ms - since >= self._open_ms > 0]
        if not due:
            return ()
        connection = self._database.open()
        last = _last_attempts(connection, moment.lanes) if connection is not None else {}
        return [self._finding(id, last.get(id, "no attempt succeeded")) for id in sorted(due)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()

    def _first_seen(self, id: str, moment: Moment) -> int:
        known = moment.notices.get((self.kinds[0], id))
        # A notice is opened when the breaker has been open for the threshold: a restart must not begin to count anew.
        return known.opened_at_ms - int(self._open_ms) if known is not None else moment.now_ms

    def _finding(self, id: str, why: str) -> Finding:
        return Finding(self.kinds[0], id, f"{why}, since {iso(self._since_ms[id])}")


def _last_attempts(connection: Connection, lanes: dict[int, str]) -> dict[str, str]:
    """Return the latest failure of each destination among the newest, in words."""
    rows = connection.execute(
        "SELECT lane, outcome, http_status FROM attempts WHERE outcome != 'success' ORDER BY id DESC LIMIT ?",
        (ATTEMPTS_LOOKED_AT_MAX,),
    ).fetchall()
    found: dict[str, str] = {}
    for lane, outcome, status in rows:
        if lane in lanes:
            found.setdefault(
                lanes[lane],
                f"{outcome.replace('_', ' ')} {status or ''}".strip(),
            )
    return found
