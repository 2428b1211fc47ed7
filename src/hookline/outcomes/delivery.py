"""What is known of one event's delivery to one destination: its status and its attempts."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hookline.connections.model import Destination, is_sink
from hookline.connections.state import decode_object
from hookline.database.location import DatabaseLocation
from hookline.events.timestamps import iso
from hookline.expressions.lexer import ExpressionError
from hookline.journal.record import Record
from hookline.outcomes import positions
from hookline.outcomes.outcome import DeliveryStatus, Outcome, QueuedReason, from_number
from hookline.outcomes.progress import DUPLICATE_TAG, OFFSET_MASK, POSITION_SHIFT, Entry
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.request_urls import RequestUrls
from hookline.outcomes.results import FAILURE, RESULT, Results, id_of
from hookline.outcomes.rows import SavedAttempt
from hookline.route.filters import Filters, rules_of

KEPT = 64
"""Compiled filters kept from one look-up to the next."""

Query = Callable[[str, tuple[str | int, ...]], list[tuple[Any, ...]]]


class FilterRules:
    """Reads destinations as they were at a version, by ``query`` on control.db."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._kept: OrderedDict[tuple[str, int], Filters | None] = OrderedDict()

    def of(self, destination: str, record: Record) -> EventRules:
        """Return the rules for one event at one destination."""
        return EventRules(lambda version: self._at(destination, version), record)

    def _at(self, destination: str, version: int) -> Filters | None:
        key = (destination, version)
        filters = self._kept.pop(key) if key in self._kept else self._read(destination, version)
        self._kept[key] = filters
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return filters

    def _read(self, destination: str, version: int) -> Filters | None:
        rows = self._query(
            "SELECT document FROM objects WHERE kind = 'destination' AND id = ? AND since <= ?"
            " AND (until IS NULL OR until > ?)",
            (destination, version, version),
        )
        try:
            return Filters(*rules_of(decode_object("destination", rows[0][0]))) if rows else None
        except (msgspec.MsgspecError, ExpressionError):  # what deliver cannot use either decided nothing
            return None


class EventRules:
    """Hold what the filters of a version do with one event."""

    def __init__(self, filters_at: Callable[[int], Filters | None], record: Record) -> None:
        self._filters_at = filters_at
        self._record = record

    @property
    def record(self) -> Record:
        """Return the event's record."""
        return self._record

    @property
    def source(self) -> str | None:
        """Return the source that routes the event; None for one that is aimed at its destinations."""
        return self._record.source if self._record.to is None else None

    def stopping(self, version: int) -> str | None:
        """Return the filter that does not send the event, None when it is sent."""
        filters = self._filters_at(version)
        index = None if filters is None else filters.decide(self._record).stopped_by
        return None if filters is None or index is None else _named(filters.rule(index), version)

    def editing(self, version: int) -> str | None:
        """Return the filters that take something out of the body, None when it is sent as it came."""
        filters = self._filters_at(version)
        indexes = () if filters is None else filters.edited_by(self._record)
        return _named("; ".join(map(filters.rule, indexes)), version) if filters and indexes else None


def _named(rule: str, version: int) -> str:
    return f"{rule} (version {version} of the connections)"


_VERSION = re.compile(r" \(version ([0-9]+) of the connections\)\Z")


def rule_and_version(rule: str) -> tuple[str, int | None]:
    """Return the ``rule`` of a status without the version that it names, and that version."""
    found = _VERSION.search(rule)
    return (rule[: found.start()], int(found[1])) if found else (rule, None)


TAKEN_OUT = "sent without what its filters take out"
HELD_STATES = frozenset({"open", "suspect", "paused", "gone"})
PAUSED = "paused"
BY_HAND = "it was a dead letter, and a person discarded it"
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
    remark: str | None = None
    """What a destination that is no receiver said when it accepted the event, such as how much it erased."""


class ReplayStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status that a replay gave an event at one destination."""

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
    """The position of a lane: its own if it has one, else the shared reader's. ``detached``: it is behind that."""

    next_offset: int
    state: str
    undone: positions.Ranges
    backfills: tuple[positions.SavedBackfill, ...] = ()
    detached: bool = False

    def has_passed(self, offset: int, source: str | None) -> bool:
        """Return whether the lane has come to the event of this source (None: one aimed at it), as its cursors tell."""
        behind = (backfill for backfill in self.backfills if backfill.source == source)
        return offset < self.next_offset and not any(
            backfill.next_offset <= offset < backfill.end for backfill in behind
        )


