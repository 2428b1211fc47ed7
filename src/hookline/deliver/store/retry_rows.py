"""Reading retry rows: which of a lane's rows come first by some question.

Where there is one process, the event loop asks ``RetryRows`` and has the answer in microseconds. Where the database is
elsewhere it asks ``LateRows``, and the checkpoint's thread has ``answers`` to all that was asked in one go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, Protocol

from hookline.connections.model import WEBHOOKS_MAX
from hookline.database.connection import Connection
from hookline.deliver.cluster.fence import Fence, listed
from hookline.deliver.lanes.delivery import ACCEPTED, ASKED_TO_WAIT, Moved
from hookline.deliver.store.batch import Answers, Kind, Look, Looks, RetryRow
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT
from hookline.outcomes.reader import NEVER_MS

OVERDUE_MAX = 256
"""Rows whose window has ended that are looked at in one go."""
LOOKS_PER_STATEMENT = 32
"""Questions of one kind that are asked together."""


class ProbeRows(NamedTuple):
    """Rows that a probe chooses from: the oldest that were tried and failed, and those whose window may be over."""

    oldest: list[RetryRow]
    overdue: list[RetryRow]


class RowsComing(Exception):
    """The rows have been asked for: they are there in a later turn."""


class Rows(Protocol):
    """The retry rows of the partitions that are this process's to act on, as the last checkpoint left them: what the
    next one changes is for a lane's ``pending_rows`` to tell.

    Raises DatabaseAway; and RowsComing where an answer comes with a later turn.
    """

    def first_due(self, lane: int, limit: int) -> list[RetryRow]:
        """Return the rows of a lane that are, or will be, due first."""

    def for_probe(self, lane: int, limit: int, now_ms: int, overdue_before_ms: int | None) -> ProbeRows:
        """Return the oldest rows of a lane but those whose receiver asked for a later time, and those whose first
        attempt lies before a time, if one is given: not those that were never tried, whose window has not begun."""

    def row(self, lane: int, position: int) -> RetryRow | None:
        """Return the row of one event."""


class RetryRows:
    """Satisfies ``Rows`` at once, and reads what only recovery and erasure ask for."""

    def __init__(self, connection: Connection, fence: Fence | None) -> None:
        self._connection = connection
        self._fence = fence

    def first_due(self, lane: int, limit: int) -> list[RetryRow]:
        """As ``Rows`` says."""
        return self._ask(Look("first_due", lane), limit)

    def for_probe(self, lane: int, limit: int, now_ms: int, overdue_before_ms: int | None) -> ProbeRows:
        """As ``Rows`` says."""
        overdue = Look("overdue", lane)
        found = [] if overdue_before_ms is None else self._ask(overdue, overdue_before_ms, OVERDUE_MAX)
        return ProbeRows(self._ask(Look("probe", lane), now_ms, limit), found)

    def row(self, lane: int, position: int) -> RetryRow | None:
        """As ``Rows`` says."""
        found = self._ask(Look("row", lane, position), *values_of_position(position))
        return found[0] if found else None

    def oldest(self, lane: int, limit: int) -> list[RetryRow]:
        """Return the oldest events of a lane that were tried and failed."""
        return self._ask(Look("oldest", lane), limit)

    def offsets(self, lane: int, partition: int, first: int, end: int) -> list[int]:
        """Return the offsets of a lane's retry rows in ``[first, end)`` of a partition."""
        query = 'SELECT "offset" FROM retries WHERE lane = ? AND partition = ? AND "offset" >= ? AND "offset" < ?'
        return [offset for (offset,) in self._connection.execute(query, (lane, partition, first, end))]

    @property
    def _taken(self) -> str | None:
        return None if self._fence is None else self._fence.taken

    def _ask(self, look: Look, *values: int) -> list[RetryRow]:
        found = self._connection.execute(_statement(look.kind, self._taken), (look.lane, *values))
        return [RetryRow(*row) for row in found]


def bring_near(connection: Connection, now_ms: int, latest_ms: int, partition: int | None = None) -> None:
    """Have rows that would be due later than anything can be, by a clock that is known no more, be due now; in one
    partition or in all."""
    where = "" if partition is None else f" AND partition = {partition:d}"
    connection.execute(f"UPDATE retries SET due = ? WHERE due > ? AND due < {NEVER_MS}{where}", (now_ms, latest_ms))
    connection.execute(f"UPDATE retries SET first_at = ? WHERE first_at > ?{where}", (now_ms, now_ms))


def moved_urls(moved: Moved) -> str:
    """Return ``moved_mask`` of the column as SQL has it."""
    parts = [f"(urls & {ASKED_TO_WAIT | ACCEPTED})"]
    for index, before in enumerate(moved):
        if before is None:
            parts.append(f"{1 << index}")
            continue
        for bit, its in ((before, index), (before + WEBHOOKS_MAX, index + WEBHOOKS_MAX)):
            parts.append(f"(((urls >> {bit}) & 1) << {its})")
    return " | ".join(parts)


def values_of_position(position: int) -> tuple[int, int, int]:
    """Return the values of the question about one event."""
    return position >> POSITION_SHIFT, position & OFFSET_MASK, 1


def answers(connection: Connection, looks: Looks, taken: str | None) -> Answers:
    """Return the answer to each question, of rows in the partitions ``taken`` (SQL's list) where others own some."""
    found: dict[Look, list[RetryRow]] = {look: [] for look in looks}
    for kind, these in _together(looks):
        each = _statement(kind, taken)
        text = " UNION ALL ".join(f"SELECT {n}, look_{n}.* FROM ({each}) AS look_{n}" for n in range(len(these)))
        values = [value for look in these for value in (look.lane, *looks[look])]
        for number, *row in connection.execute(text, values):
            found[these[number]].append(RetryRow(*row))
    return found


def counts(connection: Connection, lanes: Collection[int], taken: str | None) -> dict[int, int]:
    """Return how many rows each of some lanes has, in the partitions ``taken``."""
    where = f"lane IN {listed(lanes)}{_among(taken)}"
    found = dict(connection.execute(f"SELECT lane, count(*) FROM retries WHERE {where} GROUP BY lane").fetchall())
    return {lane: found.get(lane, 0) for lane in lanes}


def _together(looks: Looks) -> Iterator[tuple[Kind, list[Look]]]:
    by_kind: dict[Kind, list[Look]] = {}
    for look in looks:
        by_kind.setdefault(look.kind, []).append(look)
    for kind, these in by_kind.items():
        for at in range(0, len(these), LOOKS_PER_STATEMENT):
            yield kind, these[at : at + LOOKS_PER_STATEMENT]


_WHERE: dict[Kind, str] = {
    "first_due": "lane = ?",
    "oldest": "lane = ?",
    "overdue": "lane = ? AND first_at < ? AND attempt > 0",
    "probe": f"lane = ? AND ((urls & {ASKED_TO_WAIT}) = 0 OR due <= ?)",
    "row": 'lane = ? AND partition = ? AND "offset" = ?',
}
_ORDER: dict[Kind, str] = {
    "first_due": " ORDER BY due",
    **dict.fromkeys(("oldest", "probe"), ' ORDER BY partition, "offset"'),
}


def _statement(kind: Kind, taken: str | None) -> str:
    columns = 'lane, partition, "offset", attempt, first_at, due, urls'
    where = _WHERE[kind] + _among(taken)
    return f"SELECT {columns} FROM retries WHERE {where}{_ORDER.get(kind, '')} LIMIT ?"


def _among(taken: str | None) -> str:
    return "" if taken is None else f" AND partition IN {taken}"
