"""Traits with where they come from: per name the value of the latest event that gave one.

Latest is by the event's own time, then by its mark; so the order in which events arrive, and whether one arrives twice,
changes nothing. ``null`` is a value like any other: it hides an older one and is shown as no trait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

TRAITS_MAX = 1_000
"""Of one person or group; the ones that were given longest ago go first."""
TRAIT_BYTES_MAX = 8 * 1024
"""Of a value as JSON; a larger one is not taken."""


class Trait(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One trait: its value, and time, mark, place and source of the event that gave it."""

    value: Any
    at_ms: int
    mark: int
    place: int
    source: str

    def is_newer(self, other: Trait) -> bool:
        """Whether this one wins over another; of two from the same event, the one at the smaller place."""
        return (self.at_ms, self.mark, -self.place) > (other.at_ms, other.mark, -other.place)


Traits = dict[str, Trait]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Traits).decode
_given = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_all = msgspec.json.Decoder(dict[str, Any]).decode
_value = msgspec.json.Decoder().decode


def given(raw: msgspec.Raw | bytes, at_ms: int, mark: int, place: int, source: str) -> Traits:
    """The traits that one event gives; what cannot be read, or is too large, is left out."""
    found: Traits = {}
    length = len(memoryview(raw))
    if not length:
        return found
    try:
        if length <= TRAIT_BYTES_MAX:  # so none is too large; and seldom is there one that cannot be read
            return {name: Trait(value, at_ms, mark, place, source) for name, value in _all(raw).items()}
    except (ValueError, RecursionError):
        pass
    try:
        pairs = _given(raw)
    except (ValueError, RecursionError):
        return found
    for name, written in pairs.items():
        if len(memoryview(written)) > TRAIT_BYTES_MAX:
            continue
        try:
            found[name] = Trait(_value(written), at_ms, mark, place, source)
        except (ValueError, RecursionError):  # a number beyond any range
            continue
    return found


def add(known: Traits, more: Mapping[str, Trait]) -> None:
    """Take in traits that win over the known ones."""
    for name, trait in more.items():
        before = known.get(name)
        if before is None or trait.is_newer(before):
            known[name] = trait
    if len(known) > TRAITS_MAX:
        newest = sorted(known, key=lambda name: (known[name].at_ms, known[name].mark, name), reverse=True)
        for name in newest[TRAITS_MAX:]:
            del known[name]


def packed_given(raw: msgspec.Raw | bytes, at_ms: int, mark: int, place: int, source: str) -> bytes:
    """The bytes to store of the traits that one event gives; none where it gives none."""
    found = given(raw, at_ms, mark, place, source)
    if len(found) > TRAITS_MAX:
        every, found = found, {}
        add(found, every)
    return _encode(found) if found else b""


def plain(traits: Mapping[str, Trait]) -> dict[str, object]:
    """The values alone, without the ones that were taken back."""
    return {name: trait.value for name, trait in traits.items() if trait.value is not None}


def packed(traits: Traits) -> bytes:
    """The bytes that are stored."""
    return _encode(traits)


def merged(parts: Sequence[bytes], stored: bytes | None = None) -> bytes:
    """The bytes to store of what stands in several, in any order, and of what is stored already."""
    if len(parts) == 1 and not stored:
        return parts[0]
    known = unpacked(stored)
    for part in parts:
        add(known, unpacked(part))
    return _encode(known)


def unpacked(stored: bytes | None) -> Traits:
    """The traits of stored bytes."""
    return _decode(stored) if stored else {}
