"""Hookline's own directives, beside those of the Mapping Kit: what APIs ask for and its notation cannot say.

``@time`` writes a time in the form that an API wants, ``@hash`` and ``@base64`` do what their names say, ``@uuid``
makes a UUID of any id, ``@text`` keeps a text within an API's rules for names and lengths, and ``@entries`` makes an
object whose names come from data.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Callable
from typing import Any as Json

from hookline.events.timestamps import iso, parse
from hookline.kinds.mapping.bounds import MappingFailed, Work, pointer
from hookline.kinds.mapping.directives import At, Compiling, Options
from hookline.kinds.mapping.javascript import MISSING, entries, text_of
from hookline.kinds.mapping.paths import Resolve

_TIMES: dict[str, Callable[[int], Json]] = {
    "seconds": lambda ms: ms // 1_000,
    "milliseconds": lambda ms: ms,
    "microseconds": lambda ms: ms * 1_000,
    "iso": iso,
    "date": lambda ms: iso(ms)[:10],
}
_HASHES: dict[str, Callable[[bytes], hashlib._Hash]] = {
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False),
    "sha1": lambda data: hashlib.sha1(data, usedforsecurity=False),
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
}
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
    "list": (list,),
    "object": (dict,),
}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_UUIDS_OF = uuid.UUID("6b2f6f0e-9d0c-5a53-8d0f-2f6d6b1a4c57")
"""The name space of UUIDs that are made (RFC 9562, version 5); another one would make other UUIDs of the same ids."""
_NO_NAME = re.compile(r"\W+")
_BEFORE_NAME = re.compile(r"[\W\d_]+")


def _time(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"value" and "as"')
    options.required("value")
    write = _TIMES.get(options.string("as"))
    if write is None:
        raise options.error("as", f'"as" of @time is one of {", ".join(_TIMES)}')
    value = options.value("value")
    options.check_others()

    def time(payload: Json, work: Work) -> Json:
        found = value(payload, work)
        ms = None if found is MISSING else parse(found)
        return MISSING if ms is None else write(ms)

    return time


def _hash(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"value" and "algorithm"')
    options.required("value")
    algorithm = _HASHES.get(options.string("algorithm", "sha256"))
    if algorithm is None:
        raise options.error("algorithm", f'"algorithm" of @hash is one of {", ".join(_HASHES)}')
    value = options.value("value")
    options.check_others()

    def digest(payload: Json, work: Work) -> Json:
        text = _scalar_text(value(payload, work), work)
        return MISSING if not text else algorithm(_bytes(text, work)).hexdigest()

    return digest


def _base64(compiler: Compiling, raw: Json, at: At) -> Resolve:
    value = compiler.value(raw, at)

    def encode(payload: Json, work: Work) -> Json:
        text = _scalar_text(value(payload, work), work)
        return MISSING if text is None else base64.b64encode(_bytes(text, work)).decode()

    return encode


def _uuid(compiler: Compiling, raw: Json, at: At) -> Resolve:
    value = compiler.value(raw, at)

    def identify(payload: Json, work: Work) -> Json:
        text = _scalar_text(value(payload, work), work)
        if not text or _UUID.fullmatch(text):
            return text.lower() if text else MISSING
        digest = hashlib.sha1(_UUIDS_OF.bytes + _bytes(text, work), usedforsecurity=False).digest()
        return str(uuid.UUID(bytes=digest[:16], version=5))

    return identify


def _text(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"value", and "max", "name", "refuse" or "needed"')
    options.required("value")
    most = _limit(options, "max")
    as_name, is_needed = options.boolean("name", False), options.boolean("needed", False)
    refused = _patterns(options, "refuse")
    value = options.value("value")
    options.check_others()

    def text(payload: Json, work: Work) -> Json:
        made = _scalar_text(value(payload, work), work) or ""
        work.characters(len(made))
        if as_name:
            made = _NO_NAME.sub("_", made).rstrip("_")
            before = _BEFORE_NAME.match(made)
            made = made[before.end() :] if before is not None else made
        made = made[:most]
        if reserved := refused(made):  # the name itself may be a secret, or hold one
            raise MappingFailed(pointer(at), f"{reserved!r} is a name that the receiver reserves")
        if is_needed and not made:
            raise MappingFailed(pointer(at), "the receiver needs this, and the event does not have it")
        return made or MISSING

    return text


def _entries(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"of", "key" and "value"')
    for name in ("of", "key", "value"):
        options.required(name)
    most = _limit(options, "max")
    types = _types(options)
    left_out = _patterns(options, "without")
    of = options.value("of")
    with compiler.reading(None):
        key, value = options.value("key"), options.value("value")
    options.check_others()

    def make(payload: Json, work: Work) -> Json:
        found = of(payload, work)
        made: dict[str, Json] = {}
        for name, inner in _pairs(found, work):
            if most is not None and len(made) >= most:
                break
            pair = {"key": name, "value": inner}
            own = _scalar_text(key(pair, work), work)
            if not own or own in made or left_out(own):
                continue
            given = value(pair, work)
            if given is not MISSING and given is not None and types(given):
                made[own] = given
        return made

    return make


def _pairs(value: Json, work: Work) -> list[tuple[str, Json]]:
    if isinstance(value, dict):
        work.values(len(value))
        return list(entries(value))
    if isinstance(value, list):
        work.values(len(value))
        return [(str(index), inner) for index, inner in enumerate(value)]
    return []


def _limit(options: Options, name: str) -> int | None:
    most = options.given(name)
    if most is MISSING:
        return None
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise options.error(name, f'"{name}" is a whole number from 1')
    return most


def _types(options: Options) -> Callable[[Json], bool]:
    given = options.given("types")
    if given is MISSING:
        return lambda value: True
    if not isinstance(given, list) or not given or any(str(each) not in _TYPES for each in given):
        raise options.error("types", f'"types" of @entries is a list of {", ".join(_TYPES)}')
    kept = tuple(each for name in given for each in _TYPES[name])
    no_booleans = "boolean" not in given  # a bool is an int in Python
    return lambda value: isinstance(value, kept) and not (no_booleans and isinstance(value, bool))


def _patterns(options: Options, name: str) -> Callable[[str], str | None]:
    """Read names, and beginnings of names that end with ``*``; return a function that gives the one which is a
    text's."""
    given = options.given(name)
    if given is MISSING:
        return lambda text: None
    if not isinstance(given, list) or not all(isinstance(each, str) and each for each in given):
        raise options.error(name, f'"{name}" is a list of names; * at the end of one stands for anything')
    beginnings = tuple(each[:-1] for each in given if each.endswith("*"))
    names = frozenset(each for each in given if not each.endswith("*"))

    def found(text: str) -> str | None:
        if text in names:
            return text
        if not text.startswith(beginnings):
            return None
        return next(f"{each}*" for each in beginnings if text.startswith(each))

    return found


def _scalar_text(value: Json, work: Work) -> str | None:
    return None if value is MISSING or value is None or isinstance(value, dict | list) else text_of(value, work)


def _bytes(text: str, work: Work) -> bytes:
    work.characters(len(text))
    return text.encode("utf-8", "replace")


OWN_DIRECTIVES: dict[str, Callable[[Compiling, Json, At], Resolve]] = {
    "@time": _time,
    "@hash": _hash,
    "@base64": _base64,
    "@uuid": _uuid,
    "@text": _text,
    "@entries": _entries,
}
"""Every directive of Hookline's own."""
