"""JSON as a tree that keeps every number as it was written, and two ways to write it: as written, or as JavaScript.

It is the slow and complete way (lone surrogates, numbers beyond any range, integer-like keys) behind the quick paths
of ``canonical`` and ``body``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from json.encoder import encode_basestring
from math import isinf
from typing import TypeAlias

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
    return _encode(tree, str, dict.items)


def encode_canonical(tree: Tree) -> bytes:
    """Write the tree as JavaScript's ``JSON.stringify`` does."""
    return _encode(tree, javascript_number, _javascript_order)


def javascript_number(text: str) -> str:
    """Write a JSON number as JavaScript writes it (ECMAScript, Number::toString, and null for infinity)."""
    value = float(text)
    if value == 0.0:
        return "0"
    if isinf(value):
        return "null"
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


def _encode(
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


def _javascript_order(value: dict[str, Tree]) -> list[tuple[str, Tree]]:
    indexes = [key for key in value if _is_array_index(key)]
    if not indexes:
        return list(value.items())
    first = [(key, value[key]) for key in sorted(indexes, key=int)]
    return first + [(key, inner) for key, inner in value.items() if not _is_array_index(key)]


def _is_array_index(key: str) -> bool:
    return _ARRAY_INDEX(key) is not None and int(key) <= ARRAY_INDEX_MAX


def _quote(text: str) -> str:
    quoted: str = encode_basestring(text)
    return quoted if quoted.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _refuse_constant(name: str) -> Tree:
    raise ValueError(f"{name} is not JSON")
