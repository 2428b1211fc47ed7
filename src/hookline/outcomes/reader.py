"""Read what deliver wrote down. Besides deliver's own rooms nothing else holds SQL on its tables (decision 53).

Every method returns values and leaves nothing open, so that no read transaction holds back the write-ahead log. Before
deliver's first start there is no database, which reads as empty; ``exists`` tells the two apart. Any thread may ask.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

from hookline.database.connection import Connection, one_moment
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.outcomes import positions
from hookline.outcomes.progress import OFFSET_MASK
from hookline.outcomes.rows import AttemptRows, DeadLetterRows
from hookline.replays.offset_set import OffsetSet, decode_offset_sets

OFFSET_MAX = OFFSET_MASK >> 1
"""What lies beyond was never an offset: it is the end of a replay that is over, or damage."""
HELD_STATES = frozenset(("paused", "open", "gone"))
"""Of a lane that is paused, or whose breaker is open: for what only such lanes wait, retention need not stop intake."""
ENDED_STATES = frozenset(("finished", "drained"))
NOBODY = 2**63 - 1
NEVER_MS = 2**62
"""The due time of a retry row that waits until the turn of its user is called (``delivery.order``)."""


class SavedCheckpoint(NamedTuple):
    """A partition's position as it was saved."""

    next_offset: int
    version: int
    blob: bytes


class SavedLane(NamedTuple):
    """A lane's own row as it was saved."""

    lane: int
    partition: int
    next_offset: int
    state: str
    blob: bytes


class RetryBacklog(NamedTuple):
    """Count how many retry rows a lane has, and when the first is due (ms)."""

    rows: int
    due_ms: int


class RetryCounts(NamedTuple):
    """Count a lane's retry rows: those that were tried, those that wait for their first try or for their turn, and
    when the oldest of them was tried first (ms)."""

    tried: int
    untried: int
    oldest_ms: int


class DestinationTotals(NamedTuple):
    """Hold how many events a destination got at first hand, and since when that is counted (ms); how many of its dead
    letters are kept, by status."""

    delivered: int = 0
    since_ms: int | None = None
    dead_letters: Mapping[str, int] = MappingProxyType({})


class FirstRetry(NamedTuple):
    """The first offset of a lane's retry rows in a partition."""

    lane: int
    partition: int
    offset: int


class FirstNeeded(NamedTuple):
    """The first offset that a working lane waits for, and the first one that a held lane does."""

    working: int
    held: int


class SavedRange(NamedTuple):
    """Events of a lane that got one status together."""

    id: int
    lane: int
    destination: str
    partition: int
    first_offset: int
    last_offset: int
    status: str
    at_ms: int
    reason: str | None


class SavedReplay(NamedTuple):
    """The counts of a replay; ``state`` is ``running``, ``done`` or ``cancelled``."""

    state: str
    delivered: int
    failed: int
    started_ms: int
    ended_ms: int | None
    reason: str | None


class SavedWorker(NamedTuple):
    """Hold what a deliver process says of itself; ``state`` is for ``cluster.worker_state`` to decode."""

    worker: str
    started_ms: int
    seen_ms: int
    state: str


class SavedOwner(NamedTuple):
    """The owner of a partition: by which epoch, and since when."""

    partition: int
    epoch: int
    worker: str
    since_ms: int


class SinkNews(NamedTuple):
    """A sentence of a sink about what it writes to."""

    id: int
    destination: str
    at_ms: int
    sentence: str


class ErasedRows(NamedTuple):
    """Count how many rows of each table an erasure took away."""

    retries: int
    dead_letters: int
    attempts: int


ALL_IS_WAITED_FOR = FirstNeeded(0, NOBODY)
"""Of a partition about which deliver has not said anything."""
_LANE = "SELECT lane, partition, next_offset, state, blob FROM lanes"
_FIRST_RETRIES = """
WITH RECURSIVE their_lanes(lane) AS (
    SELECT min(lane) FROM retries
    UNION ALL
    SELECT (SELECT min(lane) FROM retries WHERE lane > their_lanes.lane) FROM their_lanes WHERE lane IS NOT NULL
), places(lane, partition) AS (
    SELECT lane, (SELECT min(partition) FROM retries WHERE lane = their_lanes.lane)
    FROM their_lanes WHERE lane IS NOT NULL
    UNION ALL
    SELECT lane, (SELECT min(partition) FROM retries WHERE lane = places.lane AND partition > places.partition)
    FROM places WHERE partition IS NOT NULL
)
SELECT lane, partition,
    (SELECT min("offset") FROM retries WHERE lane = places.lane AND partition = places.partition)
FROM places WHERE partition IS NOT NULL"""
"""From one place of the key to the next: collect asks each second while its budget is nearly spent, on the loop that
answers, and grouping millions of rows takes half of that."""
_RANGE = "SELECT id, lane, destination, partition, first_offset, last_offset, status, at, reason FROM ranges"


