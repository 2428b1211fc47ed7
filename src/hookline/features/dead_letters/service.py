"""Dead letters as deliver keeps them: found by filters, and what actions on many at once came to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import msgspec

from hookline.api.services import Services, part
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.replays.dead_letters import DEAD_LETTERS_MAX, DeadLetterFilter, RetryPlace
from hookline.replays.model import replay_id

PAGE_ROWS = 5_000
"""Rows per statement of a long read, so that no read holds back the write-ahead log."""


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One event that one destination did not get, and why; ``replay`` is set when a replay could not deliver it."""

    id: int
    destination: str
    source: str
    type: str
    event: str | None
    message_id: str
    partition: int
    offset: int
    status: str
    attempts: int
    at: str
    outcome: str | None = None
    http_status: int | None = None
    error: str | None = None
    replay: str | None = None


class FinalAttempt(NamedTuple):
    """The attempt after which a lane gave an event up."""

    lane: int
    partition: int
    offset: int


class LostRange(NamedTuple):
    """Events of a lane that were discarded together."""

    lane: int
    partition: int
    first_offset: int
    last_offset: int


_FIELDS = DeadLetter.__struct_fields__[:-1]
_COLUMNS = ", ".join(f'd."{name}"' for name in _FIELDS)
"""The columns are named, and ordered, as the fields."""
_SELECT = f"SELECT {_COLUMNS}, r.lane FROM dead_letters AS d LEFT JOIN replays AS r ON r.lane = d.lane"


class DeadLetterLog:
    """Reads the table; before deliver's first start there is none, which is the same as empty."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)

    def newest(self, limit: int, before_id: int | None, wanted: DeadLetterFilter) -> list[DeadLetter]:
        """At most ``limit`` dead letters older than ``before_id`` that the filter asks for."""
        where, values = wanted.where()
        ids = [
            id
            for (id,) in self._rows(
                f"SELECT id FROM dead_letters WHERE {where} AND id < ? ORDER BY id DESC LIMIT ?",
                (*values, before_id or 2**62, limit),
            )
        ]
        marks = ",".join("?" * len(ids))
        return [_letter(row) for row in self._rows(f"{_SELECT} WHERE d.id IN ({marks}) ORDER BY d.id DESC", ids)]

    def get(self, dead_letter_id: int) -> DeadLetter | None:
        """Return the dead letter with this id, None when there is none."""
        rows = self._rows(f"{_SELECT} WHERE d.id = ?", (dead_letter_id,))
        return _letter(rows[0]) if rows else None

    def count(self, wanted: DeadLetterFilter) -> dict[str, int]:
        """Return how many the filter asks for, by destination."""
        where, values = wanted.where()
        return dict(self._rows(f"SELECT destination, count(*) FROM dead_letters WHERE {where} GROUP BY 1", values))

    def last_id(self) -> int:
        """Return the newest letter's id."""
        rows = self._rows("SELECT coalesce(max(id), 0) FROM dead_letters")
        return int(rows[0][0]) if rows else 0

    def places(self, wanted: DeadLetterFilter, limit: int) -> Iterator[tuple[int, int]]:
        """Partition and offset of the events that the filter asks for, oldest letters first."""
        where, values = wanted.where()
        after = 0
        while limit > 0:
            rows = self._rows(
                f'SELECT id, partition, "offset" FROM dead_letters WHERE {where} AND id > ? ORDER BY id LIMIT ?',
                (*values, after, min(limit, PAGE_ROWS)),
            )
            if not rows:
                return
            for after, partition, offset in rows:  # noqa: B007 - the last id is where the next page begins
                yield partition, offset
            limit -= len(rows)

    def is_full(self, destination: str) -> bool:
        """Return whether older letters of a destination may have made room for newer ones."""
        rows = self._rows("SELECT count(*) FROM dead_letters WHERE destination = ?", (destination,))
        return bool(rows) and rows[0][0] >= DEAD_LETTERS_MAX

    def final_attempts(self, destination: str, since_ms: int) -> Iterator[FinalAttempt]:
        """Attempts after which a destination's event was given up, or that were the last of several URLs'."""
        after = 0
        while rows := self._rows(
            'SELECT id, lane, partition, "offset", destination, at, next_at FROM attempts WHERE id > ? ORDER BY id'
            " LIMIT ?",
            (after, PAGE_ROWS),
        ):
            after = rows[-1][0]
            for _, lane, partition, offset, its, at, next_at in rows:
                if its == destination and at >= since_ms and next_at is None:
                    yield FinalAttempt(lane, partition, offset)

    def is_retried(self, attempt: FinalAttempt) -> bool:
        """Return whether the event waits for another try after all."""
        query = 'SELECT 1 FROM retries WHERE lane = ? AND partition = ? AND "offset" = ?'
        return bool(self._rows(query, attempt))

    def retries(self, partition: int, offset: int, lanes: Collection[int]) -> list[RetryPlace]:
        """Return where the event at a place waits for another try, in any of some lanes."""
        rows = self._rows('SELECT lane FROM retries WHERE partition = ? AND "offset" = ?', (partition, offset))
        return [RetryPlace(lane, partition, offset) for (lane,) in rows if lane in lanes]

    def discarded_ranges(self, destination: str, since_ms: int) -> list[LostRange]:
        """Return what was discarded when the destination was disabled; what a person took out of a replay is
        not meant."""
        rows = self._rows(
            "SELECT lane, partition, first_offset, last_offset FROM ranges WHERE destination = ? AND at >= ?"
            " AND status = 'discarded' AND lane NOT IN (SELECT lane FROM replays)",
            (destination, since_ms),
        )
        return [LostRange(*row) for row in rows]

    def discarded(self, action: int) -> int | None:
        """Return how many letters deliver has discarded for this action; None until it has, or when newer ones
        followed."""
        rows = self._rows("SELECT discarded FROM dead_letter_actions WHERE last = ?", (action,))
        return int(rows[0][0]) if rows else None

    def close(self) -> None:
        """Close the file; idempotent."""
        self._database.close()

    def _rows(self, query: str, values: Any = ()) -> list[Any]:
        connection = self._database.open()
        return [] if connection is None else connection.execute(query, values).fetchall()


def _letter(row: tuple[Any, ...]) -> DeadLetter:
    values = dict(zip(_FIELDS, row[:-1], strict=True))
    values["at"] = iso(values["at"])
    return DeadLetter(**values, replay=None if row[-1] is None else replay_id(row[-1]))


@part
def dead_letter_log(services: Services) -> DeadLetterLog:
    """Return what finds dead letters."""
    return DeadLetterLog(location_of(services.settings, "deliver"))
