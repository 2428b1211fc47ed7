"""Keep the time series: one row per time bucket and thing, added to by control, read by charts and commands.

So nothing has to be rolled up later, a restart finds nothing half rolled up, and rows only have to be dropped when they
are old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from hookline.database.connect import insert_many
from hookline.database.connection import replacing, transaction
from hookline.database.location import DatabaseLocation
from hookline.database.open import open_insights
from hookline.database.read_only import ReadOnly
from hookline.telemetry.metrics import DURATION_BUCKETS_MS
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket

BUCKETS = len(DURATION_BUCKETS_MS) + 1
RESPONSE = tuple(f"response_{index}" for index in range(BUCKETS))
LATENCY = tuple(f"latency_{index}" for index in range(BUCKETS))
GAUGES = frozenset({"waiting", "lag"})
"""Of these a longer stretch shows the highest value; everything else adds up."""

DELIVER_TOTALS = ("delivered", "failures", "retries", "not_delivered", "waiting", "lag")
COLLECT_TOTALS = ("accepted", "rejected")
DESTINATION = ("delivered", "attempted", "failures", "retries", "not_delivered", "filtered", "waiting")
SOURCE = ("events", "filtered")


class _Rows(NamedTuple):
    table: str
    columns: tuple[str, ...]
    conflict: str


def _adding(table: str, key: Sequence[str], columns: Sequence[str]) -> _Rows:
    """Return how rows are added to what is there for their key; unknown values leave what is known."""
    sums = ", ".join(f"{name} = coalesce({_joined(table, name)}, {table}.{name}, excluded.{name})" for name in columns)
    return _Rows(table, (*key, *columns), f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET {sums}")


def _joined(table: str, name: str) -> str:
    old, new = f"{table}.{name}", f"excluded.{name}"
    return (
        f"CASE WHEN {new} >= {old} THEN {new} WHEN {new} < {old} THEN {old} END" if name in GAUGES else f"{old} + {new}"
    )


def percentile(counts: Sequence[int | None], share: float) -> float | None:
    """Return the time in milliseconds that ``share`` of all stay within, as if they lay evenly in their bucket.

    None when nothing was counted. What lies above the last bound counts as that bound: the time is at least so long.
    """
    wanted = sum(filter(None, counts)) * share
    if not wanted:
        return None
    passed, lower = 0, 0
    for count, upper in zip(counts, DURATION_BUCKETS_MS, strict=False):
        if count:
            if passed + count >= wanted:
                return round(lower + (upper - lower) * (wanted - passed) / count, 1)
            passed += count
        lower = upper
    return float(lower)


USAGE_ROWS_MAX = 100_000
"""Rows of one report."""
TOTALS = (*COLLECT_TOTALS, *DELIVER_TOTALS)
Values = dict[str, list[float | None]]


class Series(NamedTuple):
    """Named rows of values, one for each of ``times``; None where nobody looked."""

    resolution: int
    times: list[int]
    values: Values


class Sums(NamedTuple):
    """Hold what a destination came to over a range."""

    counts: dict[str, int]
    response: list[int]


class Failing(NamedTuple):
    """A destination with failures, over a range."""

    destination: str
    failures: int
    not_delivered: int
    delivered: int


class Recent(NamedTuple):
    """Counts of a destination's requests, and of events it was not to get, in about the last minutes."""

    delivered: int = 0
    failures: int = 0
    not_delivered: int = 0


class DestinationUsage(NamedTuple):
    """Hold what a destination came to in one period, a day or a month (UTC)."""

    period: str
    destination: str
    delivered: int
    filtered: int
    failures: int
    not_delivered: int


class UsageTooLong(Exception):
    """A report has more rows than one may have."""


