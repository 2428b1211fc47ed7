"""What is known of one event's delivery to one destination: its status and its attempts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from hookline.connections.model import Destination
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.outcomes import places
from hookline.outcomes.attempt_log import FAILURE, RESULT, id_of
from hookline.outcomes.filter_rules import EventRules
from hookline.outcomes.outcome import Outcome, from_number
from hookline.outcomes.progress import DUPLICATE_TAG, OFFSET_MASK, PLACE_SHIFT, Entry
from hookline.outcomes.results import Results
from hookline.outcomes.status import DeliveryStatus, QueuedReason

TAKEN_OUT = "sent without what its filters take out"
HELD_STATES = frozenset({"open", "suspect", "paused", "gone"})
PAUSED = "paused"
BY_HAND = "it was a dead letter, and a person discarded it"
LOOKED_AT_MAX = 1_000
ONE_AT_A_TIME = "the receiver keeps failing; one event at a time is tried"


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """One request to one URL."""

    number: int
    url: str
    at: str
    outcome: Outcome
    http_status: int | None
    error: str | None
    milliseconds: int
    next_at: str | None
    replay: str | None = None
    """The id of the replay that made it; None at first hand."""
    id: str | None = None
    """By which ``destinations/{id}/attempts/{attempt}`` has more of it."""


class ReplayStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a replay made of an event at one destination."""

    id: str
    status: DeliveryStatus
    reason: str | None = None


class DestinationStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of an event at one destination.

    ``reason`` says why: of a queued event one of ``next``, ``catching_up``, ``breaker_open``, ``paused``,
    ``rate_limited`` and ``ordered``, else a sentence or a code. ``rule`` names the filter that decided.
    """

    id: str
    status: DeliveryStatus
    reason: str | None = None
    rule: str | None = None
    attempts: tuple[Attempt, ...] = ()
    replays: tuple[ReplayStatus, ...] = ()
    detail: str | None = None
    """What people should know beside the reason, such as that nothing is known of its delivery."""


class LaneProgress(NamedTuple):
    """Where a lane stands: its own place if it has one, else the shared reader's. ``detached``: it is behind that."""

    next_offset: int
    state: str
    undone: places.Ranges
    backfills: tuple[places.SavedBackfill, ...] = ()
    detached: bool = False

    def has_passed(self, offset: int, source: str | None) -> bool:
        """Return whether the lane has come to the event of this source (None: one aimed at it), as its cursors tell."""
        behind = (backfill for backfill in self.backfills if backfill.source == source)
        return offset < self.next_offset and not any(
            backfill.next_offset <= offset < backfill.end for backfill in behind
        )


