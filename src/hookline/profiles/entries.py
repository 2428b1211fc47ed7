"""How the entries of one feature and person are written: 24 bytes each, in any order, and beside them a line per value.

Both texts may simply be put one after the other: that is how a row grows and how chunks are put together. Reading makes
a sorted set of them: what was sent twice has one mark and counts once, at the smallest place.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

import msgspec

from hookline.profiles.feature import Entry

ENTRIES_MAX = 10_000
"""Of one person and feature; the oldest go first."""
TEXT_CHARACTERS_MAX = 512
"""Of a text value; the rest of a longer one is cut off."""

_WRITTEN = Struct("<q8sq")
_READ = Struct("<qQq")
ENTRY_BYTES = _READ.size

pack = _WRITTEN.pack
"""One entry's bytes: its time, its record's fingerprint (of which 8 bytes are kept), its place."""

_encode = msgspec.json.Encoder().encode
_decode_lines = msgspec.json.Decoder(float | str | bool | None).decode_lines


def pack_value(value: object) -> bytes:
    """The line of a value: a number, a text or a truth value; what is neither is null."""
    try:
        if value.__class__ is str:
            return _encode(value[:TEXT_CHARACTERS_MAX]) + b"\n"
        if value.__class__ is int:
            value = float(value)
        if value.__class__ is bool or value.__class__ is float:
            return _encode(value) + b"\n"
    except (ValueError, OverflowError):  # half a surrogate pair, a number beyond any range
        pass
    return b"null\n"


def unpack(entries: bytes, values: bytes | None = None) -> list[Entry]:
    """The entries as they were written."""
    if values is None:
        return [Entry(at_ms, mark, place, None) for at_ms, mark, place in _READ.iter_unpack(entries)]
    return [
        Entry(at_ms, mark, place, value)
        for (at_ms, mark, place), value in zip(_READ.iter_unpack(entries), _decode_lines(values), strict=True)
    ]


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


def write(entries: Iterable[Entry], has_values: bool) -> tuple[bytes, bytes | None]:
    """The entries' bytes, and those of their values."""
    kept = list(entries)
    packed = b"".join([_READ.pack(entry.at_ms, entry.mark, entry.place) for entry in kept])
    return packed, b"".join([pack_value(entry.value) for entry in kept]) if has_values else None
