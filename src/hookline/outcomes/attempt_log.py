"""The attempts of one destination, newest first: failures are rows, all other results lie in blocks.

Not thread-safe. A page is found in steps as long as its reader wants to go on: with few attempts among those of many
busy destinations a search may take long, and then begins again where it was.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.outcomes.outcome import from_number
from hookline.outcomes.progress import ENTRY_BYTES, OFFSET_MASK, PLACE_SHIFT, URL_BITS, Entry, entries
from hookline.outcomes.results import Results

ROWS_PER_LOOK = 200
NO_LANE = -1
_ROW = 'id, partition, "offset", lane, number, url, at, outcome, http_status, error, milliseconds, next_at, head'


class LoggedAttempt(NamedTuple):
    """One request. ``url`` is None for a result in a block, which has only the URL's number."""

    key: Key
    partition: int
    offset: int
    lane: int
    at_ms: int
    outcome: str
    http_status: int | None
    milliseconds: int
    number: int | None = None
    url: str | None = None
    url_index: int | None = None
    error: str | None = None
    next_at_ms: int | None = None
    head: str | None = None

    @property
    def id(self) -> str:
        """Return what it is called: ``attempt_key`` reads it back."""
        return id_of(self.key)


class AttemptFilter(NamedTuple):
    """What is asked for; None asks for nothing. Times are milliseconds, ``[since_ms, until_ms)``."""

    outcome: str | None = None
    http_status: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, attempt: LoggedAttempt) -> bool:
        """Return whether an attempt is meant."""
        return (
            (self.outcome is None or attempt.outcome == self.outcome)
            and (self.http_status is None or attempt.http_status == self.http_status)
            and (self.since_ms is None or attempt.at_ms >= self.since_ms)
            and (self.until_ms is None or attempt.at_ms < self.until_ms)
        )


class AttemptPage(NamedTuple):
    """Attempts found, and the key after which the next page begins; None when there are no more."""

    attempts: list[LoggedAttempt]
    after: Key | None


