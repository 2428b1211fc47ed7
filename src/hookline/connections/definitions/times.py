"""The durations and instants of definitions, as milliseconds."""

from __future__ import annotations

from hookline.connections.definitions.model import Duration, Instants
from hookline.events.timestamps import parse
from hookline.settings import DAY_SECONDS, parse_duration

WITHIN_SECONDS_MAX = 3_650 * DAY_SECONDS
SYNC_SECONDS_MAX = 30 * DAY_SECONDS
SECONDS_MIN = 1


def window_ms(text: Duration) -> int:
    """Return the length of a sliding window; raise ValueError with what to write."""
    return _milliseconds(text, WITHIN_SECONDS_MAX, "30d, at most 3650d")


def sync_ms(text: Duration) -> int:
    """Return the time from one sync to the next; raise ValueError with what to write."""
    return _milliseconds(text, SYNC_SECONDS_MAX, "2h or 30s, at most 30d")


def instant_ms(text: str) -> int:
    """Return a fixed moment; raise ValueError with what to write. Without a zone it is UTC."""
    # Digits alone would be seconds since 1970: nobody means that by 2026.
    ms = parse(text) if text[4:5] == "-" else None
    if ms is None:
        raise ValueError("write a moment such as 2026-11-20 or 2026-11-20T07:00:00Z")
    return ms


def instants_ms(between: Instants) -> tuple[int, int]:
    """Return the first moment and the first one after, of a fixed stretch of time; raise ValueError with what
    to write."""
    begins, ends = map(instant_ms, between)
    if begins >= ends:
        raise ValueError("the first moment must be before the second, which does not belong to it any more")
    return begins, ends


def _milliseconds(text: Duration, seconds_max: float, example: str) -> int:
    try:
        seconds: float = parse_duration(text)
    except (ValueError, OverflowError):
        seconds = 0
    if not SECONDS_MIN <= seconds <= seconds_max:
        raise ValueError(f"write a time of at least one second, such as {example}")
    return round(seconds * 1000)
