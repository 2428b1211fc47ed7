"""Retention against lanes that stand apart: when will it take events that a destination has not read (DESIGN 4)?

Retention drops whole segments, by age and by bytes, so the question is asked of the segment in which a lane's oldest
open event lies. By bytes the answer is an estimate: as fast as the journal has grown since that segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hookline.control.conditions.finding import Finding, Moment
from hookline.database.connection import Connection
from hookline.database.place import Place as DatabasePlace
from hookline.database.read_only import ReadOnly
from hookline.events.timestamps import iso
from hookline.journal.local.retention import last_received_at
from hookline.journal.local.segment import list_segments, segment_name
from hookline.outcomes import places
from hookline.settings import Retention as RetentionLimits

GROWTH_MS_MIN = 3_600_000
"""Growth is taken over at least so long, or a burst would look like an end."""
LOOK_MS = 30_000
"""What takes a day to come need not be looked for every few seconds."""
MARGIN = 1.1
"""So many times the threshold must be left again before a notice is resolved."""
PASSED_KEPT_MS = 86_400_000
"""What is lost stays worth knowing for so long."""


class Place(NamedTuple):
    """The oldest event that a lane still has to send, in one partition."""

    lane: int
    partition: int
    offset: int


class Segments:
    """The segments of one partition, oldest first, with what retention knows of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._firsts = list_segments(folder)
        self._sizes = [(folder / segment_name(first)).stat().st_size for first in self._firsts]
        self.total_bytes = sum(self._sizes)

    def holding(self, offset: int) -> int | None:
        """The index of the segment that holds an offset; None for the newest one, which is never dropped."""
        index = max(0, bisect_right(self._firsts, offset) - 1)
        return index if index < len(self._firsts) - 1 else None

    def bytes_from(self, index: int) -> int:
        """The bytes of this segment and all newer ones."""
        return sum(self._sizes[index:])

    def path(self, index: int) -> Path:
        """The file."""
        return self._folder / segment_name(self._firsts[index])


class Retention:
    """Reads deliver's rows of lanes that stand apart; for those, the names of the segments and a header of one."""

    kinds = ("retention_near", "retention_passed")

    def __init__(self, data_path: Path, deliver: DatabasePlace, limits: RetentionLimits, ahead_seconds: float) -> None:
        self._database = ReadOnly(deliver)
        self._folder = data_path / "journal"
        self._limits = limits
        self._ahead_ms = ahead_seconds * 1000
        self._looked_ms = 0
        self._near: list[Finding] = []
        self._last_range = 0
        self._passed: dict[str, tuple[int, int]] = {}

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """Lanes about to lose events, and those that have lost some within the last day."""
        connection = self._database.open()
        if connection is None:
            return None
        if self._ahead_ms > 0 and moment.now_ms - self._looked_ms >= LOOK_MS:
            self._near = list(self._about_to_lose(connection, moment))
            self._looked_ms = moment.now_ms
        return [*self._lost(connection, moment), *(each for each in self._near if each.subject in moment.enabled)]

    def close(self) -> None:
        """Close the database; idempotent."""
        self._database.close()

    def _about_to_lose(self, connection: Connection, moment: Moment) -> Iterator[Finding]:
        open_places = [place for place in _places(connection) if place.lane in moment.lanes]
        journal = _journal(self._folder) if open_places else {}
        all_bytes = sum(segments.total_bytes for segments in journal.values())
        drops_ms: dict[tuple[int, int], int] = {}
        of_destination: dict[str, int] = {}
        for place in open_places:
            segments = journal.get(place.partition)
            index = segments.holding(place.offset) if segments else None
            if segments is None or index is None:
                continue
            key = (place.partition, index)
            if key not in drops_ms:
                drops_ms[key] = self._drop_ms(segments, index, segments.total_bytes / all_bytes, moment.now_ms)
            destination = moment.lanes[place.lane]
            of_destination[destination] = min(drops_ms[key], of_destination.get(destination, drops_ms[key]))
        for destination, drop_ms in sorted(of_destination.items()):
            left_ms = drop_ms - moment.now_ms
            if left_ms <= self._ahead_ms * MARGIN:
                detail = f"the oldest that wait go at about {_to_the_hour(drop_ms)}"
                yield Finding("retention_near", destination, detail, weak=left_ms > self._ahead_ms)

    def _drop_ms(self, segments: Segments, index: int, share: float, now_ms: int) -> int:
        """When the segment goes: by age, or earlier by bytes if the journal goes on growing as it did since.

        Partitions share the bytes; each is taken to keep the ``share`` it has now.
        """
        newest_ms = last_received_at(segments.path(index))
        by_age = newest_ms + self._limits.events * 1000
        grown = segments.bytes_from(index + 1)
        left = max(0.0, self._limits.bytes * share - segments.bytes_from(index))
        by_bytes = now_ms + left / grown * max(GROWTH_MS_MIN, now_ms - newest_ms)
        return int(min(by_age, by_bytes))

    def _lost(self, connection: Connection, moment: Moment) -> Iterator[Finding]:
        since_ms = moment.now_ms - PASSED_KEPT_MS
        rows = connection.execute(
            "SELECT id, destination, first_offset, last_offset, at FROM ranges"
            " WHERE id > ? AND fate = 'expired_by_retention' AND at > ?",
            (self._last_range, since_ms),
        ).fetchall()
        for id, destination, first, last, at in rows:
            self._last_range = max(self._last_range, id)
            self._passed[destination] = (at, self._passed.get(destination, (0, 0))[1] + last - first + 1)
        self._passed = {id: (at, count) for id, (at, count) in self._passed.items() if at > since_ms}
        for destination, (at, count) in sorted(self._passed.items()):
            detail = f"at {iso(at)}, at most {count} of them"
            yield Finding("retention_passed", destination, detail, count)


def _journal(folder: Path) -> dict[int, Segments]:
    """The segments of every partition."""
    return {int(each.name): Segments(each) for each in folder.iterdir() if each.name.isdigit()}


def _places(connection: Connection) -> Iterator[Place]:
    """Where lanes that stand apart begin: at their own place, or at an older event queued or waiting for a retry."""
    rows = connection.execute(
        'SELECT lane, partition, next_offset, blob, (SELECT min("offset") FROM retries WHERE retries.lane = lanes.lane'
        " AND retries.partition = lanes.partition) FROM lanes"
    )
    for lane, partition, next_offset, blob, retry in rows.fetchall():
        intake = places.decode_intake(blob)
        # An attached lane has a row only for the part of a new source's stream that it still catches up with.
        own = [side.next_offset for side in intake.sides] if intake.attached else [next_offset]
        oldest = [*own, *intake.undone[:1], *([] if retry is None else [retry])]
        if oldest:
            yield Place(lane, partition, min(oldest))


def _to_the_hour(ms: int) -> str:
    # It is an estimate; told to the minute it would change with every look.
    return iso(ms // 3_600_000 * 3_600_000)[:16] + "Z"
