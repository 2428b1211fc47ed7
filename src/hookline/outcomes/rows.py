"""Read rows of attempts that did not succeed, the blocks that hold every other one, and dead letters with what came of
what people did about them.

A part of ``DeliverReader``; ``outcomes.progress`` has the format of a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from hookline.outcomes.progress import BUCKET_SHIFT, ENTRY_BYTES, OFFSET_MASK
from hookline.replays.dead_letters import DEAD_LETTERS_MAX, DeadLetterFilter

ROWS_PER_LOOK = 200
_ROW = 'id, partition, "offset", lane, number, url, at, outcome, http_status, error, milliseconds, next_at, head'
_WORD_BYTES = 8
"""Of an entry, the first word is the position and the second the time."""
_IN_BUCKET = " FROM outcome_blocks WHERE partition = ? AND first_offset >= ? AND first_offset < ?"


class SavedAttempt(NamedTuple):
    """A row of ``attempts``."""

    id: int
    partition: int
    offset: int
    lane: int
    number: int
    url: str
    at_ms: int
    outcome: str
    http_status: int | None
    error: str | None
    milliseconds: int | None
    next_at_ms: int | None
    head: str | None


class FinalAttempt(NamedTuple):
    """The attempt after which a lane gave an event up."""

    lane: int
    partition: int
    offset: int


class Failure(NamedTuple):
    """A lane's latest failed attempt."""

    outcome: str
    http_status: int | None
    error: str | None
    at_ms: int


class FailureGroup(NamedTuple):
    """Failed attempts that ended alike."""

    outcome: str
    http_status: int | None
    failures: int
    first_ms: int
    last_ms: int


class CauseCount(NamedTuple):
    """Failed attempts of one cause at one destination within one hour. ``events`` are those of which no earlier attempt
    failed for this cause; ``last_id`` is the newest of the attempts."""

    destination: str
    cause: int
    outcome: str
    http_status: int | None
    hour_ms: int
    attempts: int
    events: int
    first_ms: int
    last_ms: int
    last_id: int


class CauseSample(NamedTuple):
    """One attempt as an example of its cause."""

    id: int
    destination: str
    cause: int
    error: str | None


HOUR_MS = 3_600_000


class BlockKey(NamedTuple):
    """Hold what tells blocks apart: one only grows, and its length is known without reading it."""

    id: int
    first_offset: int
    bytes: int


