"""Paths: the keys that one is made of, and reading them in an event as JavaScript reads properties."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any as Json
from typing import TypeAlias

from hookline.kinds.mapping.bounds import Work
from hookline.kinds.mapping.javascript import MISSING, is_index, units

Resolve: TypeAlias = Callable[[Json, Work], Json]
"""What a part of a document becomes: it takes what paths are read in, and counts its work."""
Keys: TypeAlias = tuple[str, ...]

_BETWEEN_KEYS = re.compile(r"""\[(?=["'0-9])|\.|(?<=["'0-9])\]+""")


def keys_of(path: str) -> Keys:
    """Return the keys of a path, none for the whole: names between dots, and in brackets names in quotes or numbers.

    Quotes vanish wherever they stand, and a bracket before anything else belongs to the name.
    """
    return tuple([part.replace("'", "").replace('"', "") for part in _BETWEEN_KEYS.split(path) if part])


def keys_of_reference(path: str) -> Keys:
    """Return the keys of a path as ``@path`` has it, of which the first ``$.`` is left out, wherever it stands."""
    return keys_of(path.replace("$.", "", 1))


def reader(keys: Keys) -> Resolve:
    """Return a function that reads a path; the short ones, which are nearly all, each in its own way."""
    if len(keys) == 1:
        return _reader_of_one(keys)
    if len(keys) == 2:
        return _reader_of_two(keys)
    return lambda payload, work: read(payload, keys, work)


def read(value: Json, keys: Keys, work: Work) -> Json:
    """Return what a path leads to. Whatever is false (null, "", 0) ends it, and is what it leads to."""
    for key in keys:
        kind = value.__class__
        if kind is dict:
            value = value.get(key, MISSING)
        elif kind is list:
            value = _in_list(value, key)
        elif not value:
            return value
        elif kind is str:
            work.characters(0 if value.isascii() else len(value))
            value = _in_text(value, key)
        else:
            return MISSING
    return value


def _in_list(value: list[Json], key: str) -> Json:
    if key == "length":
        return len(value)
    return value[int(key)] if is_index(key) and int(key) < len(value) else MISSING


def _in_text(value: str, key: str) -> Json:
    if key == "length":
        return len(units(value))
    if not is_index(key):
        return MISSING
    value = units(value)
    return value[int(key)] if int(key) < len(value) else MISSING


def _reader_of_one(keys: Keys) -> Resolve:
    (key,) = keys

    def one(payload: Json, work: Work) -> Json:
        return payload.get(key, MISSING) if payload.__class__ is dict else read(payload, keys, work)

    return one


def _reader_of_two(keys: Keys) -> Resolve:
    first, second = keys

    def two(payload: Json, work: Work) -> Json:
        if payload.__class__ is dict:
            inner = payload.get(first, MISSING)
            if inner.__class__ is dict:
                return inner.get(second, MISSING)
        return read(payload, keys, work)

    return two