class Deliveries:
    """Reads deliver's database at ``place`` and the data folder's progress ring; never writes."""

    def __init__(self, data_path: Path, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._results = Results(data_path)

    def status(
        self, destination: Destination, lane: int, partition: int, offset: int, rules: EventRules
    ) -> DestinationStatus | None:
        """Return the status of the routed event at this place; None when nothing is known although the lane has passed
        it."""
        connection = self._open()
        if connection is None:
            return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT)
        connection.execute("BEGIN")  # one moment: between two look-ups a checkpoint may move the event
        try:
            return self._status(connection, destination, lane, partition, offset, rules)
        finally:
            connection.execute("COMMIT")

    def _status(
        self,
        connection: Connection,
        destination: Destination,
        lane: int,
        partition: int,
        offset: int,
        rules: EventRules,
    ) -> DestinationStatus | None:
        results = [entry for entry in self._entries(partition, offset) if entry.lane == lane]
        failed = _failed_attempts(connection, lane, partition, offset)
        attempts = tuple(_merge(failed, results, destination))
        sent_at_ms = [entry.at_ms for entry in results] + [_ms(attempt.at) for attempt in failed]
        rule = _editing(connection, lane, partition, max(sent_at_ms), rules) if sent_at_ms else None
        if any(200 <= entry.result < 300 for entry in results):
            return DestinationStatus(
                destination.id, DeliveryStatus.DELIVERED, TAKEN_OUT if rule else None, rule, attempts
            )
        status, reason, stopping = self._open_status(connection, destination, lane, partition, offset, failed, rules)
        return DestinationStatus(destination.id, status, reason, stopping or rule, attempts) if status else None

    def filter_versions(self, lane: int, partition: int) -> list[int]:
        """Return every connections version whose filters decided about some event of the lane."""
        connection = self._open()
        query = "SELECT version FROM lane_filters WHERE lane = ? AND partition = ? GROUP BY version"
        return [] if connection is None else [row[0] for row in connection.execute(query, (lane, partition))]

    def duplicates(self, partition: int, offset: int) -> int:
        """Return how many repeats of the event at this place were dropped."""
        place = partition << PLACE_SHIFT | offset
        found = self._results.of_place(self._open(), partition, offset)
        return len({entry.at_ms for entry in found if entry.place == place and entry.lane == DUPLICATE_TAG})

    def version(self, partition: int) -> int:
        """Return the connections version in force at the last checkpoint."""
        connection = self._open()
        query = "SELECT version FROM checkpoints WHERE partition = ?"
        row = connection.execute(query, (partition,)).fetchone() if connection is not None else None
        return int(row[0] or 0) if row else 0

    def progress(self, lane: int, partition: int) -> LaneProgress:
        """Return where a lane stands; at the journal's begin as long as deliver has not saved anything."""
        connection = self._open()
        return _progress(connection, lane, partition) if connection is not None else LaneProgress(0, "closed", ())

    def retrying(self, lane: int) -> int:
        """Return how many retry rows a lane has."""
        return self._number("SELECT count(*) FROM retries WHERE lane = ?", lane) or 0

    def retried_before(self, lane: int, partition: int, offset: int) -> list[int]:
        """Return the newest offsets before this one that a lane tries again, at most ``LOOKED_AT_MAX``."""
        connection = self._open()
        query = (
            'SELECT "offset" FROM retries WHERE lane = ? AND partition = ? AND "offset" < ?'
            f' ORDER BY "offset" DESC LIMIT {LOOKED_AT_MAX}'
        )
        return [] if connection is None else [row[0] for row in connection.execute(query, (lane, partition, offset))]

    def oldest_retry_ms(self, lane: int) -> int | None:
        """Return when the oldest event that is tried again was tried first."""
        return self._number("SELECT min(first_at) FROM retries WHERE lane = ?", lane)

    def next_retry_ms(self, lane: int) -> int | None:
        """Return when the first event that was tried is due again, by the service's own clock; others wait for their
        turn."""
        return self._number("SELECT due FROM retries WHERE lane = ? AND attempt > 0 ORDER BY due LIMIT 1", lane)

    def dead_letters(self, destination: str) -> int:
        """Return how many dead letters of a destination are kept."""
        return (
            self._number(
                "SELECT count(*) FROM dead_letters WHERE destination = ? AND status <> 'discarded'", destination
            )
            or 0
        )

    def has_begun(self, replay_lane: int) -> bool:
        """Return whether a replay's lane was ever opened, as far as that is saved."""
        return self._number("SELECT 1 FROM replays WHERE lane = ?", replay_lane) is not None

    def _number(self, query: str, value: int | str) -> int | None:
        connection = self._open()
        row = connection.execute(query, (value,)).fetchone() if connection is not None else None
        return None if row is None else row[0]

    def close(self) -> None:
        """Let go of files."""
        self._database.close()
        self._results.close()

    def _open_status(
        self,
        connection: Connection,
        destination: Destination,
        lane: int,
        partition: int,
        offset: int,
        failed: list[Attempt],
        rules: EventRules,
    ) -> tuple[DeliveryStatus | None, str | None, str | None]:
        """Status, reason, and the filter that stopped the event."""
        where = 'lane = ? AND partition = ? AND "offset" = ?'
        key = (lane, partition, offset)
        progress = _progress(connection, lane, partition)
        retry = connection.execute(f"SELECT attempt FROM retries WHERE {where}", key).fetchone()
        if retry is not None:
            if retry[0] == 0 or progress.state == PAUSED:
                return DeliveryStatus.QUEUED, _queued(progress, destination, has_row=True), None
            return DeliveryStatus.RETRYING, ONE_AT_A_TIME if progress.state in HELD_STATES else None, None
        # Only now: a replay's letter that came back to waiting is kept until its event is delivered.
        dead = connection.execute(f"SELECT status, error FROM dead_letters WHERE {where}", key).fetchone()
        if dead is not None:
            status = DeliveryStatus(dead[0])
            return status, BY_HAND if status is DeliveryStatus.DISCARDED else None, None
        passed = progress.has_passed(offset, rules.source)
        taken = passed and offset not in set(places.to_offsets(progress.undone))
        rule = _stopping(connection, lane, partition, offset, rules) if taken else None
        if rule is not None:
            return DeliveryStatus.FILTERED, None, rule
        dropped = connection.execute(
            "SELECT status, reason FROM ranges"
            " WHERE lane = ? AND partition = ? AND first_offset <= ? AND last_offset >= ?",
            (*key, offset),
        ).fetchone()
        if dropped is not None:
            return DeliveryStatus(dropped[0]), dropped[1], None
        if not taken:
            return DeliveryStatus.QUEUED, _queued(progress, destination, is_next=passed), None
        if failed:  # the dead letter was trimmed; its last attempt tells which it was
            final = failed[-1].outcome in (Outcome.REFUSED, Outcome.BLOCKED_ADDRESS)
            return DeliveryStatus.FAILED if final else DeliveryStatus.EXPIRED, None, None
        return None, None, None

    def _entries(self, partition: int, offset: int) -> list[Entry]:
        found = self._results.of_place(self._open(), partition, offset)
        return sorted({entry for entry in found if entry.lane != DUPLICATE_TAG}, key=lambda entry: entry.at_ms)

    def _open(self) -> Connection | None:
        return self._database.open()


