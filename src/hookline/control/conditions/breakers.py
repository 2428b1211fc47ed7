"""Destinations that keep failing: breakers open for a while, and receivers that say they are gone (410)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hookline.control.conditions.finding import Finding, Moment
from hookline.control.dead_letter_log import iso
from hookline.control.read_only import ReadOnly
from hookline.database.sqlite import Connection

ATTEMPTS_LOOKED_AT_MAX = 500
"""Failed attempts read, newest first, to say why breakers are open."""
GONE = 410


class Breakers:
    """Reads deliver's report, and its database only while a breaker is open."""

    kinds = ("destination_breaker_open", "destination_paused")

    def __init__(self, data_path: Path, open_seconds: float) -> None:
        self._database = ReadOnly(data_path / "deliver.db")
        self._open_ms = open_seconds * 1000
        self._since_ms: dict[str, int] = {}
        self._gone: set[str] = set()

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Breakers open for longer than the threshold, and those opened by 410 from every URL at once."""
        if moment.open_breakers is None:
            return None
        is_open = moment.open_breakers
        self._since_ms = {id: self._since_ms.get(id) or self._first_seen(id, moment) for id in is_open}
        self._gone &= is_open
        if not is_open:
            return ()
        connection = self._database.open()
        last = _last_attempts(connection, moment.lanes) if connection is not None else {}
        self._gone |= {id for id in is_open if _all_gone(last.get(id, ()))}
        return [self._finding(id, last.get(id, ())) for id in sorted(is_open) if self._is_due(id, moment.now_ms)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()

    def _first_seen(self, id: str, moment: Moment) -> int:
        known = [moment.notices[kind, id].opened_at_ms for kind in self.kinds if (kind, id) in moment.notices]
        # A notice is opened when the breaker has been open for the threshold: a restart must not begin to count anew.
        return min(known) - int(self._open_ms) if known else moment.now_ms

    def _is_due(self, id: str, now_ms: int) -> bool:
        return id in self._gone or (self._open_ms > 0 and now_ms - self._since_ms[id] >= self._open_ms)

    def _finding(self, id: str, attempts: Sequence[tuple[str, int | None]]) -> Finding:
        if id in self._gone:
            return Finding("destination_paused", id, "every URL answered 410 Gone")
        outcome, status = attempts[0] if attempts else ("no attempt succeeded", None)
        why = f"{outcome.replace('_', ' ')} {status}" if status else outcome.replace("_", " ")
        return Finding("destination_breaker_open", id, f"{why}, its breaker is open since {iso(self._since_ms[id])}")


def _all_gone(attempts: Sequence[tuple[str, int | None]]) -> bool:
    return bool(attempts) and all(status == GONE for _, status in attempts)


def _last_attempts(connection: Connection, lanes: dict[int, str]) -> dict[str, list[tuple[str, int | None]]]:
    """The latest attempt of each destination among the newest: outcome and status of each of its URLs."""
    rows = connection.execute(
        'SELECT lane, partition, "offset", number, outcome, status FROM attempts ORDER BY id DESC LIMIT ?',
        (ATTEMPTS_LOOKED_AT_MAX,),
    ).fetchall()
    attempt_of: dict[int, tuple[int, int, int]] = {}
    found: dict[str, list[tuple[str, int | None]]] = {}
    for lane, partition, offset, number, outcome, status in rows:
        attempt = (partition, offset, number)
        if lane in lanes and attempt_of.setdefault(lane, attempt) == attempt:
            found.setdefault(lanes[lane], []).append((outcome, status))
    return found
