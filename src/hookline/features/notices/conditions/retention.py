"""Warn of what retention takes: when it will take events that a destination has not had, and which it has taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.database.location import DatabaseLocation
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.journal.opening import FOLDER, journal_in
from hookline.journal.port import RetentionForecast
from hookline.outcomes.reader import DeliverReader
from hookline.settings import Retention as RetentionBounds

LOOK_MS = 30_000
"""What takes a day to come need not be looked for every few seconds."""
MARGIN = 1.1
"""So many times the threshold must be left again before a notice is resolved."""
PASSED_KEPT_MS = 86_400_000
"""What is lost stays worth knowing for so long."""


class Oldest(NamedTuple):
    """The oldest event that a lane still has to send, in one partition; sorted, those that go first come first."""

    partition: int
    offset: int
    lane: int


class Retention:
    """Reads deliver's rows of lanes that stand apart; for those, the names of the segments and a header of one."""

    kinds = ("retention_near", "retention_passed")

    def __init__(
        self,
        data_path: Path,
        deliver: DatabaseLocation,
        limits: RetentionBounds,
        ahead_seconds: float,
        steady_ms: Callable[[], int],
    ) -> None:
        self._deliver = DeliverReader(deliver)
        self._folder = data_path / FOLDER
        self._limits = limits
        self._forecast: RetentionForecast | None = None
        self._ahead_ms = ahead_seconds * 1000
        self._steady_ms = steady_ms
        self._looked_ms = -LOOK_MS
        self._near: list[Finding] = []
        self._last_range = 0
        self._passed: dict[str, tuple[int, int]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Lanes about to lose events, and those that have lost some within the last day."""
        if not self._deliver.exists:
            return None
        now_ms = self._steady_ms()
        if self._ahead_ms > 0 and now_ms - self._looked_ms >= LOOK_MS:
            self._near = list(self._about_to_lose(moment, now_ms))
            self._looked_ms = now_ms
        return [*self._lost(moment), *(each for each in self._near if each.subject in moment.enabled)]

    def close(self) -> None:
        """Close the database, and let go of brokers; idempotent."""
        self._deliver.close()
        if self._forecast is not None:
            self._forecast.close()

    def _about_to_lose(self, moment: Moment, now_ms: int) -> Iterator[Finding]:
        waiting = {Oldest(row.partition, first, row.lane) for row, first in self._deliver.waiting_lanes()}
        open_positions = sorted(place for place in waiting if place.lane in moment.lanes)
        until_ms = now_ms + int(self._ahead_ms * MARGIN)
        if open_positions and self._forecast is None:
            self._forecast = journal_in(self._folder).forecast(self._limits)
        kept = self._forecast.look(now_ms, until_ms) if open_positions and self._forecast is not None else None
        of_destination: dict[str, int] = {}
        for place in open_positions:
            drop_ms = kept(place.partition, place.offset) if kept is not None else None
            if drop_ms is not None and drop_ms <= until_ms:
                destination = moment.lanes[place.lane]
                of_destination[destination] = min(drop_ms, of_destination.get(destination, drop_ms))
        for destination, drop_ms in sorted(of_destination.items()):
            seen_ms = drop_ms - now_ms + moment.now_ms
            detail = f"the oldest queued events are removed at about {_to_the_hour(seen_ms)}"
            yield Finding("retention_near", destination, detail, weak=drop_ms - now_ms > self._ahead_ms)

    def _lost(self, moment: Moment) -> Iterator[Finding]:
        since_ms = moment.now_ms - PASSED_KEPT_MS
        for each in self._deliver.ranges_passed_by_retention(self._last_range, since_ms):
            self._last_range = max(self._last_range, each.id)
            events = self._passed.get(each.destination, (0, 0))[1] + each.last_offset - each.first_offset + 1
            self._passed[each.destination] = (each.at_ms, events)
        self._passed = {id: (at, count) for id, (at, count) in self._passed.items() if at > since_ms}
        for destination, (at, count) in sorted(self._passed.items()):
            detail = f"at {iso(at)}, at most {count} of them"
            yield Finding("retention_passed", destination, detail, count)


def _to_the_hour(ms: int) -> str:
    # It is an estimate; told to the minute it would change with every look.
    return iso(ms // 3_600_000 * 3_600_000)[:16] + "Z"
