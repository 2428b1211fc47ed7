"""How the entries of one feature and some persons are written: 28 bytes each, in any order, and beside them a line per
value.

Both texts may simply be put one after the other: that is how a row grows and how chunks are put together. Reading makes
a sorted set of a person's: what was sent twice has one mark and counts once, at the smallest place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct

import msgspec

from hookline.profiles.feature import Entry

ENTRIES_MAX = 10_000
"""Of one person and feature; the oldest go first."""
TEXT_CHARACTERS_MAX = 512
"""Of a text value; the rest of a longer one is cut off."""

_WRITTEN = Struct("<Iq8sq")
_READ = Struct("<IqQq")
ENTRY_BYTES = _READ.size
_PERSON_BYTES = 4

pack = _WRITTEN.pack
"""One entry's bytes: its person, its time, its record's fingerprint (of which 8 bytes are kept), its place."""
pack_person = Struct("<I").pack
pack_undecided = Struct("<q8sq").pack
"""The same in two: the person's bytes, and the rest of the entry."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(float | str | bool | None)


def pack_value(value: object) -> bytes:
    """The line of a value: a number, a text or a truth value; what is neither is null."""
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
    """The entries as they were written, each with its person."""
    if values is None:
        return [(person, Entry(at_ms, mark, place, None)) for person, at_ms, mark, place in _READ.iter_unpack(entries)]
    return [
        (person, Entry(at_ms, mark, place, value))
        for (person, at_ms, mark, place), value in zip(
            _READ.iter_unpack(entries), _decode.decode_lines(values), strict=True
        )
    ]


def people_of(entries: bytes | bytearray) -> list[int]:
    """Whose entries these are."""
    return memoryview(entries).cast("I")[:: ENTRY_BYTES // _PERSON_BYTES].tolist()


def unpack_of(people: Iterable[int], entries: bytes, values: bytes | None = None) -> list[tuple[int, Entry]]:
    """The entries of some people alone: quicker where they are few of many."""
    lines = None if values is None else values.split(b"\n")
    found = []
    for index in _indexes(people, entries):
        person, at_ms, mark, place = _READ.unpack_from(entries, index * ENTRY_BYTES)
        value = None if lines is None else _decode.decode(lines[index])
        found.append((person, Entry(at_ms, mark, place, value)))
    return found


def without(
    people: Iterable[int], entries: bytes, values: bytes | None, goes: Callable[[int], bool]
) -> tuple[bytes, bytes | None]:
    """What is left once of some people's entries those at the places that go are taken out."""
    kept, lines = bytearray(entries), None if values is None else values.splitlines(keepends=True)
    for index in sorted(_indexes(people, entries), reverse=True):
        *_, place = _READ.unpack_from(entries, index * ENTRY_BYTES)
        if not goes(place):
            continue
        del kept[index * ENTRY_BYTES : (index + 1) * ENTRY_BYTES]
        if lines is not None:
            del lines[index]
    return bytes(kept), None if lines is None else b"".join(lines)


def _indexes(people: Iterable[int], entries: bytes) -> Iterator[int]:
    """Where the entries of some people stand; looked for by the bytes of the number, which may be other bytes too."""
    for person in people:
        number = person.to_bytes(_PERSON_BYTES, "little")
        at = entries.find(number)
        while at >= 0:
            if at % ENTRY_BYTES == 0:
                yield at // ENTRY_BYTES
            at = entries.find(number, at + 1)


def ordered(entries: Iterable[Entry], at_least_ms: int | None = None) -> list[Entry]:
    """Each mark once, sorted by time and mark; without those before ``at_least_ms``, and the newest where there are
    more than are kept."""
    first: dict[int, Entry] = {}
    for entry in entries:
        known = first.get(entry.mark)
        if known is None or entry.place < known.place:
            first[entry.mark] = entry
    found = sorted(first.values(), key=_by_time)
    if at_least_ms is not None:
        found = [entry for entry in found if entry.at_ms >= at_least_ms]
    return found[-ENTRIES_MAX:]


def _by_time(entry: Entry) -> tuple[int, int]:
    return entry.at_ms, entry.mark


def write(entries: Iterable[tuple[int, Entry]], has_values: bool) -> tuple[bytes, bytes | None]:
    """The entries' bytes, each with its person's, and those of their values."""
    kept = list(entries)
    packed = b"".join([_READ.pack(person, entry.at_ms, entry.mark, entry.place) for person, entry in kept])
    return packed, b"".join([pack_value(entry.value) for _, entry in kept]) if has_values else None
