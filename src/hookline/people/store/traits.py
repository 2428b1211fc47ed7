"""Traits with where they come from: per name the value of the latest event that gave one, new ones kept in chunks
beside the persons until they are folded in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from hookline.database.connect import insert_many
from hookline.database.connection import Connection, overwriting, replacing
from hookline.events import untyped
from hookline.events.untyped import read_number
from hookline.telemetry.crashpoints import crash_point

TRAITS_MAX = 1_000
"""Of one person or group; the ones that were given longest ago go first."""
TRAIT_BYTES_MAX = 8 * 1024
"""Of a value as JSON, and its name; a larger one is not taken."""
TRAITS_BYTES_MAX = 128 * 1024
"""Of one person or group as they are stored, beside ``TRAITS_MAX``: a call of a few bytes reads and writes them all.
Many times what the largest trait is, so the newest is always kept."""


class Trait(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One trait: its value, and time, mark, position and source of the event that gave it.

    The mark decides nothing any more: it is written for earlier versions, which read the same rows during an upgrade.
    """

    value: Any
    at_ms: int
    mark: int
    position: int
    source: str

    def is_newer(self, other: Trait) -> bool:
        """Return whether this one wins over another; of two at the same time, the one that came later."""
        return (self.at_ms, self.position) > (other.at_ms, other.position)


Traits = dict[str, Trait]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Traits, float_hook=read_number).decode
_given = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_all = msgspec.json.Decoder(dict[str, Any], float_hook=read_number).decode


def given(raw: msgspec.Raw | bytes, at_ms: int, mark: int, position: int, source: str) -> Traits:
    """Return the traits that one event gives; what cannot be read, or is too large, is left out."""
    found: Traits = {}
    length = len(memoryview(raw))
    if not length:
        return found
    try:
        if length <= TRAIT_BYTES_MAX:  # so none is too large; and seldom is there one that cannot be read
            return {name: Trait(value, at_ms, mark, position, source) for name, value in _all(raw).items()}
    except (ValueError, RecursionError):
        pass
    try:
        pairs = _given(raw)
    except (ValueError, RecursionError):
        return found
    for name, written in pairs.items():
        if len(memoryview(written)) + len(name) > TRAIT_BYTES_MAX:
            continue
        try:
            found[name] = Trait(untyped.decode(written), at_ms, mark, position, source)
        except (ValueError, RecursionError):  # a number beyond any range
            continue
    return found


def add(known: Traits, more: Mapping[str, Trait]) -> None:
    """Take in traits that win over the known ones. Up to twice as many as one may have are left: to sort them for each
    event would take longer than all the rest."""
    for name, trait in more.items():
        before = known.get(name)
        if before is None or trait.is_newer(before):
            known[name] = trait
    if len(known) > 2 * TRAITS_MAX:
        _keep_newest(known)


def packed_given(raw: msgspec.Raw | bytes, at_ms: int, mark: int, position: int, source: str) -> bytes:
    """Return the bytes to store of the traits that one event gives; none where it gives none."""
    found = given(raw, at_ms, mark, position, source)
    stored = _encode(found) if found else b""
    if len(found) > TRAITS_MAX or len(stored) > TRAITS_BYTES_MAX:
        _keep_newest(found)
        stored = _encode(found)
    return stored


def _keep_newest(known: Traits) -> None:
    """Leave as many traits, and bytes of them, as one person or group may have."""
    newest = sorted(known, key=lambda name: (known[name].at_ms, known[name].position, name), reverse=True)
    held = 1
    for kept, name in enumerate(newest):
        held += len(_encode({name: known[name]})) - 1  # the braces are there once, and a comma between two
        if kept == TRAITS_MAX or held > TRAITS_BYTES_MAX:
            for oldest in newest[kept:]:
                del known[oldest]
            return


def plain(traits: Mapping[str, Trait]) -> dict[str, object]:
    """Return the values alone, without the ones that were taken back."""
    return {name: trait.value for name, trait in traits.items() if trait.value is not None}