class Deliveries:
    """Reads deliver's database at ``location`` and the data folder's progress ring; never writes."""

    def __init__(self, data_path: Path, location: DatabaseLocation) -> None:
        self.rows = DeliverReader(location)
        """What is asked for beside a status."""
        self._results = Results(data_path, self.rows)

    def status(
        self, destination: Destination, lane: int, partition: int, offset: int, rules: EventRules
    ) -> DestinationStatus | None:
        """Return the status of the routed event at this position; None when nothing is known although the lane has
        passed it."""
        if not self.rows.exists:
            return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT)
        with self.rows.one_moment():
            return self._status(destination, lane, partition, offset, rules)

    def _status(
        self, destination: Destination, lane: int, partition: int, offset: int, rules: EventRules
    ) -> DestinationStatus | None:
        results = [entry for entry in self._entries(partition, offset) if entry.lane == lane]
        failed = [_of_row(row) for row in self.rows.attempts.of_event(lane, partition, offset)]
        remark = self.rows.attempts.remark(lane, partition, offset) if results and is_sink(destination.kind) else None
        attempts = tuple(_merge(failed, results, destination, rules.record, remark))
        sent_at_ms = [entry.at_ms for entry in results] + [_ms(attempt.at) for attempt in failed]
        rule = None
        if sent_at_ms:  # what was taken out of it: by the filters in force at that moment
            in_force = self.rows.filters_in_force(lane, partition, max(sent_at_ms))
            rule = None if in_force is None else rules.editing(in_force)
        if any(200 <= entry.result < 300 for entry in results):
            return DestinationStatus(
                destination.id, DeliveryStatus.DELIVERED, TAKEN_OUT if rule else None, rule, attempts
            )
        status, reason, stopping = self._open_status(destination, lane, partition, offset, failed, rules)
        return DestinationStatus(destination.id, status, reason, stopping or rule, attempts) if status else None

    def duplicates(self, partition: int, offset: int) -> int:
        """Return how many repeats of the event at this position were dropped."""
        position = partition << POSITION_SHIFT | offset
        found = self._results.of_position(partition, offset)
        return len({entry.at_ms for entry in found if entry.position == position and entry.lane == DUPLICATE_TAG})

    def progress(self, lane: int, partition: int) -> LaneProgress:
        """Return where a lane stands; at the journal's begin as long as deliver has not saved anything."""
        own = self.rows.lane(lane, partition)
        shared = self.rows.checkpoint(partition)
        if own is not None:
            cursor = positions.decode_cursor(own.blob)
            next_offset = shared.next_offset if cursor.attached and shared else own.next_offset
            return LaneProgress(next_offset, own.state, cursor.undone, cursor.backfills, detached=not cursor.attached)
        replay = self.rows.replay(lane)
        if replay is not None:  # it never follows the shared reader: without a row it is at its begin, or has ended
            return LaneProgress(0 if replay.ended_ms is None else OFFSET_MASK, "closed", ())
        if shared is None:
            return LaneProgress(0, "closed", ())
        return LaneProgress(shared.next_offset, "closed", positions.decode_offset_sets(shared.blob).lanes.get(lane, ()))

    def close(self) -> None:
        """Let go of files."""
        self.rows.close()
        self._results.close()

    def _open_status(
        self,
        destination: Destination,
        lane: int,
        partition: int,
        offset: int,
        failed: list[Attempt],
        rules: EventRules,
    ) -> tuple[DeliveryStatus | None, str | None, str | None]:
        """Status, reason, and the filter that stopped the event."""
        progress = self.progress(lane, partition)
        attempt = self.rows.retry_attempt(lane, partition, offset)
        if attempt is not None:
            if attempt == 0 or progress.state == PAUSED:
                return DeliveryStatus.QUEUED, _queued(progress, destination, has_row=True), None
            return DeliveryStatus.RETRYING, ONE_AT_A_TIME if progress.state in HELD_STATES else None, None
        # Only now: a replay's letter that came back to waiting is kept until its event is delivered.
        dead = self.rows.dead_letters.of_event(lane, partition, offset)
        if dead is not None:
            status = DeliveryStatus(dead)
            return status, BY_HAND if status is DeliveryStatus.DISCARDED else None, None
        passed = progress.has_passed(offset, rules.source)
        taken = passed and offset not in set(positions.to_offsets(progress.undone))
        decided = self.rows.filters_at(lane, partition, offset) if taken else None
        rule = None if decided is None else rules.stopping(decided)
        if rule is not None:
            return DeliveryStatus.FILTERED, None, rule
        dropped = self.rows.range_of(lane, partition, offset)
        if dropped is not None:
            return DeliveryStatus(dropped.status), dropped.reason, None
        if not taken:
            return DeliveryStatus.QUEUED, _queued(progress, destination, is_next=passed), None
        if failed:  # the dead letter was trimmed; its last attempt tells which it was
            final = failed[-1].outcome in (Outcome.REFUSED, Outcome.BLOCKED_ADDRESS)
            return DeliveryStatus.FAILED if final else DeliveryStatus.EXPIRED, None, None
        return None, None, None

    def _entries(self, partition: int, offset: int) -> list[Entry]:
        found = self._results.of_position(partition, offset)
        return sorted({entry for entry in found if entry.lane != DUPLICATE_TAG}, key=lambda entry: entry.at_ms)


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


def _of_row(row: SavedAttempt) -> Attempt:
    return Attempt(
        row.number,
        row.url,
        iso(row.at_ms),
        Outcome(row.outcome),
        row.http_status,
        row.error or None,
        row.milliseconds or 0,
        iso(row.next_at_ms) if row.next_at_ms else None,
        id=id_of((row.at_ms, FAILURE, row.id, 0, 0)),
    )


def _merge(
    failed: list[Attempt], results: list[Entry], destination: Destination, record: Record, remark: str | None
) -> Iterator[Attempt]:
    """Rows are the failures that decided an attempt; results are successes, and failures beside a success."""
    yield from failed
    number = max((attempt.number for attempt in failed), default=0) + 1
    urls = RequestUrls(destination) if results else None
    for entry in results:
        outcome, status = from_number(entry.result)
        url = urls.of(entry.url_index, record) if urls is not None else ""
        id = id_of((entry.at_ms, RESULT, entry.lane, entry.position, entry.url_index))
        said = remark if outcome is Outcome.SUCCESS else None
        yield Attempt(
            number, url, iso(entry.at_ms), outcome, status, None, entry.milliseconds, None, id=id, remark=said
        )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
