"""The types of columns: which one values get, what fits into a column that is there, and what it is widened to.

A column gets the narrowest type that holds what was seen first. ``bigint`` becomes ``numeric``, and anything becomes
``text`` when a value comes that it cannot hold. Columns of further types, which somebody else made, are filled where
values fit. Values become text in the form that PostgreSQL reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite
from secrets import token_hex
from typing import NamedTuple

import msgspec

from hookline.kinds.model import Json

NULL = f"\x1e{token_hex(4)}"
"""Stands for no value; another one in each process, so that nobody can send it as a text."""
TIMESTAMP_CHARACTERS_MAX = 40
NUMBER_CHARACTERS_MAX = 100
"""Of a number that is sent as text."""


class Type(StrEnum):
    """A type that columns are made with, as PostgreSQL writes it."""

    BOOLEAN = "boolean"
    BIGINT = "bigint"
    NUMERIC = "numeric"
    TIMESTAMP = "timestamp with time zone"
    TEXT = "text"
    JSONB = "jsonb"


class Converted(NamedTuple):
    """Values in the form that a column takes; ``misfits`` are the numbers of those that it cannot hold."""

    texts: list[str]
    misfits: list[int]


def type_of(values: Iterable[Json]) -> Type:
    """Return the narrowest type that holds all values."""
    found: Type | None = None
    for value in values:
        if value is None or value == "":
            continue
        own = _type_of_one(value)
        found = own if found is None or found is own else _wider(found, own)
        if found is Type.TEXT:
            break
    return Type.TEXT if found is None else found


def widened(column: str, values: Iterable[Json]) -> Type:
    """Return the type that a column of the type ``column`` needs in order to hold values that it does not hold now."""
    return _wider(_CLASSES.get(column, Type.TEXT), type_of(values))


def convert(values: Sequence[Json], column: str) -> Converted:
    """Return values as a column of that type takes them."""
    quick = _QUICK.get(column)
    if quick is not None and quick[0].issuperset(set(map(type, values))):
        texts = quick[1](values)
        if texts is not None:
            return Converted(texts, [])
    one = _reader(column)
    made: list[str] = []
    misfits: list[int] = []
    for index, value in enumerate(values):
        if value is None:
            made.append(NULL)
            continue
        text = one(value)
        if text is None:
            text = NULL
            if value != "":  # an empty string is no value where the column is not text
                misfits.append(index)
        made.append(text)
    return Converted(made, misfits)


def text_of(value: Json) -> str:
    """Return a value as text columns have it; objects and lists as JSON."""
    if value.__class__ is str:
        return str(value)
    if value.__class__ is float and not isfinite(value):
        return NULL
    try:
        return msgspec.json.encode(value).decode()
    except (ValueError, OverflowError):  # half a character somewhere in it, or a number beyond 64 bits
        return _json(value)


def cleaned(value: Json) -> Json:
    """Return a value without the characters that PostgreSQL has no place for: NUL, and halves of characters."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def timestamp_of(text: str) -> str | None:
    """Return a date with a time as UTC, None for any other text; without a zone it is UTC."""
    if len(text) > TIMESTAMP_CHARACTERS_MAX or _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        if text[-1] == "Z":
            return text
        aware = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return aware.isoformat()


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_WHOLE = {"smallint": 2**15, "integer": 2**31, Type.BIGINT: 2**63}
_CLASSES = {
    "boolean": Type.BOOLEAN,
    **dict.fromkeys(("smallint", "integer", "bigint"), Type.BIGINT),
    **dict.fromkeys(("numeric", "real", "double precision"), Type.NUMERIC),
    "timestamp with time zone": Type.TIMESTAMP,
    "timestamp without time zone": Type.TIMESTAMP,
}
"""What a column is to be compared as; text for all others."""


def _type_of_one(value: Json) -> Type:
    kind = value.__class__
    if kind is str:
        return Type.TIMESTAMP if timestamp_of(value) is not None else Type.TEXT
    if kind is bool:
        return Type.BOOLEAN
    if kind is int:
        return Type.BIGINT if -(2**63) <= value < 2**63 else Type.NUMERIC
    return Type.NUMERIC if kind is float else Type.TEXT


def _wider(one: Type, other: Type) -> Type:
    if one is other:
        return one
    return Type.NUMERIC if {one, other} == {Type.BIGINT, Type.NUMERIC} else Type.TEXT


def _reader(column: str) -> Callable[[Json], str | None]:
    """Return what makes text of one value for a column, None for a value that does not fit."""
    if column in _WHOLE:
        bound = _WHOLE[column]
        return lambda value: _whole(value, bound)
    if column.startswith("character varying("):
        length = int(column.partition("(")[2].rstrip(")"))
        return lambda value: text if len(text := text_of(value)) <= length else None
    return _READERS.get(column, _nothing)


def _nothing(_: Json) -> None:
    return None


def _boolean(value: Json) -> str | None:
    if value.__class__ is bool:
        return "true" if value else "false"
    return value if value in ("true", "false") else None


def _whole(value: Json, bound: int) -> str | None:
    if value.__class__ is str and len(value) <= NUMBER_CHARACTERS_MAX and _NUMBER.fullmatch(value) and "." not in value:
        value = int(value)
    return str(value) if value.__class__ is int and -bound <= value < bound else None


def _number(value: Json) -> str | None:
    if value.__class__ is int:
        return str(value)
    if value.__class__ is float:
        return repr(value) if isfinite(value) else NULL
    if value.__class__ is str and len(value) <= NUMBER_CHARACTERS_MAX and _NUMBER.fullmatch(value):
        return str(value)
    return None


def _time(value: Json) -> str | None:
    return timestamp_of(value) if value.__class__ is str else None


def _local_time(value: Json) -> str | None:
    """Return UTC without its zone."""
    found = _time(value)
    return None if found is None else found.removesuffix("Z").removesuffix("+00:00")


def _json(value: Json) -> str:
    return json.dumps(cleaned(value), ensure_ascii=False, separators=(",", ":"))


def _quick_text(values: Sequence[Json]) -> list[str]:
    return [NULL if value is None else value for value in values]


def _quick_whole(values: Sequence[Json]) -> list[str] | None:
    given = [value for value in values if value is not None]
    if given and (min(given) < -(2**63) or max(given) >= 2**63):
        return None
    return [NULL if value is None else str(value) for value in values]


def _quick_boolean(values: Sequence[Json]) -> list[str]:
    return [NULL if value is None else "true" if value else "false" for value in values]


_NONE = type(None)
_READERS: dict[str, Callable[[Json], str | None]] = {
    "text": text_of,
    "character varying": text_of,
    "boolean": _boolean,
    **dict.fromkeys(("numeric", "real", "double precision"), _number),
    "timestamp with time zone": _time,
    "timestamp without time zone": _local_time,
    "jsonb": _json,
}
_QUICK: dict[str, tuple[frozenset[type], Callable[[Sequence[Json]], list[str] | None]]] = {
    "text": (frozenset({str, _NONE}), _quick_text),
    "bigint": (frozenset({int, _NONE}), _quick_whole),
    "boolean": (frozenset({bool, _NONE}), _quick_boolean),
}
"""The usual case of a column, without a call for each value: the classes of values, and what makes text of them."""