def packed(traits: Traits) -> bytes:
    """Return the bytes that are stored."""
    return _encode(traits)


def merged(parts: Sequence[bytes], stored: bytes | None = None) -> bytes:
    """Return the bytes to store of what stands in several, in any order, and of what is stored already."""
    if len(parts) == 1 and not stored:
        return parts[0]
    return _encode(together([stored, *parts]))


def together(parts: Iterable[bytes | None], decode: Callable[[bytes], Traits] = _decode) -> Traits:
    """Return the traits that stand in several stored bytes, in any order."""
    known: Traits = {}
    held = 0
    for part in parts:
        if part:
            held += len(part)
            if known:
                add(known, decode(part))
            else:
                known = decode(part)
    if len(known) > TRAITS_MAX or held > TRAITS_BYTES_MAX:
        _keep_newest(known)
    return known


def unpacked(stored: bytes | None) -> Traits:
    """Return the traits of stored bytes."""
    return _decode(stored) if stored else {}


CHUNK_ROWS = 25_000
"""The open chunk is closed once it has so many."""
FAN_IN = 32
"""So many closed chunks are folded together."""
PERSONS_PER_STEP = 10_000
BYTES_PER_STEP = 16 << 20
"""Of stored traits that are in memory at a time, rounded up to a person or group: of one, earlier versions may have
written 8 MB."""

Id = TypeVar("Id", int, str)


