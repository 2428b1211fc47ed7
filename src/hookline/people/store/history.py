"""The history of events that definitions ask for: entries packed into chunks, and the chunks of a level joined into one
of the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from operator import attrgetter
from struct import Struct
from typing import NamedTuple, Protocol

import msgspec

from hookline.database.connection import Connection
from hookline.people.definitions.feature import Entry, Purpose
from hookline.people.store.batch import BUCKET_MASK
from hookline.telemetry.crashpoints import crash_point

ENTRIES_MAX = 10_000
"""Of one person and feature; the oldest go first."""
TEXT_CHARACTERS_MAX = 512
"""Of a text value; the rest of a longer one is cut off."""

_WRITTEN = Struct("<Iq8sq")
_READ = Struct("<IqQq")
ENTRY_BYTES = _READ.size
_PERSON_BYTES = 4

pack = _WRITTEN.pack
"""One entry's bytes: its person, its time, its record's fingerprint (of which 8 bytes are kept), its position."""
pack_person = Struct("<I").pack
pack_undecided = Struct("<q8sq").pack
"""The same in two: the person's bytes, and the rest of the entry."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(float | str | bool | None)


def pack_value(value: object) -> bytes:
    """Return the line of a value: a number, a text or a truth value; what is neither is null."""
    try:
        kind = value.__class__
        if kind is float or kind is bool:
            return _encode(value) + b"\n"
        if value.__class__ is str:
            return _encode(value[:TEXT_CHARACTERS_MAX]) + b"\n"
        if value.__class__ is int:
            return _encode(float(value)) + b"\n"
    except (ValueError, OverflowError):  # half a surrogate pair, a number beyond any range
        pass
    return b"null\n"


def unpack(entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """Return the entries as they were written, each with its person."""
    if values is None:
        return [
            (person, Entry(at_ms, mark, position, None)) for person, at_ms, mark, position in _READ.iter_unpack(entries)
        ]
    return [
        (person, Entry(at_ms, mark, position, value))
        for (person, at_ms, mark, position), value in zip(
            _READ.iter_unpack(entries), _decode.decode_lines(values), strict=True
        )
    ]


def people_of(entries: bytes | bytearray) -> list[int]:
    """Whose entries these are."""
    return memoryview(entries).cast("I")[:: ENTRY_BYTES // _PERSON_BYTES].tolist()


def unpack_of(people: Iterable[int], entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """Return the entries of some people alone: quicker where they are few of many."""
    lines = None if values is None else values.split(b"\n")
    found = []
    for index in _indexes(people, entries):
        person, at_ms, mark, position = _READ.unpack_from(entries, index * ENTRY_BYTES)
        value = None if lines is None else _decode.decode(lines[index])
        found.append((person, Entry(at_ms, mark, position, value)))
    return found


def without(
    people: Iterable[int], entries: bytes, values: bytes | None, goes: Callable[[int], bool]
) -> tuple[bytes, bytes | None]:
    """Return what is left once of some people's entries those at the positions that go are taken out."""
    kept, lines = bytearray(entries), None if values is None else values.splitlines(keepends=True)
    for index in sorted(_indexes(people, entries), reverse=True):
        *_, position = _READ.unpack_from(entries, index * ENTRY_BYTES)
        if not goes(position):
            continue
        del kept[index * ENTRY_BYTES : (index + 1) * ENTRY_BYTES]
        if lines is not None:
            del lines[index]
    return bytes(kept), None if lines is None else b"".join(lines)


def _indexes(people: Iterable[int], entries: bytes) -> Iterator[int]:
    """Yield where the entries of some people stand; looked for by the bytes of the number, which may be other bytes
    too."""
    for person in people:
        number = person.to_bytes(_PERSON_BYTES, "little")
        at = entries.find(number)
        while at >= 0:
            if at % ENTRY_BYTES == 0:
                yield at // ENTRY_BYTES
            at = entries.find(number, at + 1)


def ordered(entries: Iterable[Entry], at_least_ms: int | None = None) -> list[Entry]:
    """Return each mark once, sorted by time and position; without those before ``at_least_ms``, and the newest where
    there are more than are kept."""
    first: dict[int, Entry] = {}
    for entry in entries:
        known = first.get(entry.mark)
        if known is None or entry.position < known.position:
            first[entry.mark] = entry
    found = sorted(first.values(), key=attrgetter("at_ms", "position"))
    if at_least_ms is not None:
        found = [entry for entry in found if entry.at_ms >= at_least_ms]
    return found[-ENTRIES_MAX:]


def write(entries: Iterable[tuple[int, Entry]], has_values: bool) -> tuple[bytes, bytes | None]:
    """Return the entries' bytes, each with its person's, and those of their values."""
    kept = list(entries)
    packed = b"".join([_READ.pack(person, entry.at_ms, entry.mark, entry.position) for person, entry in kept])
    return packed, b"".join([pack_value(entry.value) for _, entry in kept]) if has_values else None


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
    """Hold what is needed of the store."""

    connection: Connection

    def transaction(self) -> AbstractContextManager[object]:
        """Return a transaction that an exception undoes."""


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
        """Return the chunk that takes so many more entries in rows of this shift; within the transaction that writes
        them."""
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
        """Return the first of the target's buckets that does not move in this step, None when there is none left."""
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
    """Return how many rows of the history, one after the other, have more than so many bytes of entries in all."""
    return bytes // ENTRY_BYTES + 2


def chunks_of(connection: Connection) -> list[Chunk]:
    """Return the chunks there are."""
    return [Chunk(*row) for row in connection.execute("SELECT chunk, shift FROM chunks")]


def by_bucket(people: Iterable[int], shift: int) -> dict[int, list[int]]:
    """Persons by the bucket of a chunk with this shift."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for person in people:
        found[person >> shift].append(person)
    return found
