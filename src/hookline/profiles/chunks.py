"""The chunks of the history: new entries go to the open one; of a level's chunks, ``FAN_IN`` become one of the next.

A row that is rewritten for each new event would cost a page of the file per event. Chunks are written in the order of
their keys instead, and rewritten a few times in all; to read a person's entries is one look per chunk, and there are
never many. A row holds what the persons of one bucket did, a bucket being those whose numbers differ in the lowest
``shift`` bits alone: the fewer rows, the cheaper is a chunk to write (decision 0019).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from hookline.database.connection import Connection
from hookline.profiles.batch import BUCKET_MASK
from hookline.profiles.entries import ENTRY_BYTES
from hookline.profiles.purpose import Purpose
from hookline.telemetry.crashpoints import crash_point

CHUNK_ENTRIES = 50_000
"""The open chunk is closed once it has so many: what a batch of the journal brings."""
FAN_IN = 16
LEVEL_MAX = 2
"""Chunks of this level stay: their rows are as long as reading one person allows."""
ROWS_PER_CHUNK = 16_384
"""About; it says how many persons share a row."""
SHIFT_MAX = 12
BYTES_PER_STEP = 2 << 20
"""Of entries that are moved in one transaction, rounded up to a row of each chunk."""


class Transacts(Protocol):
    """What is needed of the store."""

    connection: Connection

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction that an exception undoes."""


class Chunk(NamedTuple):
    """A chunk, and in how many of their lowest bits the persons of a row differ."""

    number: int
    shift: int


class _Move(NamedTuple):
    """Chunks that are being put together, the features whose rows have not all moved yet, and the first of the target's
    buckets of the last feature that has not."""

    sources: list[Chunk]
    target: Chunk
    features: list[int]
    bucket: int = 0


class _Open(NamedTuple):
    chunk: Chunk
    entries: int


