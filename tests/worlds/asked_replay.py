"""A replay as whoever asked for it knows it: what it is to send, and what was done with it since."""

from __future__ import annotations

from collections.abc import Callable

from hookline.connections.model import Destination
from hookline.journal.record import Record
from hookline.replays.model import Replay
from hookline.replays.offset_set import OffsetSet
from hookline.replays.predicate import predicate_of


class AskedReplay:
    """One replay; ``places`` are its single events once they were looked for, None when it is of a whole stretch."""

    def __init__(self, replay: Replay, at: float) -> None:
        self.lane = replay.lane
        self.destination = replay.request.destination
        self.rate = replay.rate
        self.at = at
        self.paused_at: float | None = None
        self.cancelled_at: float | None = None
        self.is_prepared = not replay.request.by_positions
        self.positions: dict[int, OffsetSet] | None = None
        self._replay = replay
        self._predicates: dict[object, Callable[[Record], bool]] = {}

    def covers(self, position: tuple[int, int]) -> bool:
        """Whether the place lies in what the replay reads."""
        partition, offset = position
        if not self.is_prepared:
            return False
        if self.positions is None:
            return self._replay.covers(partition, offset)
        return partition in self.positions and offset in self.positions[partition]

    def sends(self, record: Record, destination: Destination) -> bool:
        """Whether the record is sent with these settings of the destination."""
        key = destination.sources, destination.filters
        if key not in self._predicates:
            self._predicates[key] = predicate_of(self._replay.request, destination)
        return self._predicates[key](record)
