"""The chunks of the history: new entries go to the open one; of a level's chunks, ``FAN_IN`` become one of the next.

A row that is rewritten for each new event would cost a page of the file per event. Chunks are written in the order of
their keys instead, and rewritten a few times in all; to read a person's entries is one look per chunk, and there are
never many (decision 0019).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from hookline.database.connection import Connection
from hookline.profiles.batch import PERSON_MASK
from hookline.telemetry.crashpoints import crash_point

CHUNK_ENTRIES = 100_000
"""The open chunk is closed once it has so many."""
FAN_IN = 16
ROWS_PER_STEP = 20_000


class Transacts(Protocol):
    """What is needed of the store."""

    connection: Connection

    def transaction(self) -> AbstractContextManager[object]:
        """A transaction that an exception undoes."""


class _Move(NamedTuple):
    """Chunks that are being put together, the features whose rows have not all moved yet, and the first person of the
    last feature whose rows have not."""

    sources: list[int]
    target: int
    features: list[int]
    person: int = 0


class Chunks:
    """Used by the one writer."""

    def __init__(self, database: Transacts) -> None:
        self._database = database
        self._connection = database.connection
        self._open: tuple[int, int] | None = None
        self._move: _Move | None = None

    def open_for(self, entries: int) -> int:
        """The chunk that takes so many more entries; within the transaction that writes them."""
        execute = self._connection.execute
        if self._open is None:
            query = "SELECT chunk, entries FROM chunks WHERE level = 0 AND entries < ? ORDER BY chunk DESC LIMIT 1"
            self._open = execute(query, (CHUNK_ENTRIES,)).fetchone() or (self._new(0, 0), 0)
        chunk, held = self._open
        execute("UPDATE chunks SET entries = entries + ? WHERE chunk = ?", (entries, chunk))
        self._open = (chunk, held + entries) if held + entries < CHUNK_ENTRIES else None
        return chunk

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
                self._connection.execute(f"DELETE FROM chunks WHERE chunk IN ({_listed(move.sources)})")
        crash_point("profiles.chunk_moved")
        if end is not None:
            self._move = move._replace(person=end)
        elif move.features:
            self._move = move._replace(features=move.features[:-1], person=0)
        else:
            self._move = None
        return True

    def _next_move(self) -> _Move | None:
        execute = self._connection.execute
        query = "SELECT level FROM chunks WHERE entries >= ? GROUP BY level HAVING count(*) >= ? ORDER BY level LIMIT 1"
        row = execute(query, (CHUNK_ENTRIES, FAN_IN)).fetchone()
        if row is None:
            return None
        query = "SELECT chunk, entries FROM chunks WHERE level = ? AND entries >= ? ORDER BY chunk LIMIT ?"
        parts = execute(query, (row[0], CHUNK_ENTRIES, FAN_IN)).fetchall()
        with self._database.transaction():
            target = self._new(row[0] + 1, sum(entries for _, entries in parts))
        features = [feature for (feature,) in execute("SELECT id FROM features ORDER BY id DESC")]
        return _Move([chunk for chunk, _ in parts], target, features)

    def _end(self, move: _Move) -> int | None:
        """The first person whose rows do not move in this step, None when there is nobody left."""
        query = "SELECT person FROM history WHERE feature = ? AND chunk = ? AND person >= ? ORDER BY person"
        rows = max(1, ROWS_PER_STEP // len(move.sources))
        found = [
            self._connection.execute(
                f"{query} LIMIT 1 OFFSET {rows:d}", (move.features[-1], chunk, move.person)
            ).fetchone()
            for chunk in move.sources
        ]
        return min((row[0] for row in found if row), default=None)

    def _move_rows(self, move: _Move, end: int | None) -> None:
        where = f"FROM history WHERE feature = ? AND chunk IN ({_listed(move.sources)}) AND person >= ? AND person < ?"
        stretch = (move.features[-1], move.person, PERSON_MASK + 1 if end is None else end)
        self._connection.execute(
            "INSERT INTO history (feature, chunk, person, entries, entry_values)"
            " SELECT feature, ?, person, CAST(group_concat(entries, '') AS BLOB),"
            f" CAST(group_concat(entry_values, '') AS BLOB) {where} GROUP BY person",
            (move.target, *stretch),
        )
        self._connection.execute(f"DELETE {where}", stretch)

    def _new(self, level: int, entries: int) -> int:
        ((chunk,),) = self._connection.execute("SELECT coalesce(max(chunk), 0) + 1 FROM chunks").fetchall()
        query = "INSERT INTO chunks (chunk, level, entries) VALUES (?, ?, ?)"
        self._connection.execute(query, (chunk, level, entries))
        return int(chunk)


def _listed(chunks: Iterable[int]) -> str:
    return ",".join(f"{chunk:d}" for chunk in chunks)
