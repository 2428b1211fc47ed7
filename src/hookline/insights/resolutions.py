"""How finely the time series are kept, and which of that answers which range."""

from __future__ import annotations

from typing import Literal, NamedTuple

MINUTE = 60
HOUR = 3_600
DAY = 24 * HOUR

RESOLUTIONS = {10: 2 * HOUR, MINUTE: 26 * HOUR, 600: 8 * DAY, HOUR: 32 * DAY, DAY: 400 * DAY}
"""Seconds per row, and for how many seconds rows are kept: somewhat more than the range they answer."""

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
