"""Moves the history of persons into rows of buckets, each chunk as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from hookline.database.sqlite import Connection

ROWS_PER_CHUNK = 16_384
SHIFT_MAX = 12
ENTRY_BYTES = 24
"""Of an entry as it was until then."""
PERSON_BYTES = 4


def move(connection: Connection) -> None:
    """Write every row anew; what was there is overwritten."""
    connection.execute("PRAGMA secure_delete = ON")
    query = "SELECT (SELECT max(id) FROM persons) * (SELECT count(*) FROM features)"
    ((pairs,),) = connection.execute(query).fetchall()
    shift = min(SHIFT_MAX, int((pairs or 0) // ROWS_PER_CHUNK).bit_length())
    connection.execute("UPDATE chunks SET shift = ?", (shift,))
    rows = connection.execute(
        "SELECT feature, chunk, person, entries, entry_values FROM history_of_persons ORDER BY feature, chunk, person"
    )
    insert = "INSERT INTO history (feature, chunk, bucket, entries, entry_values) VALUES (?, ?, ?, ?, ?)"
    connection.executemany(insert, _buckets(rows, shift))
    connection.execute("DROP TABLE history_of_persons")


def _buckets(rows: Iterable[tuple[Any, ...]], shift: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows as they are written now, those of persons in a row with the same bucket as one."""
    for key, found in groupby(rows, lambda row: (row[0], row[1], row[2] >> shift)):
        written, lines = bytearray(), bytearray()
        has_values = False
        for _, _, person, entries, values in found:
            number = person.to_bytes(PERSON_BYTES, "little")
            for at in range(0, len(entries), ENTRY_BYTES):
                written += number + entries[at : at + ENTRY_BYTES]
            has_values = values is not None
            lines += values or b""
        yield *key, written, lines if has_values else None