def _progress(connection: Connection, lane: int, partition: int) -> LaneProgress:
    own = connection.execute(
        "SELECT next_offset, state, blob FROM lanes WHERE lane = ? AND partition = ?", (lane, partition)
    ).fetchone()
    shared = connection.execute(
        "SELECT next_offset, blob FROM checkpoints WHERE partition = ?", (partition,)
    ).fetchone()
    if own is not None:
        cursor = places.decode_cursor(own[2])
        next_offset = shared[0] if cursor.attached and shared else own[0]
        return LaneProgress(next_offset, own[1], cursor.undone, cursor.backfills, detached=not cursor.attached)
    replay = connection.execute("SELECT ended_at FROM replays WHERE lane = ?", (lane,)).fetchone()
    if replay is not None:  # it never follows the shared reader: without a row it is at its begin, or has ended
        return LaneProgress(0 if replay[0] is None else OFFSET_MASK, "closed", ())
    if shared is None:
        return LaneProgress(0, "closed", ())
    return LaneProgress(shared[0], "closed", places.decode_offset_sets(shared[1]).lanes.get(lane, ()))


def _queued(
    progress: LaneProgress, destination: Destination, *, has_row: bool = False, is_next: bool = False
) -> QueuedReason:
    """Return why an event waits. ``has_row``: it waits by itself, beside the stream; ``is_next``: the lane has it."""
    if progress.state == PAUSED:
        return QueuedReason.PAUSED
    if progress.state in HELD_STATES and not is_next:
        return QueuedReason.BREAKER_OPEN
    delivery = destination.delivery
    if has_row and delivery.order != "none":
        return QueuedReason.ORDERED
    if delivery.max_rate is not None:
        return QueuedReason.RATE_LIMITED
    return QueuedReason.CATCHING_UP if progress.detached and not is_next else QueuedReason.NEXT


def _stopping(connection: Connection, lane: int, partition: int, offset: int, rules: EventRules) -> str | None:
    """Return the filter that stopped the event when the lane came to it: of the version that decided from there on."""
    row = connection.execute(
        'SELECT version FROM lane_filters WHERE lane = ? AND partition = ? AND "offset" <= ? ORDER BY id DESC LIMIT 1',
        (lane, partition, offset),
    ).fetchone()
    return rules.stopping(row[0]) if row else None


def _editing(connection: Connection, lane: int, partition: int, at_ms: int, rules: EventRules) -> str | None:
    """Return the filters that took something out of what was sent: of the version in force at that moment."""
    row = connection.execute(
        "SELECT version FROM lane_filters WHERE lane = ? AND partition = ? AND at <= ? ORDER BY id DESC LIMIT 1",
        (lane, partition, at_ms),
    ).fetchone()
    return rules.editing(row[0]) if row else None


def _failed_attempts(connection: Connection, lane: int, partition: int, offset: int) -> list[Attempt]:
    rows = connection.execute(
        "SELECT id, number, url, at, outcome, http_status, error, milliseconds, next_at FROM attempts"
        ' WHERE partition = ? AND "offset" = ? AND lane = ? ORDER BY id',
        (partition, offset, lane),
    )
    return [
        Attempt(
            number,
            url,
            iso(at),
            Outcome(outcome),
            status,
            error or None,
            ms,
            iso(next_at) if next_at else None,
            id=id_of((at, FAILURE, id, 0, 0)),
        )
        for id, number, url, at, outcome, status, error, ms, next_at in rows
    ]


def _merge(failed: list[Attempt], results: list[Entry], destination: Destination) -> Iterator[Attempt]:
    """Rows are the failures that decided an attempt; results are successes, and failures beside a success."""
    yield from failed
    number = max((attempt.number for attempt in failed), default=0) + 1
    webhooks = destination.settings.webhooks
    for entry in results:
        outcome, status = from_number(entry.result)
        url = webhooks[entry.url_index].url if entry.url_index < len(webhooks) else ""
        id = id_of((entry.at_ms, RESULT, entry.lane, entry.place, entry.url_index))
        yield Attempt(number, url, iso(entry.at_ms), outcome, status, None, entry.milliseconds, None, id=id)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
