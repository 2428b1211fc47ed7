"""Text from events on a terminal: what came from outside must not steer it."""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    """The text with control characters made visible; those in ``keep`` stay."""
    return "".join(c if c.isprintable() or c in keep else f"\\u{ord(c):04x}" for c in text)
