"""The bytes that ``JSON.stringify(JSON.parse(x))`` gives in JavaScript.

A receiver may verify the signature over the raw body or over the body parsed and stringified again (SPEC 5.1); both
agree when what is sent is already in this form. msgspec does the work wherever its output is known to be the same;
whatever could differ takes the slow way through ``json_tree``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hookline.events import json_tree
from hookline.remembered import Remembered

SAFE_INTEGER_MAX = 2**53 - 1
"""Larger integers lose digits in JavaScript (Number.MAX_SAFE_INTEGER)."""

FLOATS_BYTES_MAX = 1024 * 1024
"""Numbers whose form is remembered: some 4,000."""
FLOAT_BYTES_MAX = 512
"""Of one number with its form; whoever writes longer ones writes them to be long."""
_RAW_BYTES = 96

_INFINITY = float("inf")
_SAFE_INTEGER_DIGITS = 16
_DIGITS_TO_0 = bytes(ord("0") if byte in b"0123456789" else byte if byte in b'":' else ord("A") for byte in range(256))
"""What is neither searched for nor a digit becomes one letter, over which a search goes in longer steps."""
_MAYBE_INTEGER_KEY = b'0":'
_MAYBE_LARGE_INTEGER = b"0" * _SAFE_INTEGER_DIGITS
# Quotes inside strings are escaped, so these cannot miss a key or a number; a hit inside a string only costs time.
_INTEGER_KEY = re.compile(rb'"(?:0|[1-9][0-9]{0,9})":').search
_LARGE_INTEGER = re.compile(rb"(?:^|[:\[,])-?([0-9]{16,})").finditer


class Unlike(ValueError):
    """A number that msgspec does not write as JavaScript does."""


def float_of(text: str) -> float | int | None:
    """Stand in for a JSON number with a fraction or an exponent: what msgspec then writes is what JavaScript writes.

    Infinity (1e400) has no JSON form; JavaScript writes null.
    """
    value = float(text)
    size = abs(value)
    if 1e-5 <= size < 1e15:  # the usual numbers
        return int(value) if value.is_integer() else value
    if size == _INFINITY:
        return None
    if 1e-6 <= size < 1e-5 or size > SAFE_INTEGER_MAX:
        raise Unlike
    return int(value) if value.is_integer() else value


def _written(text: str) -> msgspec.Raw:
    return msgspec.Raw(_encode(float_of(text)))


known_float = Remembered(
    _written, FLOATS_BYTES_MAX, FLOAT_BYTES_MAX, value_bytes=lambda raw: _RAW_BYTES + len(raw)
).__getitem__
"""Stand in for a JSON number, as ``float_of``, by what has to be written for it: prices and places repeat, and a float
takes long to write."""


def is_canonical(encoded: bytes) -> bool:
    """Return whether JSON that msgspec wrote, with ``float_of`` as its float hook, is what JavaScript would write."""
    digits = encoded.translate(_DIGITS_TO_0)
    # Not ``in``, which first tries bytes as a number, nor ``find``, which parses arguments: 0.1 µs more each.
    if digits.partition(_MAYBE_INTEGER_KEY)[1] and _INTEGER_KEY(encoded) is not None:
        return False
    return not digits.partition(_MAYBE_LARGE_INTEGER)[1] or _integers_are_safe(encoded)


def canonicalize(data: bytes) -> bytes:
    """Return the canonical form of a JSON document; raise ValueError when JavaScript would refuse to parse it."""
    try:
        encoded = _encode(_decode(data))
    except (ValueError, RecursionError):
        return canonicalize_slowly(data)
    return encoded if is_canonical(encoded) else canonicalize_slowly(data)


def canonicalize_slowly(data: bytes) -> bytes:
    """Do what ``canonicalize`` does without its quick way; for what is known to need it."""
    return json_tree.encode_canonical(json_tree.decode(data))


def _integers_are_safe(encoded: bytes) -> bool:
    for match in _LARGE_INTEGER(encoded):
        digits = match[1]
        if len(digits) > _SAFE_INTEGER_DIGITS or int(digits) > SAFE_INTEGER_MAX:
            return False
    return True


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=float_of)
_decode = _decoder.decode
_encode = msgspec.json.Encoder().encode
