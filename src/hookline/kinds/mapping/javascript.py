"""JavaScript's rules for the values of JSON: truth, text, numbers, order of keys, UTF-16, ``JSON.stringify``.

A mapping means what it means in JavaScript. Strings are Python's here, in which a character beyond the Basic
Multilingual Plane is one and not two; where that shows (indexes, lengths, halves of a pair), the string is taken apart
into its units.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable
from functools import cache
from json.encoder import encode_basestring
from math import isinf, isnan
from typing import Any as Json
from typing import Final

from hookline.events.canonical import ARRAY_INDEX_MAX, SAFE_INTEGER_MAX, javascript_number
from hookline.kinds.mapping.bounds import DEPTH_MAX, Work, too_deep

INTEGER_DIGITS_MAX = 400
"""Of an integer in JSON; beyond it the number is infinite in JavaScript, and Python takes long."""
BLANKS = "\t\n\v\f\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""What ``trim`` takes away (ECMAScript, WhiteSpace and LineTerminator)."""


class _Missing:
    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""JavaScript's ``undefined``: left out of objects, ``null`` in lists."""

_WITHOUT_FORM = ("Infinity", "-Infinity", "NaN")
_INDEX = re.compile("0|[1-9][0-9]{0,9}").fullmatch
_BEYOND_PLANE = re.compile("[\U00010000-\U0010ffff]").search
_SURROGATE = re.compile("[\ud800-\udfff]")
_BROKEN_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]").search


def is_true(value: Json) -> bool:
    """Return the truth of a value; objects and lists are true even when they are empty."""
    return bool(value) or value.__class__ in (dict, list)


def text_of(value: Json, work: Work) -> str:
    """Return the text of a value in a template or a joined list, where null and undefined have none."""
    kind = value.__class__
    if kind is str:
        return str(value)
    if value is None or value is MISSING:
        return ""
    if kind is bool:
        return "true" if value else "false"
    if kind is list:
        work.values(len(value))
        texts = [text_of(item, work) for item in value]
        work.characters(sum(map(len, texts)) + len(texts))
        return whole(",".join(texts))
    return "[object Object]" if kind is dict else number_text(value)


def number_text(value: float) -> str:
    """Write a number as JavaScript does."""
    if value.__class__ is int and -SAFE_INTEGER_MAX <= value <= SAFE_INTEGER_MAX:
        return str(value)
    number = as_double(value)
    if 1e-4 <= abs(number) < 1e15:  # the usual numbers, for which Python writes the same digits
        return str(int(number)) if number.is_integer() else repr(number)
    if isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if isnan(number):
        return "NaN"
    return javascript_number(repr(number))


def as_double(value: float) -> float:
    """Return the number that JavaScript has for a number of JSON."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def is_index(key: str) -> bool:
    """Return whether JavaScript takes a key for the place in a list, in the one form that it takes."""
    return _INDEX(key) is not None and int(key) <= ARRAY_INDEX_MAX


def entries(value: dict[str, Json]) -> Iterable[tuple[str, Json]]:
    """Return an object's entries in the order in which JavaScript goes through them: integers first."""
    indexes = [key for key in value if key[:1].isdecimal() and is_index(key)]
    if not indexes:
        return value.items()
    first = {key: value[key] for key in sorted(indexes, key=int)}
    return (first | value).items()


def units(text: str) -> str:
    """Take a string apart into its UTF-16 units, each one character."""
    if text.isascii() or _BEYOND_PLANE(text) is None:
        return text
    return "".join(map(chr, array("H", text.encode("utf-16", "surrogatepass"))[1:]))


def whole(text: str) -> str:
    """Put halves of pairs together that have come to stand beside each other."""
    if text.isascii() or _BROKEN_PAIR(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def has_surrogate(text: str) -> bool:
    """Return whether a string holds half a pair, which stands for no character."""
    return not text.isascii() and _SURROGATE.search(text) is not None


@cache
def case_folds() -> dict[int, str]:
    """Return what a pattern that ignores case takes for each other character (ECMAScript, Canonicalize): its capital,
    unless that is more than one, or ASCII for what is not."""
    folds = {}
    for code in range(0x10000):
        character = chr(code)
        capital = character.upper()
        if capital != character and len(capital) == 1 and (code < 128 or ord(capital) >= 128):
            folds[code] = capital
    return folds


def stringify(value: Json, work: Work) -> str | None:
    """Return the text of ``JSON.stringify``; None for undefined."""
    if value is MISSING:
        return None
    written: list[str] = []
    _write(value, written, work, 0)
    return "".join(written)


def _write(value: Json, written: list[str], work: Work, depth: int) -> None:
    kind = value.__class__
    if kind is str:
        work.characters(len(value) + 2)
        written.append(_quoted(value))
    elif kind is dict:
        _write_object(value, written, work, depth)
    elif kind is list:
        _enter(value, work, depth)
        written.append("[")
        for number, item in enumerate(value):
            if number:
                written.append(",")
            _write(item, written, work, depth + 1)
        written.append("]")
    elif value is None or value is MISSING:
        written.append("null")
    elif kind is bool:
        written.append("true" if value else "false")
    else:
        text = number_text(value)
        written.append("null" if text in _WITHOUT_FORM else text)


def _write_object(value: dict[str, Json], written: list[str], work: Work, depth: int) -> None:
    _enter(value, work, depth)
    before = "{"
    for key, inner in entries(value):
        if inner is not MISSING:
            work.characters(len(key) + 4)
            written.append(f"{before}{_quoted(key)}:")
            _write(inner, written, work, depth + 1)
            before = ","
    written.append("{}" if before == "{" else "}")


def _enter(value: dict[str, Json] | list[Json], work: Work, depth: int) -> None:
    if depth >= DEPTH_MAX:
        raise too_deep()
    work.values(len(value) + 1)


def _quoted(text: str) -> str:
    quoted: str = encode_basestring(text)
    return quoted if quoted.isascii() else _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", quoted)


def parse(text: str) -> Json:
    """Return what ``JSON.parse`` gives; raises ValueError where it throws."""
    try:
        value = _decode(text)
    except RecursionError:
        raise too_deep() from None
    return _mended(value, 0) if has_surrogate(text) else value


def _integer(text: str) -> float:
    return int(text) if len(text) <= INTEGER_DIGITS_MAX else float(text)


def _refuse(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


_decode = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse).decode


def _mended(value: Json, depth: int) -> Json:
    """Put together pairs of which one half was written as such and the other escaped."""
    if depth > DEPTH_MAX:
        raise too_deep()
    if value.__class__ is str:
        return whole(value)
    if value.__class__ is list:
        return [_mended(item, depth + 1) for item in value]
    if value.__class__ is dict:
        return {whole(key): _mended(inner, depth + 1) for key, inner in value.items()}
    return value
