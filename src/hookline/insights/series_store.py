"""Writes the time series: one row per time bucket and thing, added to a row of every resolution at once.

So nothing has to be rolled up later, a restart finds nothing half rolled up, and rows only have to be dropped when they
are old.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hookline.database.location import DatabaseLocation
from hookline.database.open import open_insights
from hookline.database.upsert import replacing
from hookline.insights.columns import (
    COLLECT_TOTALS,
    DELIVER_TOTALS,
    DESTINATION,
    LATENCY,
    RESPONSE,
    SOURCE,
    adding,
)
from hookline.insights.series_log import RESOLUTIONS
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket

TABLES = ("total_series", "destination_series", "source_series")

_NO_END = 2**62
_KEY = ("resolution", "at")
_ADD_TOTAL = adding("total_series", _KEY, (*DELIVER_TOTALS, *RESPONSE, *LATENCY))
_ADD_ACCEPTED = adding("total_series", _KEY, COLLECT_TOTALS)
_ADD_DESTINATION = adding("destination_series", (*_KEY, "destination"), (*DESTINATION, *RESPONSE))
_SET_PLACE = replacing("series_place", ("id",), ("last_slot",))
_ADD_SOURCE = adding("source_series", (*_KEY, "source"), SOURCE)


class SeriesStore:
    """Writes the series of one machine's roles into the insights database; used from one thread at a time.

    Where machines share it each adds its own counts, and of what waits the highest stays.
    """

    def __init__(self, location: DatabaseLocation, machine: int = 1) -> None:
        """``machine`` is the number of this data folder among those that share the database."""
        self._machine = machine
        self._connection = open_insights(location)

    def last_slot(self) -> int:
        """Return the newest time bucket of deliver that is in the series; 0 before the first."""
        row = self._connection.execute("SELECT last_slot FROM series_place WHERE id = ?", (self._machine,)).fetchone()
        return int(row[0]) if row else 0

    def add_time_buckets(self, time_buckets: Sequence[TimeBucket]) -> None:
        """Add time buckets of deliver, in one transaction with the place up to which they are in."""
        if not time_buckets:
            return
        with_totals = [(*key, *_total(time_bucket)) for time_bucket in time_buckets for key in _keys(time_bucket.at)]
        destinations = [
            (*key, id, *_destination(counts))
            for time_bucket in time_buckets
            for key in _keys(time_bucket.at)
            for id, counts in time_bucket.destinations.items()
        ]
        sources = [
            (*key, id, counts.events, counts.filtered)
            for time_bucket in time_buckets
            for key in _keys(time_bucket.at)
            for id, counts in time_bucket.sources.items()
        ]
        self._write(
            (_ADD_TOTAL, with_totals),
            (_ADD_DESTINATION, destinations),
            (_ADD_SOURCE, sources),
            (_SET_PLACE, [(self._machine, max(time_bucket.at for time_bucket in time_buckets))]),
        )

    def add_accepted(self, at: int, accepted: int, rejected: int) -> None:
        """Add what collect took and refused in the time bucket that begins at ``at``."""
        self._write((_ADD_ACCEPTED, [(*key, accepted, rejected) for key in _keys(at)]))

    def drop_old(self, now_seconds: int) -> None:
        """Drop what is older than the newest rows that are kept of each resolution.

        They are counted, those before now and those after it by themselves: a clock that was set ahead must not make
        all that there is old, and once it is set back, what it wrote must not push out what is written then.
        """
        newest = "SELECT at FROM total_series WHERE resolution = ? AND at > ? AND at <= ? ORDER BY at DESC LIMIT 1"
        for resolution, kept_seconds in RESOLUTIONS.items():
            for after, until in ((-1, now_seconds), (now_seconds, _NO_END)):
                span = (resolution, after, until)
                row = self._connection.execute(f"{newest} OFFSET {kept_seconds // resolution}", span).fetchone()
                if row is not None:
                    drop = "DELETE FROM {} WHERE resolution = ? AND at > ? AND at <= ?"
                    self._write(*((drop.format(table), [(resolution, after, row[0])]) for table in TABLES))

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()

    def _write(self, *work: tuple[str, Iterable[Sequence[object]]]) -> None:
        cursor = self._connection.cursor()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            for statement, rows in work:
                cursor.executemany(statement, rows)
            cursor.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise


def _keys(at: int) -> Iterator[tuple[int, int]]:
    for resolution in RESOLUTIONS:
        yield resolution, at // resolution * resolution


def _total(time_bucket: TimeBucket) -> tuple[int | None, ...]:
    counts = (
        time_bucket.delivered,
        time_bucket.failures,
        time_bucket.retries,
        time_bucket.not_delivered,
        time_bucket.waiting,
        time_bucket.lag,
    )
    return (*counts, *_buckets(time_bucket.response), *_buckets(time_bucket.latency))


def _destination(counts: DestinationCounts) -> tuple[int | None, ...]:
    kept = (counts.filtered, counts.waiting)
    tried = (counts.delivered, counts.attempted, counts.failures, counts.retries, counts.not_delivered)
    return (*tried, *kept, *_buckets(counts.response))


def _buckets(counts: Sequence[int]) -> tuple[int | None, ...]:
    """Return all of a histogram's counts; an empty one is not written out, which costs less room."""
    return tuple(counts) if len(counts) == len(RESPONSE) else (None,) * len(RESPONSE)