class Keeps(Protocol):
    """Hold what is needed of the store."""

    connection: Connection

    def transaction(self) -> AbstractContextManager[Callable[..., Any]]:
        """Return a transaction that an exception undoes."""

    def many(self, query: str, keys: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query that ends with ``IN``."""


class _Fold(NamedTuple):
    """Chunks that are being folded, and the first person whose traits may still be there."""

    chunks: list[int]
    person: int


class TraitChunks:
    """Used by the one writer."""

    def __init__(self, store: Keeps) -> None:
        self._store = store
        self._connection = store.connection
        self._fold: _Fold | None = None

    def add(self, given: Mapping[int, list[bytes]]) -> None:
        """Take in traits of people, what each event gave as it is stored; within the transaction of a batch."""
        if not given:
            return
        chunk, rows = self._open()
        where = f"FROM new_traits WHERE chunk = {chunk:d} AND person IN "
        lengths = dict(self._store.many(f"SELECT person, length(traits) {where}", given)) if rows else {}
        self._write(chunk, [(person, merged(given[person])) for person in sorted(given) if person not in lengths])
        for piece in pieces(sorted(lengths.items())):
            known = dict(self._store.many(f"SELECT person, traits {where}", piece))
            self._write(chunk, [(person, merged(given[person], known[person])) for person in piece])
        query = replacing("trait_chunks", ("chunk",), ("people",))
        self._connection.execute(query, (chunk, rows + len(given) - len(lengths)))

    def fold(self) -> bool:
        """Take one step of folding closed chunks; return whether there was one to take.

        A step is a transaction that moves the traits of a stretch of persons; after a crash the rest is found again.
        """
        fold = self._fold or self._next_fold()
        if fold is None:
            return False
        starts = [start for chunk in fold.chunks if (start := self._first(chunk, fold.person)) is not None]
        end = self._end(fold.chunks, min(starts)) if starts else 0
        with self._store.transaction() as execute:
            if starts:
                self._move(fold.chunks, min(starts), end)
            else:
                execute(f"DELETE FROM trait_chunks WHERE chunk IN ({_listed(fold.chunks)})")
        crash_point("profiles.traits_folded")
        self._fold = _Fold(fold.chunks, end) if starts else None
        return True

    def _write(self, chunk: int, rows: Sequence[tuple[int, bytes]]) -> None:
        insert_many(
            self._connection,
            "new_traits",
            ("chunk", "person", "traits"),
            [(chunk, *row) for row in rows],
            overwriting(("chunk", "person"), ("traits",)),
        )

    def _open(self) -> tuple[int, int]:
        """Return the chunk that takes what is new, and how many rows it has."""
        row = self._connection.execute("SELECT chunk, people FROM trait_chunks ORDER BY chunk DESC LIMIT 1").fetchone()
        if row is None:
            return 1, 0
        return (row[0], row[1]) if row[1] < CHUNK_ROWS else (row[0] + 1, 0)

    def _next_fold(self) -> _Fold | None:
        query = "SELECT chunk FROM trait_chunks WHERE people >= ? ORDER BY chunk"
        closed = [chunk for (chunk,) in self._connection.execute(query, (CHUNK_ROWS,))]
        return _Fold(closed, 0) if len(closed) >= FAN_IN else None

    def _first(self, chunk: int, person: int) -> int | None:
        query = "SELECT min(person) FROM new_traits WHERE chunk = ? AND person >= ?"
        ((first,),) = self._connection.execute(query, (chunk, person)).fetchall()
        return None if first is None else int(first)

    def _end(self, chunks: list[int], first: int) -> int:
        """Return the first person whose traits do not move in this step."""
        end = first + PERSONS_PER_STEP
        while end - first > 1 and self._bytes(chunks, first, end) > BYTES_PER_STEP:
            end = first + (end - first) // 2
        return end

    def _bytes(self, chunks: list[int], first: int, end: int) -> int:
        query = (
            "SELECT (SELECT coalesce(sum(length(traits)), 0) FROM persons WHERE id >= ? AND id < ?)"
            " + (SELECT coalesce(sum(length(traits)), 0) FROM new_traits"
            f" WHERE chunk IN ({_listed(chunks)}) AND person >= ? AND person < ?)"
        )
        ((found,),) = self._connection.execute(query, (first, end, first, end)).fetchall()
        return int(found)

    def _move(self, chunks: list[int], first: int, end: int) -> None:
        execute = self._connection.execute
        query = "SELECT id, traits FROM persons WHERE id >= ? AND id < ? AND traits IS NOT NULL"
        known = dict(execute(query, (first, end)).fetchall())
        found: dict[int, list[bytes]] = {}
        where = f"FROM new_traits WHERE chunk IN ({_listed(chunks)}) AND person >= ? AND person < ?"
        for person, stored in execute(f"SELECT person, traits {where}", (first, end)):
            parts = found.get(person)
            if parts is None:
                before = known.get(person)
                parts = found[person] = [] if before is None else [before]
            parts.append(stored)
        self._connection.executemany(
            "UPDATE persons SET traits = ? WHERE id = ?",
            [(merged(found[person]), person) for person in sorted(found)],
        )
        execute(f"DELETE {where}", (first, end))


def pieces(lengths: Iterable[tuple[Id, int]]) -> Iterator[list[Id]]:
    """Yield the ids of rows in pieces of ``BYTES_PER_STEP``, each with one at least; ``lengths`` are ids and bytes."""
    piece: list[Id] = []
    held = 0
    for id, length in lengths:
        if piece and held + length > BYTES_PER_STEP:
            yield piece
            piece, held = [], 0
        piece.append(id)
        held += length
    if piece:
        yield piece


def stored_traits(connection: Connection, numbers: Iterable[int]) -> list[bytes]:
    """Everything stored of the traits of persons with these numbers, in no order; few numbers only."""
    people = _listed(numbers)
    query = (
        f"SELECT traits FROM persons WHERE traits IS NOT NULL AND id IN ({people})"
        " UNION ALL SELECT n.traits FROM trait_chunks c CROSS JOIN new_traits n"
        f" WHERE n.chunk = c.chunk AND n.person IN ({people})"
    )
    return [stored for (stored,) in connection.execute(query)]


def trait_chunks_of(connection: Connection) -> list[int]:
    """Return the chunks there are."""
    return [chunk for (chunk,) in connection.execute("SELECT chunk FROM trait_chunks")]


def _listed(numbers: Iterable[int]) -> str:
    return ",".join(f"{number:d}" for number in numbers)
