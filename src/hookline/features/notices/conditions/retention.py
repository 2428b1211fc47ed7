"""Retention against lanes that stand apart: when will it take events that a destination has not read (DESIGN 4)?

How long the journal keeps a place is asked of its kind: ``kept_segments`` of files, ``kept_topic`` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.journal.folder import read_note
from hookline.outcomes import places
from hookline.settings import Retention as RetentionLimits

LOOK_MS = 30_000
"""What takes a day to come need not be looked for every few seconds."""
MARGIN = 1.1
"""So many times the threshold must be left again before a notice is resolved."""
PASSED_KEPT_MS = 86_400_000
"""What is lost stays worth knowing for so long."""


class Place(NamedTuple):
    """The oldest event that a lane still has to send, in one partition; sorted, those that go first come first."""

    partition: int
    offset: int
    lane: int


class RetentionForecast(Protocol):
    """How long the journal keeps what it has."""

    def look(self, now_ms: int, until_ms: int) -> Callable[[int, int], int | None]:
        """Return when retention takes the event at (partition, offset), as things are now; None when that is later than
        ``until_ms``, or cannot be told. It is asked in the order of the places. All by the service's own clock."""

    def close(self) -> None:
        """Let go of what is held; idempotent."""


class Retention:
    """Reads deliver's rows of lanes that stand apart; for those, the names of the segments and a header of one."""

    kinds = ("retention_near", "retention_passed")

    def __init__(
        self,
        data_path: Path,
        deliver: DatabaseLocation,
        limits: RetentionLimits,
        ahead_seconds: float,
        steady_ms: Callable[[], int],
    ) -> None:
        self._database = ReadOnly(deliver)
        self._kept = _kept(data_path / "journal", limits)
        self._ahead_ms = ahead_seconds * 1000
        self._steady_ms = steady_ms
        self._looked_ms = -LOOK_MS
        self._near: list[Finding] = []
        self._last_range = 0
        self._passed: dict[str, tuple[int, int]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Lanes about to lose events, and those that have lost some within the last day."""
        connection = self._database.open()
        if connection is None:
            return None
        now_ms = self._steady_ms()
        if self._ahead_ms > 0 and now_ms - self._looked_ms >= LOOK_MS:
            self._near = list(self._about_to_lose(connection, moment, now_ms))
            self._looked_ms = now_ms
        return [*self._lost(connection, moment), *(each for each in self._near if each.subject in moment.enabled)]

    def close(self) -> None:
        """Close the database, and let go of brokers; idempotent."""
        self._database.close()
        self._kept.close()

    def _about_to_lose(self, connection: Connection, moment: Moment, now_ms: int) -> Iterator[Finding]:
        open_places = sorted(place for place in set(_places(connection)) if place.lane in moment.lanes)
        until_ms = now_ms + int(self._ahead_ms * MARGIN)
        kept = self._kept.look(now_ms, until_ms) if open_places else None
        of_destination: dict[str, int] = {}
        for place in open_places:
            drop_ms = kept(place.partition, place.offset) if kept is not None else None
            if drop_ms is not None and drop_ms <= until_ms:
                destination = moment.lanes[place.lane]
                of_destination[destination] = min(drop_ms, of_destination.get(destination, drop_ms))
        for destination, drop_ms in sorted(of_destination.items()):
            seen_ms = drop_ms - now_ms + moment.now_ms
            detail = f"the oldest queued events are removed at about {_to_the_hour(seen_ms)}"
            yield Finding("retention_near", destination, detail, weak=drop_ms - now_ms > self._ahead_ms)

    def _lost(self, connection: Connection, moment: Moment) -> Iterator[Finding]:
        since_ms = moment.now_ms - PASSED_KEPT_MS
        rows = connection.execute(
            "SELECT id, destination, first_offset, last_offset, at FROM ranges"
            " WHERE id > ? AND status = 'expired_by_retention' AND at > ?",
            (self._last_range, since_ms),
        ).fetchall()
        for id, destination, first, last, at in rows:
            self._last_range = max(self._last_range, id)
            self._passed[destination] = (at, self._passed.get(destination, (0, 0))[1] + last - first + 1)
        self._passed = {id: (at, count) for id, (at, count) in self._passed.items() if at > since_ms}
        for destination, (at, count) in sorted(self._passed.items()):
            detail = f"at {iso(at)}, at most {count} of them"
            yield Finding("retention_passed", destination, detail, count)


def _kept(folder: Path, limits: RetentionLimits) -> RetentionForecast:
    if read_note(folder) is None:
        from hookline.features.notices.conditions.kept import KeptSegments

        return KeptSegments(folder, limits)
    from hookline.features.notices.conditions.kept import KeptTopic

    return KeptTopic(folder, limits)


def _places(connection: Connection) -> Iterator[Place]:
    """Yield where lanes that stand apart begin: at their own place, or at an older event queued or waiting for
    a retry."""
    rows = connection.execute(
        'SELECT lane, partition, next_offset, blob, (SELECT min("offset") FROM retries WHERE retries.lane = lanes.lane'
        " AND retries.partition = lanes.partition) FROM lanes"
    )
    for lane, partition, next_offset, blob, retry in rows.fetchall():
        cursor = places.decode_cursor(blob)
        # An attached lane has a row only for the part of a new source's stream that it still catches up with.
        own = [backfill.next_offset for backfill in cursor.backfills] if cursor.attached else [next_offset]
        oldest = [*own, *cursor.undone[:1], *([] if retry is None else [retry])]
        if oldest:
            yield Place(partition, min(oldest), lane)


def _to_the_hour(ms: int) -> str:
    # It is an estimate; told to the minute it would change with every look.
    return iso(ms // 3_600_000 * 3_600_000)[:16] + "Z"
