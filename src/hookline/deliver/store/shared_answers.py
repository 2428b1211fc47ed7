"""Take an answer to a request for several events from the rows of all of them, when the person of one is erased.

Rows do not say which events a request was for. Those of one request have its lane and duration, about the same time,
and what the receiver said in common. Others that have too lose words that were said again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from hookline.database.connection import Cursor

EVENTS_PER_QUERY = 500
WINDOW_MS = 1_000
"""The rows of a request are made one after the other, within some milliseconds."""

_FOUND = "a.destination, a.lane, a.milliseconds, a.at"
_OF_ERASED = 'a.partition = ? AND a."offset" IN'
_OF_REQUEST = "destination = ?1 AND lane = ?2 AND milliseconds = ?3 AND at >= ?4 AND at < ?5"


class _Answer(NamedTuple):
    """What the rows of one request have in common; ``first_ms`` and ``end_ms`` bound their time."""

    destination: str
    lane: int
    milliseconds: int
    first_ms: int
    end_ms: int
    words: str


def erase_shared_answers(cursor: Cursor, rows: Sequence[tuple[int, int]]) -> None:
    """Take what receivers answered about these events (partition and offset) from the attempts and dead letters of
    others, in the transaction that deletes their own, and before it does."""
    errors: set[_Answer] = set()
    heads: set[_Answer] = set()
    for partition, offsets in _in_parts(rows):
        events = f"{_OF_ERASED} ({', '.join('?' * len(offsets))})"
        values = (partition, *offsets)
        found = cursor.execute(
            f"SELECT {_FOUND}, a.error, a.head FROM attempts AS a"
            f" WHERE {events} AND (a.error <> '' OR a.head IS NOT NULL)",
            values,
        ).fetchall()
        errors |= {_answer(request, error) for *request, error, _ in found if error}
        heads |= {_answer(request, head) for *request, _, head in found if head}
        # Of an attempt that has lost its answer, because there were so many, a dead letter may still have it.
        found = cursor.execute(
            f"SELECT {_FOUND}, d.error FROM attempts AS a JOIN dead_letters AS d ON d.partition = a.partition"
            ' AND d."offset" = a."offset" AND d.lane = a.lane AND d.attempts = a.number'
            f" WHERE {events} AND a.error = '' AND d.error <> ''",
            values,
        ).fetchall()
        errors |= {_answer(request, error) for *request, error in found}
    cursor.executemany(
        'UPDATE dead_letters SET error = NULL WHERE error = ?6 AND (lane, partition, "offset") IN'
        f' (SELECT lane, partition, "offset" FROM attempts WHERE {_OF_REQUEST})',
        errors,
    )
    cursor.executemany(f"UPDATE attempts SET error = '' WHERE {_OF_REQUEST} AND error = ?6", errors)
    cursor.executemany(f"UPDATE attempts SET head = NULL WHERE {_OF_REQUEST} AND head = ?6", heads)


def _answer(request: Sequence[Any], words: str) -> _Answer:
    destination, lane, milliseconds, at_ms = request
    # By the second, so that a person's events of one request are looked for once.
    first_ms = at_ms - at_ms % WINDOW_MS - WINDOW_MS
    return _Answer(destination, lane, milliseconds, first_ms, first_ms + 3 * WINDOW_MS, words)


def _in_parts(rows: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[int]]]:
    for partition, of_it in groupby(sorted(rows), itemgetter(0)):
        offsets = [offset for _, offset in of_it]
        for first in range(0, len(offsets), EVENTS_PER_QUERY):
            yield partition, offsets[first : first + EVENTS_PER_QUERY]
