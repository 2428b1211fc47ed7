"""What the world knows beside the system: which events are in the journal, and to which lanes each belongs.

Routing is asked from the explained form (``route/decision.py``) on the connections of each version, not from the
engine.
"""

from __future__ import annotations

from typing import NamedTuple

from hookline.connections.model import Destination, Lane, Offsets, Snapshot
from hookline.journal.record import Record
from hookline.route.decision import not_routed_reason

Place = tuple[int, int]
"""(partition, offset)"""
LanePlace = tuple[int, Place]
"""An event in a lane: (lane number, place)."""


class Stored(NamedTuple):
    """One record of the journal; ``duplicate`` when an earlier place holds the same messageId."""

    record: Record
    duplicate: bool
    acknowledged: bool
    at: float


class Version(NamedTuple):
    """Connections, and the journal's ends from which on they are in force."""

    ends: Offsets
    snapshot: Snapshot
    at: float


class Ledger:
    """Events and versions, in the order in which they came about."""

    def __init__(self) -> None:
        self.events: dict[Place, Stored] = {}
        self.places: dict[str, Place] = {}
        """By messageId: where the event counts, the first place within its partition."""
        self.versions: list[Version] = []
        self._sent_to: dict[tuple[Place, int], bool] = {}

    def stored(self, place: Place, record: Record, acknowledged: bool, at: float) -> None:
        """Note a record that is in the journal."""
        first = self.places.get(record.message_id)
        duplicate = first is not None
        if first is None:
            self.places[record.message_id] = place
        self.events[place] = Stored(record, duplicate, acknowledged, at)

    def changed(self, ends: Offsets, snapshot: Snapshot, at: float) -> None:
        """Note new connections."""
        self.versions.append(Version(dict(ends), snapshot, at))

    def lanes_of(self, place: Place) -> dict[int, str]:
        """The lanes the event belongs to by the connections when it was stored: number to destination."""
        partition, offset = place
        in_force = [version for version in self.versions if version.ends.get(partition, 0) <= offset]
        return dict(self._belongs(place, in_force[-1].snapshot)) if in_force else {}

    def may_be_sent(self, place: Place, lane: int) -> bool:
        """Whether any version routes the event to the lane: a version that the role has not heard of cannot bind it."""
        key = (place, lane)
        if not self._sent_to.get(key):
            self._sent_to[key] = any(
                number == lane for version in self.versions for number, _ in self._belongs(place, version.snapshot)
            )
        return self._sent_to[key]

    def disconnected(self, place: Place, lane: int, destination: str) -> bool:
        """Whether a later version took the event's source, or the whole lane, away."""
        partition, offset = place
        source = self.events[place].record.source
        later = [v.snapshot.lanes.get(destination) for v in self.versions if v.ends.get(partition, 0) >= offset]
        return any(
            each is None or each.number != lane or each.sources.get(source, {}).get(partition, 1 << 60) > offset
            for each in later
        )

    def gone_since(self, lane: int) -> float | None:
        """When the lane was ended, None while it exists."""
        known = False
        for version in self.versions:
            numbers = {each.number for each in version.snapshot.lanes.values()}
            if lane in numbers:
                known = True
            elif known:
                return version.at
        return None

    def paused_since(self, lane: int) -> float | None:
        """Since when the lane is paused by all versions up to now, None when it is not."""
        since: float | None = None
        for version in reversed(self.versions):
            found = [each for each in version.snapshot.lanes.values() if each.number == lane]
            if not found or found[0].paused is None:
                return since
            since = version.at
        return since

    def _belongs(self, place: Place, snapshot: Snapshot) -> list[tuple[int, str]]:
        record = self.events[place].record
        found: list[tuple[Destination, Lane]] = [
            (each, snapshot.lanes[each.id]) for each in snapshot.destinations if each.id in snapshot.lanes
        ]
        return [(lane.number, each.id) for each, lane in found if not_routed_reason(record, each, lane, *place) is None]
