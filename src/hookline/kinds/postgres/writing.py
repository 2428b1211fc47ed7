"""Write rows into tables: by COPY, and where some of them are there already, by statements that leave those alone.

Nearly always no row is there yet, and COPY costs a third of any other way. It cannot pass over rows that exist, so a
batch that meets one is rolled back and written again with INSERT … ON CONFLICT. That happens after a crash.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hookline.kinds.postgres.tables import Ready, qualified, quoted
from hookline.kinds.postgres.types import NULL, cleaned

if TYPE_CHECKING:
    from psycopg import Connection

BLOCK_ROWS = 500
"""Rows that are handed over at once; one odd value makes all of its block take the slow way."""
INSERT_ROWS_MAX = 2_000
"""Rows of one INSERT statement."""

SEPARATOR = "\x1f"
"""Between values: unlike a tab, nobody sends it."""

COPY_OPTIONS = f"(FORMAT text, DELIMITER E'\\x1f', NULL '{NULL}')"

_ODD = re.compile("[\\\\\r\n\x1f]")
_ESCAPES = {"\\": "\\\\", "\r": "\\r", "\n": "\\n", "\x1f": "\\x1f"}


def copy_rows(connection: Connection[tuple[object, ...]], ready: Ready) -> None:
    """Copy rows into a table; raise psycopg's UniqueViolation where one of them is there."""
    names = ", ".join(map(quoted, ready.columns))
    statement = f"COPY {qualified(ready.table)} ({names}) FROM STDIN WITH {COPY_OPTIONS}"
    rows = list(zip(*ready.texts, strict=True))
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for begin in range(0, len(rows), BLOCK_ROWS):
            copy.write(block_of(rows[begin : begin + BLOCK_ROWS]))


def insert_rows(connection: Connection[tuple[object, ...]], ready: Ready) -> None:
    """Insert the rows that are not there yet."""
    _insert(connection, ready, "ON CONFLICT (id) DO NOTHING")


def keep_latest(connection: Connection[tuple[object, ...]], ready: Ready) -> None:
    """Put rows over those with the same ids: of what both have, that of the later event counts.

    A row that changes nothing is not written. Rows are taken in the order of their ids, as two writers must.
    """
    others = [quoted(name) for name in ready.columns if name not in ("id", "received_at")]
    later = "EXCLUDED.received_at >= t.received_at"
    values = [
        f"CASE WHEN {later} THEN COALESCE(EXCLUDED.{name}, t.{name}) ELSE COALESCE(t.{name}, EXCLUDED.{name}) END"
        for name in others
    ]
    names = [*others, "received_at"]
    values.append("GREATEST(t.received_at, EXCLUDED.received_at)")
    sets = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    before, after = ", ".join(f"t.{name}" for name in names), ", ".join(values)
    action = f"UPDATE SET {sets}, uuid_ts = now() WHERE ROW({before}) IS DISTINCT FROM ROW({after})"
    order = sorted(range(len(ready.texts[0])), key=ready.texts[ready.columns.index("id")].__getitem__)
    texts: list[Sequence[str]] = [[column[index] for index in order] for column in ready.texts]
    _insert(connection, ready._replace(texts=texts), f"ON CONFLICT (id) DO {action}")


def block_of(rows: Sequence[Sequence[str]]) -> bytes:
    """Return rows as COPY reads them."""
    lines = "\n".join(map(SEPARATOR.join, rows)) + "\n"
    if not _needs_care(lines, rows):
        try:
            return lines.encode()
        except UnicodeEncodeError:  # half a character
            pass
    made = (SEPARATOR.join(map(_escaped, row)) for row in rows)
    return ("\n".join(made) + "\n").encode()


def _needs_care(lines: str, rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a value may have what means something to COPY, from counts over all of them."""
    if "\\" in lines or "\r" in lines or "\0" in lines or lines.count("\n") != len(rows):
        return True
    return lines.count(SEPARATOR) != len(rows) * (len(rows[0]) - 1)


def _escaped(value: str) -> str:
    if value is NULL:
        return value
    return _ODD.sub(lambda found: _ESCAPES[found[0]], str(cleaned(value)))


def _insert(connection: Connection[tuple[object, ...]], ready: Ready, conflict: str) -> None:
    names = ", ".join(map(quoted, ready.columns))
    given = [f"c{number}" for number in range(len(ready.columns))]
    values = ", ".join(f"v.{name}::{kind}" for name, kind in zip(given, ready.types, strict=True))
    arrays = ", ".join(["%s::text[]"] * len(given))
    statement = (
        f"INSERT INTO {qualified(ready.table)} AS t ({names}) SELECT {values}"
        f" FROM unnest({arrays}) AS v({', '.join(given)}) {conflict}"
    )
    for begin in range(0, len(ready.texts[0]), INSERT_ROWS_MAX):
        part = [column[begin : begin + INSERT_ROWS_MAX] for column in ready.texts]
        lists = [[None if value is NULL else cleaned(value) for value in column] for column in part]
        connection.execute(statement.encode(), lists)