class AttemptRows:
    """Looks things up in both tables."""

    def __init__(self, rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._rows = rows

    def of_event(self, lane: int, partition: int, offset: int) -> list[SavedAttempt]:
        """Return a lane's attempts of one event, oldest first."""
        query = f'SELECT {_ROW} FROM attempts WHERE partition = ? AND "offset" = ? AND lane = ? ORDER BY id'
        return [SavedAttempt(*row) for row in self._rows(query, (partition, offset, lane))]

    def get(self, id: int, destination: str) -> SavedAttempt | None:
        """Return one attempt."""
        rows = self._rows(f"SELECT {_ROW} FROM attempts WHERE id = ? AND destination = ?", (id, destination))
        return SavedAttempt(*rows[0]) if rows else None

    def remark(self, lane: int, partition: int, offset: int) -> str | None:
        """Return what a sink said of an event that it accepted."""
        query = 'SELECT remark FROM remarks WHERE lane = ? AND partition = ? AND "offset" = ?'
        rows = self._rows(query, (lane, partition, offset))
        return rows[0][0] if rows else None

    def newest(self, destination: str, at_ms: int, before_id: int) -> Iterator[SavedAttempt]:
        """Yield a destination's attempts, newest first: of the millisecond ``at_ms`` those before an id, and all
        older ones."""
        at, id = at_ms, before_id
        while True:
            rows = self._rows(
                f"SELECT {_ROW} FROM attempts WHERE destination = ? AND at <= ? AND (at < ? OR id < ?)"
                " ORDER BY at DESC, id DESC LIMIT ?",
                (destination, at, at, id, ROWS_PER_LOOK),
            )
            found = [SavedAttempt(*row) for row in rows]
            yield from found
            if len(found) < ROWS_PER_LOOK:
                return
            id, at = found[-1].id, found[-1].at_ms

    def last_number(self, lane: int, partition: int, offset: int, before_ms: int) -> int:
        """Return how often a lane had tried an event before a time; attempts that succeeded have no row."""
        query = 'SELECT max(number) FROM attempts WHERE partition = ? AND "offset" = ? AND lane = ? AND at < ?'
        rows = self._rows(query, (partition, offset, lane, before_ms))
        return (rows[0][0] if rows else None) or 0

    def final_ones(self, destination: str, since_ms: int, rows_per_look: int) -> Iterator[FinalAttempt]:
        """Yield the attempts after which a destination's event was given up, or that were the last of several URLs'."""
        after = 0
        query = (
            'SELECT id, lane, partition, "offset", destination, at, next_at FROM attempts WHERE id > ?'
            " ORDER BY id LIMIT ?"
        )
        while rows := self._rows(query, (after, rows_per_look)):
            after = rows[-1][0]
            for _, lane, partition, offset, its, at, next_at in rows:
                if its == destination and at >= since_ms and next_at is None:
                    yield FinalAttempt(lane, partition, offset)

    def latest_failures(self, limit: int) -> dict[int, Failure]:
        """Return the latest failure of each lane that is among the newest ``limit`` failures of all."""
        rows = self._rows(
            "SELECT lane, outcome, http_status, error, at FROM attempts WHERE outcome <> 'success'"
            " ORDER BY id DESC LIMIT ?",
            (limit,),
        )
        latest: dict[int, Failure] = {}
        for lane, *failure in rows:
            latest.setdefault(lane, Failure(*failure))
        return latest

    def latest_failure(self, destination: str) -> Failure | None:
        """Return a destination's latest failed attempt."""
        rows = self._rows(
            "SELECT outcome, http_status, error, at FROM attempts WHERE destination = ? AND outcome <> 'success'"
            " ORDER BY at DESC, id DESC LIMIT 1",
            (destination,),
        )
        return Failure(*rows[0]) if rows else None

    def first_failure_ms(self, destination: str, since_ms: int) -> int | None:
        """Return when a destination's first failed attempt since a time was."""
        query = "SELECT min(at) FROM attempts WHERE destination = ? AND at >= ? AND outcome <> 'success'"
        rows = self._rows(query, (destination, since_ms))
        return rows[0][0] if rows else None

    def failure_groups(self, destination: str, since_ms: int, limit: int) -> list[FailureGroup]:
        """Return how a destination's newest ``limit`` failures since a time ended, the most frequent first."""
        rows = self._rows(
            "SELECT outcome, http_status, count(*) AS failed, min(at), max(at)"
            " FROM (SELECT outcome, http_status, at FROM attempts"
            " WHERE destination = ? AND at >= ? ORDER BY at DESC LIMIT ?) AS newest GROUP BY outcome, http_status"
            " ORDER BY failed DESC, outcome, http_status",
            (destination, since_ms, limit),
        )
        return [FailureGroup(*row) for row in rows]

    def example(self, destination: str, group: FailureGroup, characters: int) -> tuple[str | None, str | None]:
        """Return the error, cut to so many characters, and the URL of the newest failure of a group."""
        rows = self._rows(
            f"SELECT substr(error, 1, {characters:d}), url FROM attempts WHERE destination = ? AND at = ?"
            " AND outcome = ? AND http_status IS NOT DISTINCT FROM ? LIMIT 1",
            (destination, group.last_ms, group.outcome, group.http_status),
        )
        return rows[0] if rows else (None, None)

    def last_id(self) -> int:
        """Return the id of the newest row; 0 when there is none."""
        rows = self._rows("SELECT coalesce(max(id), 0) FROM attempts", ())
        return int(rows[0][0]) if rows else 0

    def last_id_of(self, after_id: int, until_id: int, rows: int) -> int:
        """Return the id of the last of so many rows behind an id, up to another."""
        query = (
            "SELECT coalesce(max(id), 0) FROM"
            " (SELECT id FROM attempts WHERE id > ? AND id <= ? ORDER BY id LIMIT ?) AS behind"
        )
        found = self._rows(query, (after_id, until_id, rows))
        return int(found[0][0]) if found else 0

    def last_id_until(self, at_ms: int, rows: int) -> int:
        """Return the newest row, of so many newest, that is not of a later time; 0 when there is none."""
        query = (
            "SELECT coalesce(max(id), 0) FROM (SELECT id, at FROM attempts ORDER BY id DESC LIMIT ?) AS newest"
            " WHERE at <= ?"
        )
        found = self._rows(query, (rows, at_ms))
        return int(found[0][0]) if found else 0

    def cause_counts(self, after_id: int, last_id: int) -> list[CauseCount]:
        """Count failed attempts between two ids by cause and hour."""
        # An event counts where its first attempt of this cause is: so a row tells by itself, whenever it is read.
        first = (
            'NOT EXISTS (SELECT 1 FROM attempts AS b WHERE b.partition = a.partition AND b."offset" = a."offset"'
            " AND b.destination = a.destination AND b.cause = a.cause AND b.id < a.id)"
        )
        rows = self._rows(
            f"SELECT destination, cause, outcome, http_status, at / {HOUR_MS} * {HOUR_MS} AS hour, count(*),"
            f" sum(CASE WHEN {first} THEN 1 ELSE 0 END), min(at), max(at), max(id) FROM attempts AS a"
            " WHERE id > ? AND id <= ? AND cause IS NOT NULL AND outcome <> 'success'"
            " GROUP BY destination, cause, outcome, http_status, hour ORDER BY max(id)",
            (after_id, last_id),
        )
        return [CauseCount(*row) for row in rows]

    def samples(self, ids: Sequence[int]) -> list[CauseSample]:
        """Return the attempts with these ids that are still kept."""
        marks = ", ".join("?" * len(ids))
        query = f"SELECT id, destination, cause, error FROM attempts WHERE cause IS NOT NULL AND id IN ({marks})"
        return [CauseSample(*row) for row in self._rows(query, ids)] if ids else []

    def newest_of_cause(self, destination: str, cause: int, rows: int) -> int | None:
        """Return the newest attempt of a cause among the newest rows of a destination."""
        found = self._rows(
            "SELECT max(id) FROM (SELECT id, cause FROM attempts WHERE destination = ? ORDER BY at DESC LIMIT ?)"
            " AS newest WHERE cause = ?",
            (destination, rows, cause),
        )
        return found[0][0] if found else None

    def blocks_of(self, partition: int, offset: int) -> list[BlockKey]:
        """Return the blocks that may hold results of an event."""
        bucket = offset >> BUCKET_SHIFT
        query = f"SELECT id, first_offset, length(entries){_IN_BUCKET} AND first_offset <= ? AND last_offset >= ?"
        return [BlockKey(*row) for row in self._rows(query, (*_span(partition, bucket), offset, offset))]

    def blocks_before(self, before_ms: int) -> Iterator[tuple[int, int]]:
        """Yield the blocks that may hold results from before a time, as (id, when it was last added to), newest
        first."""
        at, id = 1 << 62, 1 << 62
        while True:
            rows = self._rows(
                "SELECT id, at FROM outcome_blocks WHERE at <= ? AND (at < ? OR id < ?) AND coalesce(first_at, 0) <= ?"
                " ORDER BY at DESC, id DESC LIMIT ?",
                (at, at, id, before_ms, ROWS_PER_LOOK),
            )
            yield from ((id, at) for id, at in rows)
            if len(rows) < ROWS_PER_LOOK:
                return
            id, at = rows[-1]

    def block(self, id: int) -> bytes | None:
        """Return the entries of a block; None when retention has taken it meanwhile."""
        rows = self._rows("SELECT entries FROM outcome_blocks WHERE id = ?", (id,))
        return rows[0][0] if rows else None

    def saved(self, partition: int, entries: Iterable[bytes]) -> set[bytes]:
        """Return which of some entries about a partition's events are in blocks."""
        by_bucket: dict[int, set[bytes]] = {}
        for entry in entries:
            by_bucket.setdefault(_offset_of(entry) >> BUCKET_SHIFT, set()).add(entry)
        found: set[bytes] = set()
        for bucket, wanted in by_bucket.items():
            # No block is dated before anything in it, so most need not be looked at.
            since_ms = min(int.from_bytes(entry[_WORD_BYTES : 2 * _WORD_BYTES], "little") for entry in wanted)
            offsets = [_offset_of(entry) for entry in wanted]
            query = f"SELECT id{_IN_BUCKET} AND first_offset <= ? AND last_offset >= ? AND at >= ?"
            rows = self._rows(query, (*_span(partition, bucket), max(offsets), min(offsets), since_ms))
            for block in filter(None, (self.block(id) for (id,) in rows)):
                found |= wanted.intersection(block[at : at + ENTRY_BYTES] for at in range(0, len(block), ENTRY_BYTES))
        return found

    def blocks_in(self, partition: int, bucket: int) -> list[bytes]:
        """Return the entries of all blocks of a bucket of offsets."""
        return [block for (block,) in self._rows(f"SELECT entries{_IN_BUCKET}", _span(partition, bucket))]


def _offset_of(entry: bytes) -> int:
    return int.from_bytes(entry[:_WORD_BYTES], "little") & OFFSET_MASK


def _span(partition: int, bucket: int) -> tuple[int, int, int]:
    return partition, bucket << BUCKET_SHIFT, (bucket + 1) << BUCKET_SHIFT


PAGE_ROWS = 5_000
"""Rows per statement of a long read, so that no read holds back the write-ahead log."""


class SavedDeadLetter(NamedTuple):
    """One event that one destination did not get, and why; ``replay_lane`` where a replay could not deliver it."""

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
    at: int
    outcome: str | None
    http_status: int | None
    error: str | None
    replay_lane: int | None


class DeadLetterStep(NamedTuple):
    """Count how many dead letters a destination got within one step of time, and the first of them."""

    destination: str
    step: int
    first_id: int
    dead_letters: int


_COLUMNS = ", ".join(f'd."{name}"' for name in SavedDeadLetter._fields[:-1])
"""The columns are named, and ordered, as the fields."""
_SELECT = f"SELECT {_COLUMNS}, r.lane FROM dead_letters AS d LEFT JOIN replays AS r ON r.lane = d.lane"


class DeadLetterRows:
    """Looks things up in the tables."""

    def __init__(self, rows: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]) -> None:
        self._rows = rows

    def newest(self, limit: int, before_id: int | None, wanted: DeadLetterFilter) -> list[SavedDeadLetter]:
        """Return at most ``limit`` dead letters older than ``before_id`` that the filter asks for."""
        where, values = wanted.where()
        query = f"SELECT id FROM dead_letters WHERE {where} AND id < ? ORDER BY id DESC LIMIT ?"
        ids = [id for (id,) in self._rows(query, (*values, before_id or 2**62, limit))]
        marks = ",".join("?" * len(ids))
        rows = self._rows(f"{_SELECT} WHERE d.id IN ({marks}) ORDER BY d.id DESC", ids) if ids else ()
        return [SavedDeadLetter(*row) for row in rows]

    def get(self, id: int) -> SavedDeadLetter | None:
        """Return the dead letter with this id."""
        rows = self._rows(f"{_SELECT} WHERE d.id = ?", (id,))
        return SavedDeadLetter(*rows[0]) if rows else None

    def of_event(self, lane: int, partition: int, offset: int) -> str | None:
        """Return the status of a lane's dead letter of an event."""
        query = 'SELECT status FROM dead_letters WHERE lane = ? AND partition = ? AND "offset" = ?'
        rows = self._rows(query, (lane, partition, offset))
        return rows[0][0] if rows else None

    def count(self, wanted: DeadLetterFilter) -> dict[str, int]:
        """Return how many the filter asks for, by destination."""
        where, values = wanted.where()
        return dict(self._rows(f"SELECT destination, count(*) FROM dead_letters WHERE {where} GROUP BY 1", values))

    def kept(self, destination: str, from_id: int = 0, most: int | None = None) -> int:
        """Return how many dead letters of a destination are kept and not discarded, counted up to ``most``."""
        where = "destination = ? AND status <> 'discarded' AND id >= ?"
        limit = "" if most is None else f" LIMIT {most:d}"
        query = f"SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE {where}{limit}) AS counted"
        return self._number(query, (destination, from_id))

    def count_up_to(self, wanted: DeadLetterFilter, most: int) -> int:
        """Return how many the filter asks for, counted up to ``most``."""
        where, values = wanted.where()
        query = f"SELECT count(*) FROM (SELECT 1 FROM dead_letters WHERE {where} LIMIT {most:d}) AS counted"
        return self._number(query, values)

    def is_full(self, destination: str) -> bool:
        """Return whether older dead letters of a destination may have made room for newer ones."""
        query = "SELECT count(*) FROM dead_letters WHERE destination = ?"
        return self._number(query, (destination,)) >= DEAD_LETTERS_MAX

    def last_id(self) -> int:
        """Return the newest letter's id."""
        return self._number("SELECT coalesce(max(id), 0) FROM dead_letters", ())

    def by_step(self, after_id: int, last_id: int, since_ms: int, step_ms: int) -> list[DeadLetterStep]:
        """Return how many dead letters each destination got in every ``step_ms``, of those between two ids, oldest step
        first."""
        rows = self._rows(
            "SELECT destination, at / ? AS step, min(id), count(*) FROM dead_letters"
            " WHERE id > ? AND id <= ? AND at >= ? GROUP BY destination, step ORDER BY step",
            (step_ms, after_id, last_id, since_ms),
        )
        return [DeadLetterStep(*row) for row in rows]

    def positions(self, wanted: DeadLetterFilter, limit: int) -> Iterator[tuple[int, int]]:
        """Yield partition and offset of the events that the filter asks for, oldest dead letters first."""
        where, values = wanted.where()
        query = f'SELECT id, partition, "offset" FROM dead_letters WHERE {where} AND id > ? ORDER BY id LIMIT ?'
        after = 0
        while limit > 0:
            rows = self._rows(query, (*values, after, min(limit, PAGE_ROWS)))
            if not rows:
                return
            for after, partition, offset in rows:  # noqa: B007 - the last id is where the next page begins
                yield partition, offset
            limit -= len(rows)

    def discarded_by(self, action: int) -> int | None:
        """Return how many dead letters deliver has discarded for an action; None until it has, or when newer ones
        followed."""
        rows = self._rows("SELECT discarded FROM dead_letter_actions WHERE last = ?", (action,))
        return int(rows[0][0]) if rows else None

    def _number(self, query: str, values: Sequence[Any]) -> int:
        rows = self._rows(query, values)
        return int(rows[0][0]) if rows else 0