class AttemptLog:
    """Reads the database at ``place`` and the progress ring of the data folder; before deliver first started there
    are no attempts."""

    def __init__(self, data_path: Path, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._of_events = Results(data_path)

    def newest(
        self,
        destination: str,
        lanes: Collection[int],
        wanted: AttemptFilter,
        limit: int,
        before: Key,
        takes: Callable[[LoggedAttempt], bool],
        due: Callable[[], bool],
    ) -> AttemptPage:
        """At most ``limit`` attempts older than ``before``; ``lanes`` are all that the destination ever had.

        ``takes`` says further whether an attempt is meant; when ``due`` says so, the page ends with what it has.
        """
        connection = self._database.open()
        if connection is None:
            return AttemptPage([], None)
        if wanted.until_ms is not None:
            before = min(before, (wanted.until_ms, 0, 0, 0, 0))
        found: list[LoggedAttempt] = []
        streams = _failures(connection, destination, before), _results(connection, lanes, wanted, before)
        for attempt in heapq.merge(*streams, key=lambda each: each.key, reverse=True):
            if wanted.since_ms is not None and attempt.at_ms < wanted.since_ms:
                return AttemptPage(found, None)
            if attempt.lane != NO_LANE and wanted.takes(attempt) and takes(attempt):
                found.append(attempt)
            if len(found) >= limit or due():
                return AttemptPage(found, attempt.key)
        return AttemptPage(found, None)

    def get(self, destination: str, lanes: Collection[int], key: Key) -> LoggedAttempt | None:
        """Return one attempt by its key."""
        connection = self._database.open()
        if connection is None:
            return None
        if key[1] == FAILURE:
            row = connection.execute(
                f"SELECT {_ROW} FROM attempts WHERE id = ? AND destination = ?", (key[2], destination)
            ).fetchone()
            return _of_row(row) if row is not None else None
        place = key[3]
        found = map(_of_entry, self._of_events.of_place(connection, place >> PLACE_SHIFT, place & OFFSET_MASK))
        return next((each for each in found if each.key == key and each.lane in lanes), None)

    def number(self, attempt: LoggedAttempt) -> int:
        """Return which try of its event an attempt was."""
        connection = self._database.open()
        if attempt.number is not None or connection is None:
            return attempt.number or 1
        row = connection.execute(
            'SELECT max(number) FROM attempts WHERE partition = ? AND "offset" = ? AND lane = ? AND at < ?',
            (attempt.partition, attempt.offset, attempt.lane, attempt.at_ms),
        ).fetchone()
        return (row[0] or 0) + 1

    def close(self) -> None:
        """Close the files; idempotent."""
        self._of_events.close()
        self._database.close()


def _failures(connection: Connection, destination: str, before: Key) -> Iterator[LoggedAttempt]:
    at, id = before[0], {RESULT: 0, FAILURE: before[2]}.get(before[1], 1 << 62)
    while True:
        rows = connection.execute(
            f"SELECT {_ROW} FROM attempts WHERE destination = ? AND at <= ? AND (at < ? OR id < ?)"
            " ORDER BY at DESC, id DESC LIMIT ?",
            (destination, at, at, id, ROWS_PER_LOOK),
        ).fetchall()
        yield from map(_of_row, rows)
        if len(rows) < ROWS_PER_LOOK:
            return
        id, at = rows[-1][0], rows[-1][6]


def _of_row(row: tuple[Any, ...]) -> LoggedAttempt:
    id, partition, offset, lane, number, url, at, outcome, status, error, took, next_at, head = row
    return LoggedAttempt(
        (at, FAILURE, id, 0, 0),
        partition,
        offset,
        lane,
        at,
        outcome,
        status,
        took or 0,
        number=number,
        url=url,
        error=error or None,
        next_at_ms=next_at,
        head=head,
    )


def _results(
    connection: Connection, lanes: Collection[int], wanted: AttemptFilter, before: Key
) -> Iterator[LoggedAttempt]:
    """Yield the results in blocks, and for each block that is looked at a place holder (``NO_LANE``), so that a long
    search for few results can end in between."""
    waiting: list[tuple[tuple[int, ...], LoggedAttempt]] = []
    for id, at in _blocks_before(connection, before[0]):
        # No block that is still to come holds anything newer than this.
        while waiting and waiting[0][1].at_ms > at:
            yield heapq.heappop(waiting)[1]
        row = connection.execute("SELECT entries FROM outcome_blocks WHERE id = ?", (id,)).fetchone()
        for attempt in _wanted_of(row[0], lanes, wanted) if row is not None else ():
            if attempt.key < before:
                heapq.heappush(waiting, (tuple(-part for part in attempt.key), attempt))
        if at < before[0]:
            yield LoggedAttempt((at, NOTHING, 0, 0, 0), 0, 0, NO_LANE, at, "", None, 0)
    while waiting:
        yield heapq.heappop(waiting)[1]


def _wanted_of(block: bytes, lanes: Collection[int], wanted: AttemptFilter) -> Iterator[LoggedAttempt]:
    """Yield the results of a block that may be meant; most blocks hold none, which one pass over one word of each
    tells."""
    words = memoryview(block).cast("Q")[2 :: ENTRY_BYTES // 8].tolist()
    if any(_is_meant(word, lanes, wanted) for word in {word & 0xFFFF_FFFF_FFFF for word in words}):
        yield from (_of_entry(entry) for entry in entries(block) if entry.lane in lanes)


def _is_meant(word: int, lanes: Collection[int], wanted: AttemptFilter) -> bool:
    if (word & 0xFFFF_FFFF) >> URL_BITS not in lanes:
        return False
    outcome, status = from_number(word >> 32)
    return wanted.outcome in (None, outcome) and wanted.http_status in (None, status)


def _blocks_before(connection: Connection, before_ms: int) -> Iterator[tuple[int, int]]:
    """Blocks that may hold results from before a time, as (id, when it was last added to), newest first."""
    at, id = 1 << 62, 1 << 62
    while True:
        rows = connection.execute(
            "SELECT id, at FROM outcome_blocks WHERE at <= ? AND (at < ? OR id < ?) AND coalesce(first_at, 0) <= ?"
            " ORDER BY at DESC, id DESC LIMIT ?",
            (at, at, id, before_ms, ROWS_PER_LOOK),
        ).fetchall()
        yield from rows
        if len(rows) < ROWS_PER_LOOK:
            return
        id, at = rows[-1]


def _of_entry(entry: Entry) -> LoggedAttempt:
    outcome, status = from_number(entry.result)
    return LoggedAttempt(
        (entry.at_ms, RESULT, entry.lane, entry.place, entry.url_index),
        entry.place >> PLACE_SHIFT,
        entry.place & OFFSET_MASK,
        entry.lane,
        entry.at_ms,
        outcome,
        status,
        entry.milliseconds,
        url_index=entry.url_index,
    )


RESULT, FAILURE, NOTHING = 0, 1, 2
"""Kinds: a result in a block, a row, and a place in the order before everything of its millisecond."""
PARTS = 5

Key = tuple[int, int, int, int, int]
"""(ms, RESULT, lane, place, URL's number) or (ms, FAILURE, row, 0, 0)."""


def id_of(key: Key) -> str:
    """Return the attempt's id, which is also the cursor behind it."""
    return "-".join(map(str, key))


def attempt_key(text: str) -> Key | None:
    """Return the key that an attempt's id stands for; None for what is no id."""
    parts = text.split("-")
    if len(parts) != PARTS or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        return None
    at, kind, first, second, third = map(int, parts)
    return None if max(at, kind, first, second, third) >= 1 << 63 else (at, kind, first, second, third)
