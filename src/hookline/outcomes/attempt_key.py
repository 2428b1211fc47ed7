"""What attempts are ordered by and called: time, kind, and what tells those of one millisecond apart."""

from __future__ import annotations

RESULT, FAILURE, NOTHING = 0, 1, 2
"""Kinds: a result in a block, a row, and a place in the order before everything of its millisecond."""
PARTS = 5

Key = tuple[int, int, int, int, int]
"""(ms, RESULT, lane, place, URL's number) or (ms, FAILURE, row, 0, 0)."""


def id_of(key: Key) -> str:
    """Return the attempt's id, which is also the cursor behind it."""
    return "-".join(map(str, key))


def attempt_key(text: str) -> Key | None:
    """Return the key that an attempt's id stands for; None for what is no id."""
    parts = text.split("-")
    if len(parts) != PARTS or not all(part.isascii() and part.isdecimal() and len(part) < 20 for part in parts):
        return None
    at, kind, first, second, third = map(int, parts)
    return None if max(at, kind, first, second, third) >= 1 << 63 else (at, kind, first, second, third)