class DeliverReader:
    """Lanes, retry rows, ranges, replays and usage; ``attempts`` and ``dead_letters`` have the rest.

    All methods raise DatabaseAway, and DatabaseUnreadable where the database is of a version that has not the tables.
    """

    def __init__(self, location: DatabaseLocation) -> None:
        database = ReadOnly(location)
        self._setup(database.open, database.close)

    @classmethod
    def on(cls, connection: Connection) -> Self:
        """Read by a connection that somebody else opened and closes, such as one that sees its own writes first."""
        reader = cls.__new__(cls)
        reader._setup(lambda: connection, lambda: None)
        return reader

    def _setup(self, open: Callable[[], Connection | None], close: Callable[[], None]) -> None:
        self._open = open
        self._close = close
        self._lock = threading.RLock()
        self.attempts = AttemptRows(self._rows)
        self.dead_letters = DeadLetterRows(self._rows)

    @property
    def exists(self) -> bool:
        """Return whether deliver has ever made its database."""
        with self._lock:
            return self._open() is not None

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """See one state of the database in every look of this thread: between two a checkpoint may move an event."""
        with self._lock:
            connection = self._open()
            if connection is None:
                yield
                return
            with one_moment(connection):
                yield

    def close(self) -> None:
        """Close the database; idempotent."""
        with self._lock:
            self._close()

    # Lanes and the shared reader

    def checkpoint(self, partition: int) -> SavedCheckpoint | None:
        """Return the saved position of a partition's reader."""
        rows = self._rows("SELECT next_offset, version, blob FROM checkpoints WHERE partition = ?", (partition,))
        return SavedCheckpoint(*rows[0]) if rows else None

    def next_offsets(self) -> dict[int, int]:
        """Return the offset of each partition's reader."""
        return dict(self._rows("SELECT partition, next_offset FROM checkpoints"))

    def checkpoints(self) -> dict[int, SavedCheckpoint]:
        """Return the saved position of every partition's reader."""
        rows = self._rows("SELECT partition, next_offset, version, blob FROM checkpoints")
        return {partition: SavedCheckpoint(*row) for partition, *row in rows}

    def lane(self, lane: int, partition: int) -> SavedLane | None:
        """Return a lane's own row; one that is simply at the shared reader's position has none."""
        rows = self._rows(f"{_LANE} WHERE lane = ? AND partition = ?", (lane, partition))
        return SavedLane(*rows[0]) if rows else None

    def lanes(self, partition: int | None = None) -> list[SavedLane]:
        """Return all lanes with a row of their own, in one partition or in all."""
        where = "" if partition is None else f" WHERE partition = {partition:d}"
        return [SavedLane(*row) for row in self._rows(_LANE + where)]

    def waiting_lanes(self) -> Iterator[tuple[SavedLane, int]]:
        """Yield the rows of lanes that stand apart with the first offset that they wait for, a retry's or another."""
        of_lane = "retries.lane = lanes.lane AND retries.partition = lanes.partition"
        query = _LANE.replace(" FROM", f', (SELECT min("offset") FROM retries WHERE {of_lane}) FROM')
        for *values, retry in self._rows(query):
            row = SavedLane(*values)
            first = min((each for each in (first_undone(row), retry) if each is not None), default=None)
            if first is not None:
                yield row, first

    def lanes_in(self, *states: Literal["gone", "drained", "open"]) -> list[SavedLane]:
        """Return the rows of lanes in some states."""
        marks = ", ".join("?" * len(states))
        return [SavedLane(*row) for row in self._rows(f"{_LANE} WHERE state IN ({marks})", states)]

    def lanes_apart(self) -> set[int]:
        """Return the lanes that have a row of their own in any partition."""
        return {lane for (lane,) in self._rows("SELECT DISTINCT lane FROM lanes")}

    def first_needed(self) -> Mapping[int, FirstNeeded]:
        """Return from which offset on each partition is still waited for, as the last checkpoint has it.

        What is unknown counts as waited for.
        """
        found: dict[int, FirstNeeded] = {}
        for partition, next_offset, blob in self._rows("SELECT partition, next_offset, blob FROM checkpoints"):
            lanes = positions.decode_offset_sets(blob).lanes.values() if blob else ()
            found[partition] = FirstNeeded(min((next_offset, *(each[0] for each in lanes if each))), NOBODY)
        held: set[int] = set()
        for row in self.lanes():
            if row.state in ENDED_STATES:
                continue
            if row.state in HELD_STATES:
                held.add(row.lane)
            first = first_undone(row)
            _wait(found, row.partition, NOBODY if first is None else first, row.lane in held)
        for lane, partition, offset in self.first_retries():
            _wait(found, partition, offset, lane in held)
        return found

    def furthest_offsets(self) -> Iterator[tuple[Any, ...]]:
        """Yield (partition, offset) of everything that was read; whatever else is written of an event is written with
        a checkpoint that lies behind it."""
        yield from self._rows("SELECT partition, next_offset FROM checkpoints")
        query = f"SELECT partition, max(next_offset) FROM lanes WHERE next_offset < {OFFSET_MAX} GROUP BY partition"
        yield from self._rows(query)

    def filter_versions(self, lane: int, partition: int) -> list[int]:
        """Return every connections version whose filters decided about some event of the lane."""
        query = "SELECT version FROM lane_filters WHERE lane = ? AND partition = ? GROUP BY version"
        return [version for (version,) in self._rows(query, (lane, partition))]

    def filters_at(self, lane: int, partition: int, offset: int) -> int | None:
        """Return the version whose filters decided when the lane came to an event."""
        return self._number(
            'SELECT version FROM lane_filters WHERE lane = ? AND partition = ? AND "offset" <= ?'
            " ORDER BY id DESC LIMIT 1",
            (lane, partition, offset),
        )

    def filters_in_force(self, lane: int, partition: int, at_ms: int) -> int | None:
        """Return the version whose filters were a lane's at a moment."""
        return self._number(
            "SELECT version FROM lane_filters WHERE lane = ? AND partition = ? AND at <= ? ORDER BY id DESC LIMIT 1",
            (lane, partition, at_ms),
        )

    # Retry rows

    def backlogs(self, partition: int | None = None) -> dict[int, RetryBacklog]:
        """Return the retry rows per lane, in one partition or in all."""
        where = "" if partition is None else f" WHERE partition = {partition:d}"
        rows = self._rows(f"SELECT lane, count(*), min(due) FROM retries{where} GROUP BY lane")
        return {lane: RetryBacklog(count, due) for lane, count, due in rows}

    def retry_counts(self) -> dict[int, RetryCounts]:
        """Return the counts of every lane's retry rows."""
        tried = "sum(CASE WHEN attempt > 0 THEN 1 ELSE 0 END)"
        rows = self._rows(f"SELECT lane, {tried}, count(*) - {tried}, min(first_at) FROM retries GROUP BY lane")
        return {lane: RetryCounts(int(tried), int(untried), oldest) for lane, tried, untried, oldest in rows}

    def retry_attempt(self, lane: int, partition: int, offset: int) -> int | None:
        """Return how often an event that waits for another try was tried; None when it does not wait for one."""
        query = 'SELECT attempt FROM retries WHERE lane = ? AND partition = ? AND "offset" = ?'
        return self._number(query, (lane, partition, offset))

    def retry_lanes(self, partition: int, offset: int) -> list[int]:
        """Return the lanes in which an event waits for another try."""
        query = 'SELECT lane FROM retries WHERE partition = ? AND "offset" = ?'
        return [lane for (lane,) in self._rows(query, (partition, offset))]

    def retry_count(self, lane: int, most: int | None = None) -> int:
        """Return how many retry rows a lane has, counted up to ``most``."""
        limit = "" if most is None else f" LIMIT {most:d}"
        query = f"SELECT count(*) FROM (SELECT 1 FROM retries WHERE lane = ?{limit}) AS counted"
        return self._number(query, (lane,)) or 0

    def retried_before(self, lane: int, partition: int, offset: int, limit: int) -> list[int]:
        """Return the newest offsets before this one that a lane tries again."""
        query = (
            'SELECT "offset" FROM retries WHERE lane = ? AND partition = ? AND "offset" < ?'
            ' ORDER BY "offset" DESC LIMIT ?'
        )
        return [each for (each,) in self._rows(query, (lane, partition, offset, limit))]

    def retried_between(self, lane: int, partition: int, first: int, last: int) -> list[int]:
        """Return the offsets of a lane's retry rows from ``first`` to ``last``."""
        query = 'SELECT "offset" FROM retries WHERE lane = ? AND partition = ? AND "offset" BETWEEN ? AND ?'
        return [offset for (offset,) in self._rows(query, (lane, partition, first, last))]

    def first_retries(self) -> list[FirstRetry]:
        """Return where the retry rows of each lane begin."""
        return [FirstRetry(*row) for row in self._rows(_FIRST_RETRIES)]

    def oldest_retry_ms(self, lane: int) -> int | None:
        """Return when the oldest event that is tried again was tried first."""
        return self._number("SELECT min(first_at) FROM retries WHERE lane = ?", (lane,))

    def next_retry_ms(self, lane: int) -> int | None:
        """Return when the first event that was tried is due again, by the service's own clock; others, also some that
        were tried, wait for their turn."""
        query = f"SELECT due FROM retries WHERE lane = ? AND attempt > 0 AND due < {NEVER_MS} ORDER BY due LIMIT 1"
        return self._number(query, (lane,))

    # Ranges, replays, erasures

    def range_of(self, lane: int, partition: int, offset: int) -> SavedRange | None:
        """Return the range of a lane that an event is in."""
        where = "WHERE lane = ? AND partition = ? AND first_offset <= ? AND last_offset >= ?"
        rows = self._rows(f"{_RANGE} {where}", (lane, partition, offset, offset))
        return SavedRange(*rows[0]) if rows else None

    def ranges_passed_by_retention(self, after_id: int, after_ms: int) -> list[SavedRange]:
        """Return what retention took from lanes since some row and time."""
        where = "WHERE id > ? AND status = 'expired_by_retention' AND at > ?"
        return [SavedRange(*row) for row in self._rows(f"{_RANGE} {where}", (after_id, after_ms))]

    def ranges_discarded(self, destination: str, since_ms: int) -> list[SavedRange]:
        """Return what was discarded when a destination was disabled; what a person took out of a replay is not
        meant."""
        where = "WHERE destination = ? AND at >= ? AND status = 'discarded' AND lane NOT IN (SELECT lane FROM replays)"
        return [SavedRange(*row) for row in self._rows(f"{_RANGE} {where}", (destination, since_ms))]

    def lanes_discarded(self) -> dict[int, str]:
        """Return the destinations' own lanes of which something was discarded, each with its destination."""
        where = "WHERE status = 'discarded' AND lane NOT IN (SELECT lane FROM replays)"
        return dict(self._rows(f"SELECT DISTINCT lane, destination FROM ranges {where}"))

    def destinations_without(self, partition: int, first: int, end: int) -> set[str]:
        """Return the destinations that waited for offsets ``[first, end)`` when they were lost with their segment."""
        rows = self._rows(
            "SELECT DISTINCT destination FROM ranges WHERE status = 'discarded' AND reason LIKE 'journal segment %'"
            " AND partition = ? AND first_offset < ? AND last_offset >= ?",
            (partition, end, first),
        )
        return {destination for (destination,) in rows}

    def not_delivered(self) -> dict[str, int]:
        """Return how many events were not delivered, by status."""
        rows = self._rows(
            "SELECT status, count(*) FROM dead_letters GROUP BY status UNION ALL"
            " SELECT status, sum(last_offset - first_offset + 1) FROM ranges GROUP BY status"
        )
        return {str(status): int(count) for status, count in rows}

    def totals(self) -> dict[str, DestinationTotals]:
        """Return the totals of every destination that has any."""
        rows = self._rows("SELECT destination, sum(delivered), min(since) FROM delivered GROUP BY destination")
        found = {destination: DestinationTotals(int(count), since) for destination, count, since in rows}
        kept: dict[str, dict[str, int]] = {}
        query = "SELECT destination, status, count(*) FROM dead_letters GROUP BY destination, status"
        for destination, status, count in self._rows(query):
            kept.setdefault(destination, {})[status] = count
        for destination, counts in kept.items():
            found[destination] = found.get(destination, DestinationTotals())._replace(dead_letters=counts)
        return found

    def replay(self, lane: int) -> SavedReplay | None:
        """Return the counts of a replay; None before its lane was opened, as far as that is saved."""
        query = "SELECT state, delivered, failed, started_at, ended_at, reason FROM replays WHERE lane = ?"
        rows = self._rows(query, (lane,))
        return SavedReplay(*rows[0]) if rows else None

    def replay_states(self) -> dict[int, str]:
        """Return the state of each replay that has begun."""
        return dict(self._rows("SELECT lane, state FROM replays"))

    def last_action(self) -> int:
        """Return the last action on dead letters that was carried out."""
        return self._number("SELECT last FROM dead_letter_actions", ()) or 0

    def erased(self, request: int, asked_ms: int, round: int) -> ErasedRows | None:
        """Return what an erasure took away; None until it is done."""
        rows = self._rows(
            "SELECT retries, dead_letters, attempts FROM erasures"
            ' WHERE request = ? AND asked_at = ? AND "round" = ? AND done_at IS NOT NULL',
            (request, asked_ms, round),
        )
        return ErasedRows(*rows[0]) if rows else None

    def erased_partitions(self, request: int, asked_ms: int, round: int) -> frozenset[int]:
        """Return the partitions in which an erasure is done."""
        query = 'SELECT partition FROM erased_parts WHERE request = ? AND asked_at = ? AND "round" = ?'
        return frozenset(partition for (partition,) in self._rows(query, (request, asked_ms, round)))

    def erased_offsets(self, partition: int | None = None) -> Iterator[tuple[int, OffsetSet]]:
        """Yield what deliver processes noted as erased, in one partition or in all."""
        where = "" if partition is None else f" WHERE partition = {partition:d}"
        for (blob,) in self._rows(f"SELECT places FROM erased_parts{where}"):
            yield from decode_offset_sets(blob).items()

    def sink_news(self, after_id: int) -> list[SinkNews]:
        """Return what sinks have said of themselves behind a row, oldest first; a bounded number is kept."""
        query = "SELECT id, destination, at, sentence FROM sink_news WHERE id > ? ORDER BY id"
        return [SinkNews(*row) for row in self._rows(query, (after_id,))]

    # Usage, and the processes

    def usage(self, first_day: int, last_day: int, source: str | None) -> list[tuple[int, str, int, int]]:
        """Return (day since the epoch, source, events, filtered) of some days."""
        return self._rows(
            "SELECT day, source, events, filtered FROM usage"
            " WHERE day >= ?1 AND day <= ?2 AND (source = ?3 OR ?3 IS NULL)",
            (first_day, last_day, source),
        )

    def usage_by(self, column: Literal["day", "source"], first_day: int, last_day: int) -> list[tuple[Any, int, int]]:
        """Return (day or source, events, filtered), summed over some days."""
        query = f"SELECT {column}, sum(events), sum(filtered) FROM usage WHERE day >= ? AND day <= ? GROUP BY {column}"
        return self._rows(query, (first_day, last_day))

    def workers(self) -> list[SavedWorker]:
        """Return what each deliver process said of itself last, where there are many."""
        query = "SELECT worker, started_at, seen_at, state FROM workers ORDER BY worker"
        return [SavedWorker(*row) for row in self._rows(query)]

    def owned(self) -> list[SavedOwner]:
        """Return who owns which partition, where deliver is many processes."""
        return [SavedOwner(*row) for row in self._rows("SELECT partition, epoch, worker, since FROM owned")]

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            connection = self._open()
            return [] if connection is None else connection.execute(query, values).fetchall()

    def _number(self, query: str, values: Collection[int | str]) -> int | None:
        rows = self._rows(query, tuple(values))
        return rows[0][0] if rows else None


def first_undone(row: SavedLane) -> int | None:
    """Return the first offset that a lane's own row still waits for: its position, or an older event it has taken.

    An attached lane has a row only for the part of a new source's stream that it still catches up with.
    """
    cursor = positions.decode_cursor(row.blob)
    own = [backfill.next_offset for backfill in cursor.backfills] + [*cursor.undone[:1]]
    return min((*own, *(() if cursor.attached else (row.next_offset,))), default=None)


def _wait(found: dict[int, FirstNeeded], partition: int, offset: int, is_held: bool) -> None:
    working, held = found.get(partition, ALL_IS_WAITED_FOR)
    found[partition] = FirstNeeded(working, min(held, offset)) if is_held else FirstNeeded(min(working, offset), held)