class Chunks:
    """Used by the one writer."""

    def __init__(self, database: Transacts) -> None:
        self._database = database
        self._connection = database.connection
        self._open: _Open | None = None
        self._move: _Move | None = None

    def shift(self) -> int:
        """In how many of their lowest bits persons that share a row of the next batch should differ."""
        self._open = self._open or self._found_open()
        if self._open is not None:
            return self._open.chunk.shift
        query = "SELECT (SELECT max(id) FROM persons) * (SELECT count(*) FROM features WHERE purpose <> ?)"
        ((pairs,),) = self._connection.execute(query, (Purpose.NOBODY,)).fetchall()
        return min(SHIFT_MAX, int((pairs or 0) // ROWS_PER_CHUNK).bit_length())

    def open_for(self, entries: int, shift: int) -> int:
        """The chunk that takes so many more entries in rows of this shift; within the transaction that writes them."""
        found = self._open or self._found_open()
        if found is None or found.chunk.shift != shift:
            found = _Open(self._new(0, 0, shift), 0)
        chunk, held = found
        query = "UPDATE chunks SET entries = entries + ? WHERE chunk = ?"
        self._connection.execute(query, (entries, chunk.number))
        self._open = _Open(chunk, held + entries) if held + entries < CHUNK_ENTRIES else None
        return chunk.number

    def forget(self) -> None:
        """A transaction failed: what is known of the open chunk may not be so."""
        self._open = None

    def put_together(self) -> bool:
        """Take one step of putting chunks of a level together; return whether there was one to take.

        A step is a transaction that moves the rows of one feature and a stretch of persons, short because whoever else
        writes waits for it. After a crash some have moved and some have not, which reading does not notice, and the
        rest moves when it is begun again.
        """
        move = self._move or self._next_move()
        if move is None:
            return False
        self._move = move
        end = self._end(move) if move.features else None
        with self._database.transaction():
            if move.features:
                self._move_rows(move, end)
            else:
                self._connection.executemany(
                    "DELETE FROM chunks WHERE chunk = ?", [(chunk.number,) for chunk in move.sources]
                )
        crash_point("profiles.chunk_moved")
        if end is not None:
            self._move = move._replace(bucket=end)
        elif move.features:
            self._move = move._replace(features=move.features[:-1], bucket=0)
        else:
            self._move = None
        return True

    def _found_open(self) -> _Open | None:
        query = "SELECT chunk, shift, entries FROM chunks WHERE level = 0 ORDER BY chunk DESC LIMIT 1"
        row = self._connection.execute(query).fetchone()
        return _Open(Chunk(*row[:2]), row[2]) if row is not None and row[2] < CHUNK_ENTRIES else None

    def _next_move(self) -> _Move | None:
        execute = self._connection.execute
        query = f"SELECT level FROM chunks WHERE {_CLOSED} GROUP BY level HAVING count(*) >= ? ORDER BY level LIMIT 1"
        row = execute(query, (LEVEL_MAX, CHUNK_ENTRIES, FAN_IN)).fetchone()
        if row is None:
            return None
        query = f"SELECT chunk, shift, entries FROM chunks WHERE {_CLOSED} AND level = ? ORDER BY chunk LIMIT ?"
        parts = execute(query, (LEVEL_MAX, CHUNK_ENTRIES, row[0], FAN_IN)).fetchall()
        with self._database.transaction():
            entries, shift = sum(entries for *_, entries in parts), max(shift for _, shift, _ in parts)
            target = self._new(row[0] + 1, entries, shift)
        features = [feature for (feature,) in execute("SELECT id FROM features ORDER BY id DESC")]
        return _Move([Chunk(*chunk) for *chunk, _ in parts], target, features)

    def _end(self, move: _Move) -> int | None:
        """The first of the target's buckets that does not move in this step, None when there is none left."""
        query = (
            "SELECT min(bucket) FROM (SELECT bucket, sum(length(entries)) OVER (ORDER BY bucket) AS bytes"
            " FROM (SELECT bucket, entries FROM history WHERE feature = ? AND chunk = ? AND bucket >= ?"
            " ORDER BY bucket LIMIT ?) AS next_rows) AS summed WHERE bytes > ?"
        )
        ends = []
        bytes_max = BYTES_PER_STEP // len(move.sources)
        for chunk in move.sources:
            more = move.target.shift - chunk.shift
            key = (move.features[-1], chunk.number, move.bucket << more, rows_for(bytes_max), bytes_max)
            ((bucket,),) = self._connection.execute(query, key).fetchall()
            if bucket is not None:
                ends.append(max(bucket >> more, move.bucket + 1))
        return min(ends, default=None)

    def _move_rows(self, move: _Move, end: int | None) -> None:
        parts = []
        for chunk in move.sources:
            more = move.target.shift - chunk.shift
            first, last = move.bucket << more, BUCKET_MASK if end is None else (end << more) - 1
            where = f"feature = {move.features[-1]:d} AND chunk = {chunk.number:d}"
            parts.append((more, f"FROM history WHERE {where} AND bucket BETWEEN {first:d} AND {last:d}"))
        rows = " UNION ALL ".join(
            f"SELECT bucket >> {more:d} AS bucket, entries, entry_values {rows}" for more, rows in parts
        )
        self._connection.execute(
            "INSERT INTO history (feature, chunk, bucket, entries, entry_values)"
            " SELECT ?, ?, bucket, CAST(string_agg(entries, '') AS BLOB),"
            f" CAST(string_agg(entry_values, '') AS BLOB) FROM ({rows}) AS parts GROUP BY bucket",
            (move.features[-1], move.target.number),
        )
        for _, rows in parts:
            self._connection.execute(f"DELETE {rows}")

    def _new(self, level: int, entries: int, shift: int) -> Chunk:
        ((chunk,),) = self._connection.execute("SELECT coalesce(max(chunk), 0) + 1 FROM chunks").fetchall()
        query = "INSERT INTO chunks (chunk, level, entries, shift) VALUES (?, ?, ?, ?)"
        self._connection.execute(query, (chunk, level, entries, shift))
        return Chunk(chunk, shift)


_CLOSED = "level < ? AND (entries >= ? OR chunk < (SELECT max(chunk) FROM chunks WHERE level = 0))"


def rows_for(bytes: int) -> int:
    """How many rows of the history, one after the other, have more than so many bytes of entries in all."""
    return bytes // ENTRY_BYTES + 2


def chunks_of(connection: Connection) -> list[Chunk]:
    """The chunks there are."""
    return [Chunk(*row) for row in connection.execute("SELECT chunk, shift FROM chunks")]


def by_bucket(people: Iterable[int], shift: int) -> dict[int, list[int]]:
    """Persons by the bucket of a chunk with this shift."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for person in people:
        found[person >> shift].append(person)
    return found
