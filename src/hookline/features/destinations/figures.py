"""The figures of every destination, all of one moment: the same on pages, in the API, on the command line and in the
metrics.

They are read from the last checkpoint in one look, with the journal's end after it. Who asks again within a second gets
the same figures, with the same ``asOf``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from hookline.api.services import Services, part
from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.connections.store import Store
from hookline.database.location import location_of
from hookline.events.timestamps import iso
from hookline.features.destinations.backlog import BacklogCounter, Count, Lane, Stretch
from hookline.journal.opening import open_reader
from hookline.journal.port import JournalError, Reader
from hookline.outcomes import positions
from hookline.outcomes.outcome import DeliveryStatus
from hookline.outcomes.reader import (
    ENDED_STATES,
    DeliverReader,
    DestinationTotals,
    RetryCounts,
    SavedCheckpoint,
    SavedLane,
)
from hookline.settings import Settings

KEPT_SECONDS = 1.0
KEPT_PER_COST = 20.0
"""Where there are so many destinations that a look takes long, it is kept for longer: a twentieth of the time at most
goes into looks."""
PAUSED = "paused"


class Figures(msgspec.Struct, frozen=True, rename="camel"):
    """The counts of a destination's events by status, as of ``asOf``.

    ``queued``: accepted and not tried yet. It is exact, or the upper bound while ``queuedExact`` is false and counting
    continues. ``retrying``: failed, and will be tried again. ``failed`` and ``expired``: stored dead letters.
    ``delivered``: since ``deliveredSince``, without deliveries by replays, which count themselves. ``oldestAt``: when
    the oldest queued or retrying event was accepted.
    """

    as_of: str
    queued: int = 0
    queued_exact: bool = True
    retrying: int = 0
    failed: int = 0
    expired: int = 0
    delivered: int = 0
    delivered_since: str | None = None
    oldest_at: str | None = None

    @property
    def open(self) -> int:
        """Return how many are not done: queued or retrying."""
        return self.queued + self.retrying

    @property
    def dead_letters(self) -> int:
        """Return how many were not delivered."""
        return self.failed + self.expired


class Progress(NamedTuple):
    """Hold what deliver has written of a destination's lane: the states of its rows, and whether it is behind the
    others."""

    states: frozenset[str] = frozenset()
    is_behind: bool = False


class Snapshot(NamedTuple):
    """The figures of every destination at one moment, and how their lanes stood."""

    as_of: str
    at_ms: int
    figures: Mapping[str, Figures]
    progress: Mapping[str, Progress]


class FiguresLog:
    """Reads deliver's database and the journal; safe to share between threads, and not for an event loop."""

    def __init__(self, settings: Settings, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._deliver = DeliverReader(location_of(settings, "deliver"))
        self._reader: Reader | None = None
        self._backlog = BacklogCounter(self._journal)
        self._lock = threading.Lock()
        self._kept: Snapshot | None = None
        self._kept_until = 0.0

    def look(self, fresh: bool = False) -> Snapshot:
        """Return the figures; ``fresh`` is for whoever has just changed something."""
        with self._lock:
            began = self._clock()
            if self._kept is None or fresh or began >= self._kept_until:
                self._kept = self._look()
                ended = self._clock()
                self._kept_until = ended + max(KEPT_SECONDS, (ended - began) * KEPT_PER_COST)
            return self._kept

    def close(self) -> None:
        """Let go of the database and the journal; idempotent."""
        self._backlog.close()
        with self._lock:
            self._deliver.close()
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _look(self) -> Snapshot:
        destinations = self._store.destinations()
        at_ms = self._store.now_ms()
        as_of = iso(at_ms)
        with self._deliver.one_moment():
            checkpoints, rows = self._deliver.checkpoints(), self._deliver.lanes()
            retries, totals = self._deliver.retry_counts(), self._deliver.totals()
        saved = _Saved(checkpoints, rows, self._ends())
        lanes = {each.object.id: saved.lane(each) for each in destinations if each.lane is not None}
        counts = self._backlog.count([each for each in lanes.values() if each is not None and each.stretches])
        figures: dict[str, Figures] = {}
        progress: dict[str, Progress] = {}
        for each in destinations:
            id, total = each.object.id, totals.get(each.object.id, DestinationTotals())
            number = 0 if each.lane is None else each.lane.number
            retry = retries.get(number, RetryCounts(0, 0, 0))
            progress[id] = saved.progress(number)
            is_paused = PAUSED in progress[id].states
            taken = saved.taken(number)
            counted = counts.get(id, Count())
            figures[id] = Figures(
                as_of=as_of,
                # What waits in a paused lane is queued, however often it was tried.
                queued=counted.events + taken.events + retry.untried + (retry.tried if is_paused else 0),
                queued_exact=counted.exact,
                retrying=0 if is_paused else retry.tried,
                failed=total.dead_letters.get(DeliveryStatus.FAILED, 0),
                expired=total.dead_letters.get(DeliveryStatus.EXPIRED, 0),
                delivered=total.delivered,
                delivered_since=None if total.since_ms is None else iso(total.since_ms),
                oldest_at=self._oldest(retry, (*counted.first, *taken.first)),
            )
        return Snapshot(as_of, at_ms, figures, progress)

    def _journal(self) -> Reader:
        if self._reader is None:
            self._reader = open_reader(self._settings.data_path / "journal")
        return self._reader

    def _ends(self) -> dict[int, tuple[int, int]]:
        """Return where each partition begins and ends; nothing of those that cannot be asked just now."""
        if not (self._settings.data_path / "journal").is_dir():
            return {}
        try:
            with self._backlog.reading:
                journal = self._journal()
                return {each: (journal.start(each), journal.end(each)) for each in journal.partitions()}
        except JournalError:
            return {}

    def _oldest(self, retry: RetryCounts, first: Iterable[tuple[int, int]]) -> str | None:
        times = [retry.oldest_ms] if retry.tried or retry.untried else []
        for partition, offset in first:
            try:
                with self._backlog.reading:
                    record = self._journal().get(partition, offset)
            except JournalError:
                continue
            if record is not None:
                times.append(record.received_at)
        return iso(min(times)) if times else None


class _Saved:
    """A checkpoint, by lane."""

    def __init__(
        self,
        checkpoints: Mapping[int, SavedCheckpoint],
        rows: Iterable[SavedLane],
        ends: Mapping[int, tuple[int, int]],
    ) -> None:
        self._ends = ends
        self._next = {partition: saved.next_offset for partition, saved in checkpoints.items()}
        self._rows: dict[int, dict[int, SavedLane]] = {}
        for row in rows:
            self._rows.setdefault(row.lane, {})[row.partition] = row
        self._undone: dict[int, dict[int, positions.Ranges]] = {}
        for partition, saved in checkpoints.items():
            for lane, ranges in positions.decode_offset_sets(saved.blob).lanes.items() if saved.blob else ():
                self._undone.setdefault(lane, {})[partition] = ranges

    def lane(self, stored: Stored[Destination]) -> Lane | None:
        """Return what a destination's lane has yet to come to."""
        config = stored.lane
        if config is None:
            return None
        stretches: list[Stretch] = []
        rows = self._rows.get(config.number, {})
        for partition, (start, end) in self._ends.items():
            row = rows.get(partition)
            if config.until is not None:
                end = min(end, config.until.get(partition, 0))
            if row is None:
                at = self._next.get(partition, 0)
            elif row.state in ENDED_STATES:
                continue
            else:
                cursor = positions.decode_cursor(row.blob)
                at = self._next.get(partition, row.next_offset) if cursor.attached else row.next_offset
                for each in cursor.backfills:
                    if max(each.next_offset, start) < each.end:
                        stretches.append(
                            Stretch(partition, max(each.next_offset, start), each.end, each.source or None)
                        )
            if max(at, start) < end:
                stretches.append(Stretch(partition, max(at, start), end))
        return Lane(stored.object, config, stretches)

    def taken(self, lane: int) -> Count:
        """Return what a lane has taken and neither ended nor put among its retry rows."""
        ranges = dict(self._undone.get(lane, {}))
        for partition, row in self._rows.get(lane, {}).items():
            ranges[partition] = positions.decode_cursor(row.blob).undone
        first = tuple((partition, each[0]) for partition, each in ranges.items() if each)
        return Count(sum(sum(each[1::2]) for each in ranges.values()), True, first)

    def progress(self, lane: int) -> Progress:
        """Return how a lane stands."""
        rows = self._rows.get(lane, {}).values()
        behind = any(not positions.decode_cursor(row.blob).attached for row in rows)
        return Progress(frozenset(row.state for row in rows), behind)


@part
def figures_log(services: Services) -> FiguresLog:
    """Return the figures of every destination."""
    return FiguresLog(services.settings, services.store)


def as_metrics(snapshot: Snapshot) -> dict[str, object]:
    """Return the figures as values of the metrics (``telemetry.metrics``)."""
    figures = snapshot.figures.items()

    def of(name: str) -> dict[str, dict[str, int]]:
        return {"destination": {id: int(getattr(each, name)) for id, each in figures}}

    names = ("queued", "queued_exact", "retrying", "failed", "expired")
    return {
        **{f"hookline_destination_{name}": of(name) for name in names},
        "hookline_destination_delivered_total": of("delivered"),
        "hookline_destination_as_of_seconds": snapshot.at_ms / 1000,
    }