class SeriesLog:
    """Safe to share between threads; before the first time bucket everything is empty."""

    def __init__(self, location: DatabaseLocation) -> None:
        self._database = ReadOnly(location)
        self._lock = threading.Lock()

    def totals(self, range: Range, now_seconds: int) -> Series:
        """Return the series over all destinations."""
        rows, times = self._moments(range, now_seconds, (*TOTALS, *RESPONSE, *LATENCY))
        values: Values = {name: [] for name in TOTALS}
        values |= {f"{what}_p{share}": [] for what in ("response", "latency") for share in (50, 95)}
        for row in (rows.get(at) for at in times):
            for index, name in enumerate(TOTALS):
                values[name].append(None if row is None else row[index])
            counts = row[len(TOTALS) :] if row is not None else ()
            _add_percentiles(values, "response", counts[: len(RESPONSE)])
            _add_percentiles(values, "latency", counts[len(RESPONSE) :])
        return Series(SPANS[range].resolution, times, values)

    def of_destination(self, destination: str, range: Range, now_seconds: int) -> Series:
        """Return the series of one destination: 0 where deliver reported and had nothing to say of it."""
        observed, times = self._moments(range, now_seconds, ("delivered",))
        resolution = SPANS[range].resolution
        columns = ", ".join((*DESTINATION, *RESPONSE))
        marks = ",".join("?" * len(times))
        found = {
            row[0]: row[1:]
            for row in self._rows(
                f"SELECT at, {columns} FROM destination_series"
                f" WHERE resolution = ? AND at IN ({marks}) AND destination = ?",
                (resolution, *times, destination),
            )
        }
        values: Values = {name: [] for name in DESTINATION}
        values |= {f"response_p{share}": [] for share in (50, 95)}
        for at in times:
            row = found.get(at)
            seen = at in observed and observed[at][0] is not None
            for index, name in enumerate(DESTINATION):
                values[name].append((row[index] or 0) if row is not None else 0 if seen else None)
            _add_percentiles(values, "response", row[len(DESTINATION) :] if row is not None else ())
        return Series(resolution, times, values)

    def sums(self, destination: str, range: Range, now_seconds: int) -> Sums:
        """Return what one destination came to over the range."""
        span = SPANS[range]
        first = first_of(now_seconds, span.seconds, span.resolution)
        times = list(_steps(first, now_seconds + span.resolution, span.resolution))
        columns = ", ".join(f"coalesce(sum({name}), 0)" for name in (*DESTINATION, *RESPONSE))
        rows = self._rows(
            f"SELECT {columns} FROM destination_series WHERE resolution = ? AND at IN ({','.join('?' * len(times))})"
            " AND destination = ?",
            (span.resolution, *times, destination),
        )
        row = rows[0] if rows else (0,) * (len(DESTINATION) + len(RESPONSE))
        counts = dict(zip(DESTINATION, row[: len(DESTINATION)], strict=True))
        return Sums(counts, list(row[len(DESTINATION) :]))

    def accepted(self, sources: Sequence[str], range: Range, now_seconds: int) -> int:
        """Return how many events some sources sent over the range."""
        span = SPANS[range]
        marks = ",".join("?" * len(sources))
        rows = self._rows(
            "SELECT coalesce(sum(events), 0) FROM source_series WHERE resolution = ? AND at >= ?"
            f" AND source IN ({marks})",
            (span.resolution, first_of(now_seconds, span.seconds, span.resolution), *sources),
        )
        return int(rows[0][0]) if rows else 0

    def top_failing(self, range: Range, now_seconds: int, limit: int, exists: Callable[[str], object]) -> list[Failing]:
        """Return the destinations with most failed requests over about the range, of those that there still are."""
        span = SPANS[range]
        rows = self._rows(
            "SELECT destination, sum(failures) AS failed, coalesce(sum(not_delivered), 0), coalesce(sum(delivered), 0)"
            " FROM destination_series WHERE resolution = ? AND at >= ? GROUP BY destination HAVING sum(failures) > 0"
            " ORDER BY failed DESC, destination",
            (span.coarse, first_of(now_seconds, span.seconds, span.coarse)),
        )
        return [Failing(*row) for row in islice((row for row in rows if exists(row[0])), limit)]

    def recent(self, seconds: int, now_seconds: int, destination: str | None = None) -> dict[str, Recent]:
        """Return what every destination, or one, came to in so many seconds, rounded up to rows that are kept so long;
        without those that did nothing."""
        resolution = next((each for each in _RECENT if seconds < RESOLUTIONS[each]), DAY)
        one = "" if destination is None else " AND destination = ?"
        rows = self._rows(
            "SELECT destination, coalesce(sum(delivered), 0), coalesce(sum(failures), 0),"
            " coalesce(sum(not_delivered), 0)"
            f" FROM destination_series WHERE resolution = ? AND at >= ?{one} GROUP BY destination",
            (resolution, first_of(now_seconds, seconds, resolution), *(() if destination is None else (destination,))),
        )
        return {row[0]: Recent(*row[1:]) for row in rows}

    def delivered_until(self, destination: str) -> int:
        """Return the end of the last time bucket in which a destination got something, since the epoch; 0 if none is
        kept."""
        query = (
            "SELECT at FROM destination_series WHERE resolution = ? AND destination = ? AND delivered > 0"
            " ORDER BY at DESC LIMIT 1"
        )
        for resolution in (10, MINUTE, HOUR):
            for (at,) in self._rows(query, (resolution, destination)):
                return int(at) + resolution
        return 0

    def last_delivered(self, now_seconds: int) -> dict[str, int]:
        """Return the beginning of the newest row of the last two days in which each destination accepted requests: of a
        minute, or of ten where that is longer ago."""
        rows = self._rows(
            "SELECT destination, max(at) FROM destination_series WHERE delivered > 0"
            " AND ((resolution = ? AND at >= ?) OR (resolution = ? AND at >= ?)) GROUP BY destination",
            (MINUTE, now_seconds - 20 * MINUTE, 10 * MINUTE, now_seconds - 2 * DAY),
        )
        return {destination: int(at) for destination, at in rows}

    def usage(self, first_day: int, last_day: int, by_month: bool) -> list[DestinationUsage]:
        """Return the sums of each destination by period, newest period first; days by their first second, both
        included. Raise UsageTooLong."""
        period = "%Y-%m" if by_month else "%Y-%m-%d"
        rows = self._rows(
            f"SELECT strftime(?, at, 'unixepoch') AS period, destination, {_USAGE}"
            " GROUP BY period, destination ORDER BY period DESC, destination LIMIT ?",
            (period, DAY, first_day, last_day, USAGE_ROWS_MAX + 1),
        )
        if len(rows) > USAGE_ROWS_MAX:
            raise UsageTooLong
        return [DestinationUsage(*row) for row in rows]

    def busiest(self, first_day: int, last_day: int, limit: int) -> list[DestinationUsage]:
        """Return the sums over all these days of the destinations that got most; of no period."""
        rows = self._rows(
            f"SELECT '', destination, {_USAGE} GROUP BY destination ORDER BY 3 DESC, destination LIMIT ?",
            (DAY, first_day, last_day, limit),
        )
        return [DestinationUsage(*row) for row in rows]

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._database.close()

    def _moments(self, range: Range, now_seconds: int, columns: Sequence[str]) -> tuple[dict[int, Any], list[int]]:
        """Return the rows of the totals by time, and all times of the range that are over."""
        span = SPANS[range]
        first = first_of(now_seconds, span.seconds, span.resolution)
        rows = self._rows(
            f"SELECT at, {', '.join(columns)} FROM total_series WHERE resolution = ? AND at >= ?",
            (span.resolution, first),
        )
        return {row[0]: row[1:] for row in rows}, list(_steps(first, now_seconds, span.resolution))

    def _rows(self, query: str, values: Sequence[object]) -> list[Any]:
        with self._lock:
            connection = self._database.open()
            return [] if connection is None else connection.execute(query, values).fetchall()


