"""The history of events that definitions ask for: entries packed into chunks, and the chunks of a level joined into one
of the next."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple, Protocol

import msgspec

from hookline.database.connection import Connection
from hookline.events.untyped import read_number
from hookline.people.definitions.feature import Entry, Purpose
from hookline.people.store.batch import BUCKET_MASK
from hookline.telemetry.crashpoints import crash_point

ENTRIES_MAX = 10_000
"""Of one person and feature; the oldest go first."""
TEXT_CHARACTERS_MAX = 512
"""Of a text value; the rest of a longer one is cut off."""
VALUE_BYTES_MAX = 2 * TEXT_CHARACTERS_MAX + 2
"""Of a text value as JSON, quotes included; likewise. A character may be six bytes there."""

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
_decode_far = msgspec.json.Decoder(Any, float_hook=read_number)


def pack_value(value: object) -> bytes:
    """Return the line of a value: a number, a text or a truth value; what is neither is null."""
    try:
        kind = value.__class__
        if kind is float or kind is bool:
            return _encode(value) + b"\n"
        if value.__class__ is str:
            text = value[:TEXT_CHARACTERS_MAX]
            line = _encode(text)
            return (line if len(line) <= VALUE_BYTES_MAX else _cut(text)) + b"\n"
        if value.__class__ is int:
            return _encode(float(value)) + b"\n"
    except (ValueError, OverflowError):  # half a surrogate pair, a number beyond any range
        pass
    return b"null\n"


def _cut(text: str) -> bytes:
    return _encode(text[: bisect_right(range(1, len(text)), VALUE_BYTES_MAX, key=lambda end: len(_encode(text[:end])))])


def unpack(entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """Return the entries as they were written, each with its person."""
    if values is None:
        return [
            (person, Entry(at_ms, mark, position, None)) for person, at_ms, mark, position in _READ.iter_unpack(entries)
        ]
    return [
        (person, Entry(at_ms, mark, position, value))
        for (person, at_ms, mark, position), value in zip(
            _READ.iter_unpack(entries), _decoder_of(values).decode_lines(values), strict=True
        )
    ]


def _decoder_of(values: bytes) -> msgspec.json.Decoder[Any]:
    """Return what reads values quickly: numbers that take msgspec long are written with an exponent, and the other way
    takes longer for numbers without one."""
    return _decode_far if b"e" in values else _decode


def people_of(entries: bytes | bytearray) -> list[int]:
    """Whose entries these are."""
    return memoryview(entries).cast("I")[:: ENTRY_BYTES // _PERSON_BYTES].tolist()


def unpack_of(people: Iterable[int], entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """Return the entries of some people alone: quicker where they are few of many."""
    return _unpack_at(_indexes(people, entries), entries, values)


def unpack_between(first: int, last: int, entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """Return the entries of people with these numbers and those between them."""
    people = people_of(entries)
    if first <= min(people, default=first) and max(people, default=last) <= last:
        return unpack(entries, values)
    return _unpack_at([at for at, person in enumerate(people) if first <= person <= last], entries, values)


def _unpack_at(indexes: Iterable[int], entries: bytes, values: bytes | None) -> list[tuple[int, Entry]]:
    lines = None if values is None else values.split(b"\n")
    decode = _decode.decode if values is None else _decoder_of(values).decode
    found = []
    for index in indexes:
        person, at_ms, mark, position = _READ.unpack_from(entries, index * ENTRY_BYTES)
        value = None if lines is None else decode(lines[index])
        found.append((person, Entry(at_ms, mark, position, value)))
    return found


def without(
    people: Iterable[int], entries: bytes, values: bytes | None, goes: Callable[[int], bool]
) -> tuple[bytes, bytes | None]:
    """Return what is left once of some people's entries those at the positions that go are taken out."""
    return _left(
        entries,
        values,
        [
            index
            for index in sorted(_indexes(people, entries))
            if goes(_READ.unpack_from(entries, index * ENTRY_BYTES)[-1])
        ],
    )


