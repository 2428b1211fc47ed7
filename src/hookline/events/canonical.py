"""Write JSON as ``JSON.stringify(JSON.parse(x))`` gives it in JavaScript, from a tree that keeps every number as it was
written.

A receiver may verify the signature over the raw body or over the body parsed and stringified again; both
agree when what is sent is already in this form. msgspec does the work: where its output could differ (large
integers, integer-like keys) what it is given, or gives, is changed before. The slow and complete way through a tree
says what is right, and takes what msgspec cannot read: half a character, which collect repairs. It takes up to fifty
times as long, so no event may choose it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from math import isinf
from typing import Any, TypeAlias

import msgspec

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
_INTEGERS = re.compile(rb"(?<![0-9.eE+-])-?[1-9][0-9]{15,}(?![0-9.eE])").finditer
"""Those that may be large, also within strings."""

_CONTAINERS = {dict, list}


def float_of(text: str) -> float | int | msgspec.Raw | None:
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
        return _unusual_number(text)
    return int(value) if value.is_integer() else value


def _written(text: str) -> msgspec.Raw:
    return msgspec.Raw(_encode(float_of(text)))


def _unusual(text: str) -> msgspec.Raw:
    return msgspec.Raw(javascript_number(text).encode())


_unusual_number = Remembered(
    _unusual, FLOATS_BYTES_MAX, FLOAT_BYTES_MAX, value_bytes=lambda raw: _RAW_BYTES + len(raw)
).__getitem__
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
    tree = encoded = None
    try:
        tree = _decode(data)
        encoded = _encode(tree)
        if is_canonical(encoded):
            return encoded
    except (ValueError, RecursionError):
        pass
    try:
        return _canonicalize_unusual(data, tree, encoded)
    except (ValueError, RecursionError):
        return canonicalize_slowly(data)


def canonicalize_slowly(data: bytes) -> bytes:
    """Do what ``canonicalize`` does without its quick way; for what is known to need it."""
    return encode_canonical(decode(data))


def _canonicalize_unusual(data: bytes, tree: Any, encoded: bytes | None) -> bytes:
    """Do it where msgspec does not write what JavaScript does, or cannot read it: then ``encoded`` is None."""
    rounded = _rounded(data)
    if encoded is None or rounded != data:
        tree = _decode(rounded)
        encoded = _encode(tree)
    return encoded if _INTEGER_KEY(encoded) is None else _encode(_in_order(tree))


def _rounded(data: bytes) -> bytes:
    """Return JSON with large integers written as JavaScript does, which holds them as floats."""
    parts: list[bytes] = []
    written = looked = 0
    is_in_string = 0
    for integer in _INTEGERS(data):
        between = data[looked : integer.start()].replace(rb"\\", b"")
        is_in_string ^= (between.count(b'"') - between.count(rb"\"")) & 1
        looked = integer.start()
        if not is_in_string:
            parts += data[written:looked], javascript_number(integer[0].decode()).encode()
            written = integer.end()
    return b"".join(parts) + data[written:]


def _in_order(value: Any) -> Any:
    """Return decoded JSON with the keys of all objects in JavaScript's order."""
    if value.__class__ is list:
        return value if _CONTAINERS.isdisjoint(map(type, value)) else list(map(_in_order, value))
    if value.__class__ is not dict:
        return value
    if not _CONTAINERS.isdisjoint(map(type, value.values())):
        value = {key: _in_order(inner) for key, inner in value.items()}
    if len(value) > 1 and any("0" <= key < ":" for key in value):
        return dict(_javascript_order(value))
    return value


def _integers_are_safe(encoded: bytes) -> bool:
    for match in _LARGE_INTEGER(encoded):
        digits = match[1]
        if len(digits) > _SAFE_INTEGER_DIGITS or int(digits) > SAFE_INTEGER_MAX:
            return False
    return True


_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(float_hook=float_of)
_decode = _decoder.decode
_encode = msgspec.json.Encoder().encode


ARRAY_INDEX_MAX = 2**32 - 2
"""Keys up to this number come first in JavaScript, in ascending order (ECMAScript, array index)."""

PLAIN_DIGITS_MAX = 21
"""Numbers whose decimal point lies beyond this many digits are written with an exponent (Number::toString)."""

PLAIN_ZEROS_MAX = 6
"""Numbers with this many zeros or more after the point are written with an exponent."""


class Number(str):
    """A JSON number, as it was written."""

    __slots__ = ()


Tree: TypeAlias = dict[str, "Tree"] | list["Tree"] | str | Number | bool | None

_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,9}").fullmatch
_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(data: bytes) -> Tree:
    """Parse a JSON document; raise ValueError where JavaScript's ``JSON.parse`` refuses."""
    try:
        tree: Tree = json.loads(
            data.decode("utf-8"), parse_int=Number, parse_float=Number, parse_constant=_refuse_constant
        )
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return tree


def encode_verbatim(tree: Tree) -> bytes:
    """Write the tree in compact form, numbers as they were written."""
    return _encode_tree(tree, str, dict.items)


def encode_canonical(tree: Tree) -> bytes:
    """Write the tree as JavaScript's ``JSON.stringify`` does."""
    return _encode_tree(tree, javascript_number, _javascript_order)


def javascript_number(text: str) -> str:
    """Write a JSON number as JavaScript writes it (ECMAScript, Number::toString, and null for infinity)."""
    value = float(text)
    if value == 0.0:
        return "0"
    if isinf(value):
        return "null"
    if abs(value) >= 1e21:
        return repr(value)
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    point = len(whole) - leading_zeros + int(exponent or 0)
    return sign + _place_point(digits.rstrip("0"), point)


def _place_point(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= PLAIN_DIGITS_MAX:
        return digits + "0" * (point - count)
    if 0 < point <= PLAIN_DIGITS_MAX:
        return f"{digits[:point]}.{digits[point:]}"
    if -PLAIN_ZEROS_MAX < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _encode_tree(
    tree: Tree,
    number: Callable[[str], str],
    items: Callable[[dict[str, Tree]], Iterable[tuple[str, Tree]]],
) -> bytes:
    def text_of(value: Tree) -> str:
        if isinstance(value, Number):
            return number(value)
        if isinstance(value, str):
            return _quote(value)
        if isinstance(value, dict):
            return "{" + ",".join([f"{_quote(key)}:{text_of(inner)}" for key, inner in items(value)]) + "}"
        if isinstance(value, list):
            return "[" + ",".join([text_of(inner) for inner in value]) + "]"
        return "null" if value is None else "true" if value else "false"

    try:
        return text_of(tree).encode("utf-8")
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _javascript_order(value: dict[str, Any]) -> list[tuple[str, Any]]:
    indexes = [key for key in value if _is_array_index(key)]
    if not indexes:
        return list(value.items())
    first = [(key, value[key]) for key in sorted(indexes, key=int)]
    return first + [(key, inner) for key, inner in value.items() if not _is_array_index(key)]


def _is_array_index(key: str) -> bool:
    return "0" <= key < ":" and _ARRAY_INDEX(key) is not None and int(key) <= ARRAY_INDEX_MAX


def _quote(text: str) -> str:
    quoted: str = encode_basestring(text)
    return quoted if quoted.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _refuse_constant(name: str) -> Tree:
    raise ValueError(f"{name} is not JSON")
