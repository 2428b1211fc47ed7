"""The blobs of a checkpoint: what is open in each lane, as ranges of offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from operator import sub

import msgspec

Ranges = tuple[int, ...]
"""Ascending offsets as first, count, first, count, …"""


class SavedBackfill(msgspec.Struct, array_like=True, frozen=True):
    """A backfill: offsets ``[next_offset, end)`` of one source."""

    next_offset: int
    end: int
    source: str


class SavedCursor(msgspec.Struct, array_like=True, frozen=True):
    """The blob of a lane's own row."""

    attached: bool
    undone: Ranges
    backfills: tuple[SavedBackfill, ...] = ()
    paused_ms: int = 0
    """Since when the lane was paused, by the service's own clock; 0 when it was not, or by an earlier version."""
    done: Ranges = ()
    """Offsets ahead that were delivered before a crash: while the lane stands still, the ring comes to forget them."""
    catches_up: bool = True
    """Say whether it kept to the rate that was chosen for the time after a pause; an earlier version did not say."""


class SavedPositions(msgspec.Struct, array_like=True, frozen=True):
    """The blob of a partition's checkpoint: undone offsets of each attached lane that has any."""

    lanes: dict[int, Ranges]


_encoder = msgspec.msgpack.Encoder()
_positions = msgspec.msgpack.Decoder(SavedPositions)
_cursor = msgspec.msgpack.Decoder(SavedCursor)


def encode(blob: SavedPositions | SavedCursor) -> bytes:
    """Return a blob for the database."""
    return _encoder.encode(blob)


def decode_offset_sets(blob: bytes) -> SavedPositions:
    """Return a partition's blob."""
    return _positions.decode(blob)


def decode_cursor(blob: bytes) -> SavedCursor:
    """Return a lane's blob."""
    return _cursor.decode(blob)


def to_ranges(offsets: Sequence[int]) -> Ranges:
    """Ascending, distinct offsets as ranges."""
    if not offsets:
        return ()
    begins = [0, *[at for at, step in enumerate(map(sub, offsets[1:], offsets), 1) if step != 1]]
    counts = map(sub, [*begins[1:], len(offsets)], begins)
    return tuple(chain.from_iterable(zip([offsets[at] for at in begins], counts, strict=True)))


def to_offsets(ranges: Ranges) -> Iterable[int]:
    """Return the offsets of ranges, ascending."""
    return chain.from_iterable(
        range(first, first + count) for first, count in zip(ranges[::2], ranges[1::2], strict=True)
    )