def _left(entries: bytes, values: bytes | None, gone: list[int]) -> tuple[bytes, bytes | None]:
    """Return what is left without the entries that stand there, the first before the others."""
    stretches = [(last + 1, index) for last, index in pairwise([-1, *gone, len(entries) // ENTRY_BYTES])]
    left = b"".join([entries[first * ENTRY_BYTES : end * ENTRY_BYTES] for first, end in stretches])
    if values is None:
        return left, None
    lines = values.splitlines(keepends=True)
    return left, b"".join([line for first, end in stretches for line in lines[first:end]])


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


def to_keep(entries: Iterable[tuple[int, Entry]], at_least_ms: int | None = None) -> list[tuple[int, Entry]]:
    """Return what is kept of the entries in a row, which are as they were where nothing of a person's goes."""
    people: defaultdict[int, list[Entry]] = defaultdict(list)
    for person, entry in entries:
        people[person].append(entry)
    return [
        (person, entry)
        for person, theirs in people.items()
        for entry in (theirs if at_least_ms is None and len(theirs) <= ENTRIES_MAX else ordered(theirs, at_least_ms))
    ]


def write(entries: Iterable[tuple[int, Entry]], has_values: bool) -> tuple[bytes, bytes | None]:
    """Return the entries' bytes, each with its person's, and those of their values."""
    found = list(entries)
    packed = b"".join([_READ.pack(person, entry.at_ms, entry.mark, entry.position) for person, entry in found])
    return packed, b"".join([pack_value(entry.value) for _, entry in found]) if has_values else None


CHUNK_ENTRIES = 50_000
"""The open chunk is closed once it has so many: what a batch of the journal brings."""
BYTES_PER_VALUE = 64
"""Values that take more on average count as more entries: an event may write a row of the open chunk anew."""
FAN_IN = 16
LEVEL_MAX = 2
"""Chunks of this level stay: their rows are as long as reading one person allows."""
ROWS_PER_CHUNK = 16_384
"""About; it says how many persons share a row."""
SHIFT_MAX = 12
BYTES_PER_STEP = 2 << 20
"""Of entries and values that are moved in one transaction, rounded up to a row of each chunk."""
PEOPLE_PER_STEP = 16
"""Whose oldest entries go in one transaction: some have more than are kept, in rows that are too long together."""
ROW_BYTES_MAX = 16 << 20
"""Of a row that others are put together to: it is in memory as a whole, and one of 1 GB cannot be written. What is kept
of one person takes less."""


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
    staying: frozenset[int] = frozenset()
    """Those of the chunks that have rows which would be too long together."""


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

    def open_for(self, entries: int, value_bytes: int, shift: int) -> int:
        """Return the chunk that takes so many more entries, and bytes of their values, in rows of this shift; within
        the transaction that writes them."""
        entries = max(entries, value_bytes // BYTES_PER_VALUE)
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
        staying: set[int] | None = set()
        with self._database.transaction():
            if move.features:
                staying = self._move_rows(move, end)
            else:
                self._finish(move)
        crash_point("profiles.chunk_moved")
        if staying is None:
            return True
        move = move._replace(staying=move.staying | staying)
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
            "SELECT min(bucket) FROM (SELECT bucket, sum(length) OVER (ORDER BY bucket) AS bytes"
            # With the rows themselves here SQLite would read them, to find out no more than how long they are.
            f" FROM (SELECT bucket, {ROW_BYTES} AS length FROM history WHERE feature = ? AND chunk = ? AND bucket >= ?"
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

    def _move_rows(self, move: _Move, end: int | None) -> set[int] | None:
        """Move rows of the last feature; return the chunks whose rows stay, None where more than is kept of somebody
        had to go first: the next step looks at the same rows again."""
        parts = []
        for chunk in move.sources:
            more = move.target.shift - chunk.shift
            first, last = move.bucket << more, BUCKET_MASK if end is None else (end << more) - 1
            where = f"feature = {move.features[-1]:d} AND chunk = {chunk.number:d}"
            parts.append((more, f"FROM history WHERE {where} AND bucket BETWEEN {first:d} AND {last:d}"))
        if end == move.bucket + 1:  # the rows of more than one are short, even together
            lengths = [self._bytes(rows) for _, rows in parts]
            if sum(lengths) > ROW_BYTES_MAX:
                if self._let_oldest_go(move.features[-1], [rows for _, rows in parts]):
                    return None
                return {chunk.number for chunk, length in zip(move.sources, lengths, strict=True) if length}
        rows = " UNION ALL ".join(
            f"SELECT bucket >> {more:d} AS bucket, entries, entry_values {rows}" for more, rows in parts
        )
        self._connection.execute(
            f"{_INTO_HISTORY} SELECT ?, ?, bucket, CAST(string_agg(entries, '') AS BLOB),"
            f" CAST(string_agg(entry_values, '') AS BLOB) FROM ({rows}) AS parts GROUP BY bucket",
            (move.features[-1], move.target.number),
        )
        for _, rows in parts:
            self._connection.execute(f"DELETE {rows}")
        return set()

    def _bytes(self, rows: str) -> int:
        ((found,),) = self._connection.execute(f"SELECT coalesce(sum({ROW_BYTES}), 0) {rows}").fetchall()
        return int(found)

    def _let_oldest_go(self, feature: int, parts: Iterable[str]) -> bool:
        """Let go of what is not kept, in the rows of one bucket, of a few people who have more; return whether there
        were any. One row is in memory at a time: each may be as long as a row can be."""
        execute = self._connection.execute
        keys = [key for rows in parts for key in execute(f"SELECT chunk, bucket {rows}").fetchall()]
        where = f"WHERE feature = {feature:d} AND chunk = ? AND bucket = ?"
        counts: Counter[int] = Counter()
        for key in keys:
            counts.update(people_of(*execute(f"SELECT entries FROM history {where}", key).fetchone()))
        many = [person for person, count in counts.items() if count > ENTRIES_MAX][:PEOPLE_PER_STEP]
        if not many:
            return False
        newest: dict[int, list[Entry]] = {person: [] for person in many}
        for key in keys:
            (entries,) = execute(f"SELECT entries FROM history {where}", key).fetchone()
            for person, at_ms, mark, position in _READ.iter_unpack(entries):
                if person in newest:
                    newest[person].append(Entry(at_ms, mark, position, None))
                    if len(newest[person]) > 2 * ENTRIES_MAX:
                        newest[person] = ordered(newest[person])
        kept = {(person, entry.position) for person in many for entry in ordered(newest.pop(person))}
        for key in keys:
            entries, values = execute(f"SELECT entries, entry_values FROM history {where}", key).fetchone()
            left, left_values = _left(entries, values, _beyond(many, entries, kept))
            if not left:
                execute(f"DELETE FROM history {where}", key)
            elif len(left) < len(entries):
                execute(f"UPDATE history SET entries = ?, entry_values = ? {where}", (left, left_values, *key))
        return True

    def _finish(self, move: _Move) -> None:
        """Let go of chunks that have no rows any more; the others go on to the next level, with what stayed in
        them."""
        for chunk in move.sources:
            if chunk.number in move.staying:
                self._connection.execute("UPDATE chunks SET level = level + 1 WHERE chunk = ?", (chunk.number,))
            else:
                self._connection.execute("DELETE FROM chunks WHERE chunk = ?", (chunk.number,))

    def _new(self, level: int, entries: int, shift: int) -> Chunk:
        ((chunk,),) = self._connection.execute("SELECT coalesce(max(chunk), 0) + 1 FROM chunks").fetchall()
        query = "INSERT INTO chunks (chunk, level, entries, shift) VALUES (?, ?, ?, ?)"
        self._connection.execute(query, (chunk, level, entries, shift))
        return Chunk(chunk, shift)


def _beyond(people: Sequence[int], entries: bytes, kept: set[tuple[int, int]]) -> list[int]:
    """Return where entries of some people stand that are not kept, and take those out of ``kept`` that are: each is
    once."""
    theirs, gone = set(people), list[int]()
    for index, (person, *_, position) in enumerate(_READ.iter_unpack(entries)):
        if person in theirs:
            if (person, position) in kept:
                kept.remove((person, position))
            else:
                gone.append(index)
    return gone


ROW_BYTES = "length(entries) + coalesce(length(entry_values), 0)"
_INTO_HISTORY = "INSERT INTO history (feature, chunk, bucket, entries, entry_values)"
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
