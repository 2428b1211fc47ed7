"""A chart as the pages show it: named lines over time, thinned to what a screen can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hookline.web.rendering import iso_seconds

POINTS_MAX = 120
"""Also the rows of the table below the chart."""

Values = Sequence[float | None]


class Line(NamedTuple):
    """One line; ``kind`` is its colour and shape: ``good``, ``wait``, ``warn``, ``dead``, ``off`` or ``accent``."""

    name: str
    kind: str


class Row(NamedTuple):
    """The values of all lines at one time; None where nothing is known."""

    at: str
    values: Values


class ChartView(NamedTuple):
    """One chart with its table."""

    id: str
    title: str
    unit: str
    lines: Sequence[Line]
    rows: Sequence[Row]


MINUTE_SECONDS = 60
PEAK_PER_SECOND = 10
"""From this peak on rates are per second; below it they would be fractions, and are per minute."""


class Rate(NamedTuple):
    """Hold what counts are multiplied with, and the unit that makes of them."""

    factor: float
    unit: str

    def of(self, counts: Values) -> Values:
        """Return the counts of each time as rates."""
        return [None if count is None else count * self.factor for count in counts]


def rate(resolution_seconds: float, *counts: Values) -> Rate:
    """Return the rate that reads best for what one chart shows, counted over times of this length."""
    peak = max((count for each in counts for count in each if count is not None), default=0)
    if peak / resolution_seconds >= PEAK_PER_SECOND:
        return Rate(1 / resolution_seconds, "/s")
    return Rate(MINUTE_SECONDS / resolution_seconds, "/min")


def mean(values: Sequence[float]) -> float:
    """Return how several points of a rate become one."""
    return sum(values) / len(values)


def chart(
    id: str,
    title: str,
    unit: str,
    times: Sequence[float],
    lines: Sequence[tuple[Line, Values]],
    join: Callable[[Sequence[float]], float] = mean,
) -> ChartView:
    """Put a chart together; ``times`` are seconds since the epoch, ``join`` makes one of points that are too many."""
    step = -(-len(times) // POINTS_MAX) or 1
    starts = range(0, len(times), step)
    columns = [[_joined(values[start : start + step], join) for start in starts] for _, values in lines]
    rows = [
        Row(iso_seconds(times[start]), list(row)) for start, row in zip(starts, zip(*columns, strict=True), strict=True)
    ]
    return ChartView(id, title, unit, [line for line, _ in lines], rows)


def _joined(values: Values, join: Callable[[Sequence[float]], float]) -> float | None:
    known = [value for value in values if value is not None]
    return join(known) if known else None
