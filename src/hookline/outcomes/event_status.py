"""The status of an event: read from the journal, the index and deliver.db, by any process.

Nothing is stored per event that can be derived: routing is decided again from the connections in force at the event's
offset, a delivery is found in the blocks of results or the progress ring, and where a lane stands tells what waits."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from hookline.connections.kinds import no_delete_message
from hookline.connections.model import Destination, LaneConfig, Snapshot
from hookline.connections.secrets import why_unusable
from hookline.connections.state import Feed, decode_object
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.events.untyped import scalar, text
from hookline.events.warnings import EventWarning, warnings_of
from hookline.index import lookup
from hookline.journal.damaged import described, noted_damage
from hookline.journal.opening import FOLDER, open_reader
from hookline.journal.reading import is_lost
from hookline.journal.record import SYNC_SOURCE, Record, fingerprint
from hookline.outcomes.delivery import (
    ONE_AT_A_TIME,
    Attempt,
    Deliveries,
    DestinationStatus,
    EventRules,
    FilterRules,
    ReplayStatus,
)
from hookline.outcomes.outcome import DeliveryStatus, QueuedReason
from hookline.replays.model import Replay
from hookline.replays.offset_set import OffsetSet
from hookline.replays.predicate import predicate_of
from hookline.replays.store import ReplayFeed
from hookline.route.decision import not_routed_reason
from hookline.route.filters import UNFILTERED_TYPE
from hookline.settings import Settings

POSITIONS_KEPT = 8
"""Replays of single events whose positions are held in memory from one look to the next."""


class Replayed:
    """Adds replays to the statuses of an event; not thread-safe."""

    def __init__(
        self,
        location: DatabaseLocation,
        deliveries: Deliveries,
        rules: FilterRules,
        snapshot_of: Callable[[int], Snapshot],
    ) -> None:
        """``snapshot_of`` gives the connections of a version."""
        self._feed = ReplayFeed(location)
        self._deliveries = deliveries
        self._rules = rules
        self._snapshot_of = snapshot_of
        self._replays: list[Replay] = []
        self._positions: dict[tuple[int, int | None], dict[int, OffsetSet] | None] = {}

    def add(
        self,
        statuses: list[DestinationStatus],
        partition: int,
        offset: int,
        record: Record,
    ) -> list[DestinationStatus]:
        """Return the statuses with every replay of the event beside the one at first hand.

        A destination that the event was not routed to at first gets a status by its replays.
        """
        by_id = {status.id: status for status in statuses}
        for replay in self._covering(partition, offset):
            destination = _destination(self._snapshot_of(replay.version), replay.request.destination)
            if destination is None or not self._sends(replay, destination, partition, offset, record):
                continue
            found = self._status(replay, destination, partition, offset, record)
            if found is None:
                continue
            before = by_id.get(destination.id) or DestinationStatus(
                destination.id, DeliveryStatus.NOT_ROUTED, "connected_later"
            )
            by_id[destination.id] = replace(
                before,
                attempts=(*before.attempts, *(replace(each, replay=replay.id) for each in found.attempts)),
                replays=(*before.replays, ReplayStatus(replay.id, found.status, found.reason)),
            )
        return list(by_id.values())

    def close(self) -> None:
        """Let go of the file."""
        self._feed.close()

    def _status(
        self, replay: Replay, destination: Destination, partition: int, offset: int, record: Record
    ) -> DestinationStatus | None:
        """None when the replay passed the event without sending it, as a repeat."""
        if self._deliveries.rows.replay(replay.lane) is None and replay.ended_ms is None:
            return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT)
        rules = self._rules.of(destination.id, record)
        return self._deliveries.status(destination, replay.lane, partition, offset, rules)

    def _covering(self, partition: int, offset: int) -> Iterator[Replay]:
        found = self._feed.poll()
        if found is not None:
            self._replays = found
        return (each for each in self._replays if each.covers(partition, offset) and each.is_prepared)

    def _sends(self, replay: Replay, destination: Destination, partition: int, offset: int, record: Record) -> bool:
        positions = self._positions_of(replay)
        if positions is not None and offset not in positions.get(partition, ()):
            return False
        return predicate_of(replay.request, destination)(record)

    def _positions_of(self, replay: Replay) -> dict[int, OffsetSet] | None:
        if not replay.request.by_positions:
            return None
        key = replay.lane, replay.total
        if key not in self._positions:
            if len(self._positions) >= POSITIONS_KEPT:
                self._positions.pop(next(iter(self._positions)))
            self._positions[key] = self._feed.positions(replay.lane)
        return self._positions[key]


def _destination(snapshot: Snapshot, id: str) -> Destination | None:
    return next((each for each in snapshot.destinations if each.id == id), None)


SNAPSHOTS_KEPT = 8
DELETED = "the destination was deleted before it was sent"
NOTHING_KNOWN = "no record of its delivery was found; replay it if the receiver does not have it"
"""Attempts are kept as long as their events, so silence never means that one was delivered."""
UNCONNECTED_SHOWN_MAX = 100
"""With more destinations than this, those that the source does not feed are left out."""


class Rejection(msgspec.Struct, frozen=True):
    """Why an item was rejected when it arrived."""

    code: str
    message: str


class EventStatus(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The status of one event. ``status`` is set if no destination decides it; ``event`` is the caller's JSON.
    ``warnings`` name what was understood differently from how it was sent.
    """

    message_id: str
    source: str
    type: str
    user_id: str | None
    received_at: str
    duplicates: int
    status: DeliveryStatus | None
    rejection: Rejection | None
    event: msgspec.Raw
    warnings: tuple[EventWarning, ...] = ()
    destinations: tuple[DestinationStatus, ...]


