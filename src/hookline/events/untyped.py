"""JSON that others wrote, decoded as it comes.

msgspec takes 9 µs for a number beyond 1e288 or below 1e-307, 500 times as long as for another: a few kilobytes of them,
compressed, would hold up an event loop for seconds. So whoever decodes JSON of strangers to plain values has their
numbers read by ``read_number``.
"""

from __future__ import annotations

from math import isfinite

import msgspec

from hookline.events.canonical import javascript_number


def read_number(text: str) -> float:
    """Read a number with a fraction or an exponent (msgspec's ``float_hook``), in the same time whatever it is. Raise
    ValidationError where msgspec does, beyond any range."""
    value = float(text)
    if not isfinite(value):
        raise msgspec.ValidationError("Number out of range")
    return value


Scalar = str | int | float | None

_NO_SCALARS = frozenset((b"", b"{", b"[", b"t", b"f"))

decode = msgspec.json.Decoder(float_hook=read_number).decode
"""Decode JSON to plain values; raise MsgspecError, UnicodeDecodeError or RecursionError where it cannot be read."""


def scalar(written: msgspec.Raw) -> Scalar:
    """Return a text, a number or null; raise ValidationError for what is none of them."""
    if bytes(written)[:1] in _NO_SCALARS:
        raise msgspec.ValidationError("Expected a string or a number")
    value: Scalar = decode(written)
    return value


def text(value: Scalar | bool) -> str:
    """Return an id or a name as a string, the way JavaScript writes numbers; empty when there is none."""
    if isinstance(value, str):
        return value
    if value is None or value is False or value is True:
        return ""
    return javascript_number(repr(value)) if isinstance(value, float) else str(value)