_USAGE = (
    "coalesce(sum(delivered), 0), coalesce(sum(filtered), 0), coalesce(sum(failures), 0),"
    " CASE WHEN sum(not_delivered) > 0 THEN sum(not_delivered) ELSE 0 END"
    " FROM destination_series WHERE resolution = ? AND at >= ? AND at <= ?"
)


def _steps(first: int, now_seconds: int, resolution: int) -> range:
    return range(first, now_seconds // resolution * resolution, resolution)


def _add_percentiles(values: Values, what: str, counts: Sequence[int | None]) -> None:
    for share in (50, 95):
        values[f"{what}_p{share}"].append(percentile(counts, share / 100))


MINUTE = 60
HOUR = 3_600
DAY = 24 * HOUR

RESOLUTIONS = {10: 2 * HOUR, MINUTE: 26 * HOUR, 600: 8 * DAY, HOUR: 32 * DAY, DAY: 400 * DAY}
"""Seconds per row, and for how many seconds rows are kept: somewhat more than the range they answer."""

_RECENT = (MINUTE, 10 * MINUTE, HOUR)

Range = Literal["1h", "24h", "7d", "30d"]


class Span(NamedTuple):
    """A range and the rows that answer it; ``coarse`` ones are few enough to add up over every destination."""

    seconds: int
    resolution: int
    coarse: int


SPANS: dict[str, Span] = {
    "1h": Span(HOUR, 10, 600),
    "24h": Span(DAY, 60, HOUR),
    "7d": Span(7 * DAY, 600, DAY),
    "30d": Span(30 * DAY, HOUR, DAY),
}


def first_of(now_seconds: int, span_seconds: int, resolution: int) -> int:
    """Return the beginning of the oldest row that a range touches, so many seconds back from now."""
    return (now_seconds - span_seconds) // resolution * resolution


TABLES = ("total_series", "destination_series", "source_series")

_NO_END = 2**62
_KEY = ("resolution", "at")
_ADD_TOTAL = _adding("total_series", _KEY, (*DELIVER_TOTALS, *RESPONSE, *LATENCY))
_ADD_ACCEPTED = _adding("total_series", _KEY, COLLECT_TOTALS)
_ADD_DESTINATION = _adding("destination_series", (*_KEY, "destination"), (*DESTINATION, *RESPONSE))
_SET_PLACE = replacing("series_place", ("id",), ("last_slot",))
_ADD_SOURCE = _adding("source_series", (*_KEY, "source"), SOURCE)


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
        with transaction(self._connection):
            for each in time_buckets:
                keys = list(_keys(each.at))
                destinations = [(id, *_destination(counts)) for id, counts in each.destinations.items()]
                sources = [(id, counts.events, counts.filtered) for id, counts in each.sources.items()]
                self._add(_ADD_TOTAL, [(*key, *_total(each)) for key in keys])
                self._add(_ADD_DESTINATION, [(*key, *row) for key in keys for row in destinations])
                self._add(_ADD_SOURCE, [(*key, *row) for key in keys for row in sources])
            last = max(each.at for each in time_buckets)
            self._connection.execute(_SET_PLACE, (self._machine, last))

    def add_accepted(self, at: int, accepted: int, rejected: int) -> None:
        """Add what collect took and refused in the time bucket that begins at ``at``."""
        with transaction(self._connection):
            self._add(_ADD_ACCEPTED, [(*key, accepted, rejected) for key in _keys(at)])

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
                    with transaction(self._connection):
                        for table in TABLES:
                            drop = f"DELETE FROM {table} WHERE resolution = ? AND at > ? AND at <= ?"
                            self._connection.execute(drop, (resolution, after, row[0]))

    def close(self) -> None:
        """Let go of the file; idempotent."""
        self._connection.close()

    def _add(self, to: _Rows, rows: Sequence[Sequence[object]]) -> None:
        insert_many(self._connection, to.table, to.columns, rows, to.conflict)


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