DAMAGE_LOOKED_AT_MAX = 100
"""Ranges of damaged records that are looked at for a message that is not found, newest first."""
EARLIER_LOOKED_AT_MAX = 1_000
"""Retry rows before an event, looked at for one of the same user."""
DELETED_SOURCES_MAX = 1_000
"""Sources that were deleted last of all, looked at for a message that no other has sent."""


class FoundMessage(NamedTuple):
    """A message in the journal, and how often it came again."""

    partition: int
    offset: int
    record: Record
    repeats: int


class _UserId(msgspec.Struct):
    user_id: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="userId")


_user_id = msgspec.json.Decoder(_UserId)


class EventStatuses:
    """Looks up statuses in one installation. Not thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        data_path, control = settings.data_path, location_of(settings, "control")
        self._data_path = data_path
        self._journal = open_reader(data_path / FOLDER)
        self._feed = Feed(control)
        self._control = ReadOnly(control)
        self._deliveries = Deliveries(data_path, location_of(settings, "deliver"))
        self._rules = FilterRules(self._query)
        self._replayed = Replayed(control, self._deliveries, self._rules, self._snapshot)
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()

    def of_message(self, message_id: str, source: str | None = None) -> EventStatus | None:
        """Return the status of a message; None when no source (or not the given one) has sent it, or it is no longer
        kept."""
        found = self.find(message_id, source)
        return None if found is None else self._status(found.partition, found.offset, found.record, found.repeats)

    def find(self, message_id: str, source: str | None = None) -> FoundMessage | None:
        """Return where a message lies; None as for ``of_message``."""
        for name in [source] if source else self._source_ids():
            print_ = fingerprint(name, message_id)
            for partition in self._journal.partitions():
                offsets = lookup.find(self._journal, self._data_path / "index", partition, print_)
                positions = [(offset, self._journal.get(partition, offset)) for offset in sorted(offsets)]
                kept = [
                    (offset, record) for offset, record in positions if record is not None and _is_it(record, print_)
                ]
                # A rejected try of the same id may come before the good one.
                good = [(offset, record) for offset, record in kept if record.rejection is None] or kept
                if good:
                    return FoundMessage(partition, *good[0], repeats=len(good) - 1)
        return None

    def why_unknown(self, message_id: str, source: str | None = None) -> str:
        """Say why ``find`` finds nothing of a message: where the index knows it, that its record is damaged, and where
        it does not, that it may be one of those that are."""
        noted = noted_damage(self._data_path / FOLDER)[-DAMAGE_LOOKED_AT_MAX:]
        lost = [each for each in noted if is_lost(self._journal, each.partition, each.first, each.next)]
        for name in ([source] if source else self._source_ids()) if lost else ():
            print_ = fingerprint(name, message_id)
            for partition in {each.partition for each in lost}:
                offsets = lookup.find(self._journal, self._data_path / "index", partition, print_)
                its = [each for each in lost if each.partition == partition and each.covers(offsets)]
                if its:
                    return f"its record in the journal is damaged, {described(its)}"
        reason = "it was never accepted, or is older than what is kept"
        return f"{reason}, or its record is one of the damaged ones, {described(lost)}" if lost else reason

    def of_record(self, partition: int, offset: int, record: Record) -> EventStatus:
        """Return the status of a stored record."""
        return self._status(partition, offset, record, repeats=0)

    def close(self) -> None:
        """Let go of files."""
        self._journal.close()
        self._feed.close()
        self._deliveries.close()
        self._replayed.close()
        self._control.close()

    def _status(self, partition: int, offset: int, record: Record, repeats: int) -> EventStatus:
        summary: DeliveryStatus | None = None
        destinations: list[DestinationStatus] = []
        if record.rejection is not None:
            summary = DeliveryStatus.REJECTED
        elif record.erased:
            summary = DeliveryStatus.ERASED
        else:
            destinations = self._destinations(partition, offset, record)
            destinations = self._replayed.add(destinations, partition, offset, record)
            if not destinations:
                summary = DeliveryStatus.NOT_ROUTED
        return EventStatus(
            message_id=record.message_id,
            source=record.source,
            type=record.type,
            user_id=_user_of(record),
            received_at=iso(record.received_at),
            duplicates=max(repeats, self._deliveries.duplicates(partition, offset)),
            status=summary,
            rejection=Rejection(record.rejection.code, record.rejection.message) if record.rejection else None,
            event=_raw(record),
            warnings=tuple(warnings_of(record.body))
            if summary not in (DeliveryStatus.REJECTED, DeliveryStatus.ERASED)
            else (),
            destinations=tuple(destinations),
        )

    def _destinations(self, partition: int, offset: int, record: Record) -> list[DestinationStatus]:
        snapshot = self._snapshot_at(partition, offset)
        found: list[DestinationStatus] = []
        repeats: str | None = None
        for destination, lane in _shown(snapshot, record):
            reason = not_routed_reason(record, destination, lane, partition, offset)
            if reason is not None or lane is None:
                found.append(DestinationStatus(destination.id, DeliveryStatus.NOT_ROUTED, reason))
                continue
            rules = self._rules.of(destination.id, record)
            status = self._deliveries.status(destination, lane.number, partition, offset, rules)
            if status is None or status.status is DeliveryStatus.FILTERED:
                # Routed, behind the lane's position, and nothing was done with it: that is how a duplicate looks.
                repeats = self._repeats(partition, offset, record) if repeats is None else repeats
                if repeats:
                    status = DestinationStatus(destination.id, DeliveryStatus.DUPLICATE, repeats)
            if status is None:
                status = self._passed(destination, lane, partition, offset, record, snapshot.version, rules)
            if status.status is DeliveryStatus.FILTERED and record.type == UNFILTERED_TYPE:
                status = replace(status, reason=no_delete_message(destination))
            if status.reason == QueuedReason.NEXT and destination.delivery.order == "user":
                status = self._in_order(status, lane.number, partition, offset, record)
            if status.reason in (QueuedReason.BREAKER_OPEN, ONE_AT_A_TIME):
                status = replace(status, detail=self._unusable(destination.id))
            found.append(status)
        return found

    def _in_order(
        self, status: DestinationStatus, lane: int, partition: int, offset: int, record: Record
    ) -> DestinationStatus:
        """Say so where an earlier event of the same user holds this one up."""
        for each in self._deliveries.rows.retried_before(lane, partition, offset, EARLIER_LOOKED_AT_MAX):
            earlier = self._journal.get(partition, each)
            if earlier is not None and earlier.user_key == record.user_key:
                return replace(status, reason=QueuedReason.ORDERED)
        return status

    def _unusable(self, id: str) -> str | None:
        """Return why nothing can be sent to a destination as it is now."""
        destination = _destination(self._current(), id)
        if destination is None:
            return None
        return why_unusable(destination, self._settings, time.time_ns() // 1_000_000)

    def _passed(
        self,
        destination: Destination,
        lane: LaneConfig,
        partition: int,
        offset: int,
        record: Record,
        version: int,
        rules: EventRules,
    ) -> DestinationStatus:
        # A source connected while the filters changed: its first events met the new ones at smaller offsets. And what
        # a filter stopped was not given up with the lane that ended later.
        for decided_by in self._deliveries.rows.filter_versions(lane.number, partition):
            rule = rules.stopping(decided_by)
            if rule is not None:
                return DestinationStatus(destination.id, DeliveryStatus.FILTERED, None, rule)
        rows = self._query(
            "SELECT document, lane, until FROM objects WHERE kind = 'destination' AND id = ? AND"
            " (until IS NULL OR until > ?) ORDER BY since",
            (destination.id, version),
        )
        for document, lane_then, _ in rows:
            changed = decode_object("destination", document)
            then = msgspec.json.decode(lane_then, type=LaneConfig) if lane_then else None
            if then is not None and then.number != lane.number:  # made again, with a lane of its own
                return _discarded(destination, DELETED)
            if not_routed_reason(record, changed, then, partition, offset) is not None:
                return _discarded(destination, "its source was disconnected before it was sent")
        if not rows or rows[-1][2] is not None:
            return _discarded(destination, DELETED)
        saved = self._deliveries.rows.checkpoint(partition)
        if (saved.version or 0 if saved else 0) < version:  # the lane is so new that no checkpoint knows it
            return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT)
        if offset < self._journal.start(partition):
            return DestinationStatus(destination.id, DeliveryStatus.DELIVERED, "its attempts are no longer kept")
        return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT, detail=NOTHING_KNOWN)

    def _repeats(self, partition: int, offset: int, record: Record) -> str:
        offsets = lookup.find(self._journal, self._data_path / "index", partition, record.fingerprint)
        earlier = [each for each in offsets if each < offset]
        return f"the same messageId as the event at offset {min(earlier)}" if earlier else ""

    # connections

    def _source_ids(self) -> Iterator[str]:
        """Yield whoever may have sent a message: those in force, then those that were deleted since."""
        yield from (source.id for source in self._current().sources)
        yield SYNC_SOURCE
        deleted = (
            "SELECT id FROM objects WHERE kind = 'source' GROUP BY id HAVING count(*) = count(until)"
            " ORDER BY max(until) DESC LIMIT ?"
        )
        yield from (id for (id,) in self._query(deleted, (DELETED_SOURCES_MAX,)))

    def _current(self) -> Snapshot:
        row = self._query("SELECT max(version) FROM versions")
        return self._snapshot(row[0][0] or 0) if row else Snapshot(version=0)

    def _snapshot_at(self, partition: int, offset: int) -> Snapshot:
        """Return the newest version whose beginning lies at or before the offset."""
        for version, ends in self._query("SELECT version, ends FROM versions ORDER BY version DESC"):
            if msgspec.json.decode(ends, type=dict[int, int]).get(partition, 0) <= offset:
                return self._snapshot(version)
        return Snapshot(version=0)

    def _snapshot(self, version: int) -> Snapshot:
        snapshot = self._snapshots.pop(version, None) or self._feed.at(version)
        self._snapshots[version] = snapshot
        if len(self._snapshots) > SNAPSHOTS_KEPT:
            self._snapshots.popitem(last=False)
        return snapshot

    def _query(self, sql: str, values: tuple[str | int, ...] = ()) -> list[tuple[Any, ...]]:
        connection = self._control.open()
        return [] if connection is None else connection.execute(sql, values).fetchall()


def _shown(snapshot: Snapshot, record: Record) -> Iterator[tuple[Destination, LaneConfig | None]]:
    few = len(snapshot.destinations) <= UNCONNECTED_SHOWN_MAX
    for destination in snapshot.destinations:
        concerned = record.source in destination.sources if record.to is None else destination.id in record.to
        if few or concerned:
            yield destination, snapshot.lanes.get(destination.id)


def _discarded(destination: Destination, reason: str) -> DestinationStatus:
    return DestinationStatus(destination.id, DeliveryStatus.DISCARDED, reason)


def _is_it(record: Record, wanted: bytes) -> bool:
    return record.fingerprint == wanted


def _user_of(record: Record) -> str | None:
    try:
        user_id = scalar(_user_id.decode(record.body).user_id)
    except msgspec.MsgspecError:
        return None
    return text(user_id) or None


def _raw(record: Record) -> msgspec.Raw:
    """Return the caller's JSON as it came; what is not JSON (a rejected item) as a string."""
    if record.erased:
        return msgspec.Raw(b"null")
    try:
        msgspec.json.decode(record.body, type=msgspec.Raw)
        record.body.decode()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(record.body.decode("utf-8", "replace")))
    return msgspec.Raw(record.body)


__all__ = ["Attempt", "DestinationStatus", "EventStatus", "EventStatuses", "FoundMessage", "Rejection"]
