"""A context as it is delivered: a batch's lies under the event's own, key by key, each value as the caller wrote it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from hookline.remembered import Remembered

ENVELOPES_BYTES_MAX = 128 * 1024
"""Envelopes kept at hand decoded, which takes up to twenty times as much; the events of one batch share one."""


class _Envelope(msgspec.Struct, gc=False):
    context: dict[str, Raw] | None = None


def object_of(raw: Raw | UnsetType) -> Raw | UnsetType:
    """Return the value if it is an object."""
    return raw if raw is not UNSET and memoryview(raw)[0] == _BRACE else UNSET


def context_of(envelope: bytes) -> dict[str, Raw] | None:
    """Return the context of a batch; raise ValueError where msgspec cannot read it."""
    return _envelopes[envelope]


def not_counted(_: object) -> int:
    """Return 0: what a decoded envelope takes is allowed for in the bound on envelopes."""
    return 0


def _decoded(envelope: bytes) -> dict[str, Raw] | None:
    return _decode_envelope(envelope).context


def merge(under: dict[str, Raw] | None, over: Raw | UnsetType) -> Any:
    """Return what both say, with the word of ``over`` where they differ; UNSET where neither says anything."""
    if under is None:
        return over
    if over is UNSET:
        return under
    merged: dict[str, Any] = dict(under)
    for key, value in decode_fields(over).items():
        lower = under.get(key)
        if lower is not None and object_of(lower) is not UNSET and object_of(value) is not UNSET:
            merged[key] = merge(decode_fields(lower), value)
        else:
            merged[key] = value
    return merged


_BRACE = ord("{")
decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_envelopes = Remembered(_decoded, ENVELOPES_BYTES_MAX, value_bytes=not_counted)
