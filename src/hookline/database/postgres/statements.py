"""SQLite's statements as PostgreSQL takes them: other marks for values, and three words that it spells otherwise."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

STATEMENTS_MAX = 2_000
"""Texts are made anew for lists of values, so their number has no bound of its own."""

Kind = Literal["read", "write", "begin_read", "begin_write", "commit", "rollback"]

_KINDS: dict[str, Kind] = {
    "SELECT": "read",
    "WITH": "read",
    "VALUES": "read",
    "BEGIN": "begin_read",
    "BEGIN IMMEDIATE": "begin_write",
    "COMMIT": "commit",
    "ROLLBACK": "rollback",
}
# Quoted text first, so that nothing in it is taken for something else.
_PARTS = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | \?(\d*) | \bINDEXED\ BY\ \w+ | \bAS\ BLOB\b | \bIN\ \(\)""", re.VERBOSE
)
_WORDS = {"AS BLOB": "AS BYTEA", "IN ()": "IN (NULL)"}
_WORD = re.compile(r"\s*(BEGIN IMMEDIATE|\w+)")


class Statement(NamedTuple):
    """A statement's text for PostgreSQL, and what it does."""

    text: str
    kind: Kind


@lru_cache(STATEMENTS_MAX)
def translated(sql: str) -> Statement:
    """Return the statement as PostgreSQL takes it; what it does is told by its first word."""
    highest = 0

    def part(found: re.Match[str]) -> str:
        nonlocal highest
        text = found[0]
        if text[0] == "?":
            number = int(found[1]) if found[1] else highest + 1
            highest = max(highest, number)
            return f"${number}"
        if text.startswith("INDEXED"):  # which index to use is PostgreSQL's own choice
            return ""
        return _WORDS.get(text, text)

    text = _PARTS.sub(part, sql)
    word = _WORD.match(sql)
    return Statement(text, _KINDS.get(word[1], "write") if word else "write")
