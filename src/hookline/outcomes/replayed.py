"""What replays made of an event: which of them sent it again, where to, and how that ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from hookline.connections.model import Destination, Snapshot
from hookline.database.location import DatabaseLocation
from hookline.journal.record import Record
from hookline.outcomes.delivery import Deliveries, DestinationStatus, ReplayStatus
from hookline.outcomes.filter_rules import FilterRules
from hookline.outcomes.status import DeliveryStatus, QueuedReason
from hookline.replays.feed import ReplayFeed
from hookline.replays.model import Replay
from hookline.replays.offset_set import OffsetSet
from hookline.replays.predicate import predicate_of

PLACES_KEPT = 8
"""Replays of single events whose places are held in memory from one look to the next."""


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
        self._places: dict[tuple[int, int | None], dict[int, OffsetSet] | None] = {}

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
        if not self._deliveries.has_begun(replay.lane):
            return DestinationStatus(destination.id, DeliveryStatus.QUEUED, QueuedReason.NEXT)
        rules = self._rules.of(destination.id, record)
        return self._deliveries.status(destination, replay.lane, partition, offset, rules)

    def _covering(self, partition: int, offset: int) -> Iterator[Replay]:
        found = self._feed.poll()
        if found is not None:
            self._replays = found
        return (each for each in self._replays if each.covers(partition, offset) and each.is_prepared)

    def _sends(self, replay: Replay, destination: Destination, partition: int, offset: int, record: Record) -> bool:
        places = self._places_of(replay)
        if places is not None and offset not in places.get(partition, ()):
            return False
        return predicate_of(replay.request, destination)(record)

    def _places_of(self, replay: Replay) -> dict[int, OffsetSet] | None:
        if not replay.request.by_places:
            return None
        key = replay.lane, replay.total
        if key not in self._places:
            if len(self._places) >= PLACES_KEPT:
                self._places.pop(next(iter(self._places)))
            self._places[key] = self._feed.places(replay.lane)
        return self._places[key]


def _destination(snapshot: Snapshot, id: str) -> Destination | None:
    return next((each for each in snapshot.destinations if each.id == id), None)
