"""The directives: what each may be given, and what it makes of an event.

Each is a function that compiles what stands behind its name. It refuses what can be seen to be wrong; what depends on
the event (a path that is made up and is no text) raises MappingFailed when it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any as Json
from typing import Protocol, TypeAlias

from hookline.kinds.mapping.bounds import MappingError, MappingFailed, Work, pointer
from hookline.kinds.mapping.javascript import (
    MISSING,
    entries,
    is_true,
    number_text,
    parse,
    stringify,
    text_of,
    units,
    whole,
)
from hookline.kinds.mapping.paths import Keys, Resolve, keys_of_reference, read, reader
from hookline.kinds.mapping.templates import NestedPlaceholder, Replacement, pieces_of, renderer

PATTERN_UNITS_MAX = 10
"""Of the texts of ``@replace``, in UTF-16 units; the oracle's own bound."""
METADATA = "_metadata"
"""The one field that may stand beside a directive; nothing reads it."""
ROOT_DIRECTIVE = "__segment_internal_directive"

At: TypeAlias = tuple[str, ...]
"""Where in the document something stands."""


class Compiling(Protocol):
    """Compile what stands in a directive."""

    values: int

    def value(self, value: Json, at: At) -> Resolve:
        """Compile any JSON value."""

    def count(self, value: Json, at: At) -> None:
        """Count a value without what is in it; refuse what is beyond a bound or none of JSON."""

    def note_path(self, path: str) -> Keys:
        """Return the keys of a path of ``@path``, which is read here."""

    def note_keys(self, keys: Keys) -> Keys:
        """Return the keys of a path that is read here."""

    def reading(self, keys: Keys | None) -> AbstractContextManager[None]:
        """Compile what reads its paths below these keys, or, without any, in what was made."""

    def refuse_root_directive(self, value: Json, at: At) -> None:
        """Refuse what stands for a directive of the whole where an object is transformed."""


class Constant:
    """Give the same value for every event."""

    __slots__ = ("value",)

    def __init__(self, value: Json) -> None:
        self.value = value

    def __call__(self, payload: Json, work: Work) -> Json:
        """Return the value; nobody changes it."""
        return self.value


class Options:
    """Read the options that stand in a directive's object, each compiled once."""

    def __init__(self, compiler: Compiling, raw: Json, at: At, takes: str) -> None:
        compiler.count(raw, at)
        if not isinstance(raw, dict) or is_directive(raw):
            raise MappingError(pointer(at), f"{at[-1]} takes an object with {takes}")
        self._compiler = compiler
        self._at = at
        self._left = dict(raw)
        self.raw = raw

    def place(self, name: str) -> At:
        """Return where an option stands."""
        return (*self._at, name)

    def error(self, name: str, sentence: str) -> MappingError:
        """Return the refusal of an option."""
        return MappingError(pointer(self.place(name) if name in self.raw else self._at), sentence)

    def given(self, name: str) -> Json:
        """Return an option as it is written, MISSING if it is not."""
        return self.raw.get(name, MISSING)

    def required(self, name: str) -> Json:
        """Return an option as it is written, and refuse its absence."""
        if name not in self.raw:
            raise self.error(name, f'{self._at[-1]} needs "{name}"')
        return self.raw[name]

    def value(self, name: str) -> Resolve:
        """Compile an option that takes anything."""
        if name not in self._left:
            return Constant(self.given(name))
        return self._compiler.value(self._left.pop(name), self.place(name))

    def text(self, name: str) -> Resolve:
        """Compile an option that takes a text or a directive."""
        _must_be_text(self.raw[name], self.place(name))
        return self.value(name)

    def string(self, name: str, default: str | None = None) -> str:
        """Return an option that takes a text alone."""
        given = self.raw.get(name, default)
        if not isinstance(given, str) or (default is None and not given):
            raise self.error(name, f'{self._at[-1]} needs "{name}", a text')
        return given

    def boolean(self, name: str, default: bool) -> bool:
        """Return an option that takes true or false."""
        given = self.raw.get(name, default)
        if not isinstance(given, bool):
            raise self.error(name, f'"{name}" of {self._at[-1]} is true or false')
        return given

    def check_others(self) -> None:
        """Look for mistakes in what no one asked for."""
        with self._compiler.reading(None):
            for name in list(self._left):
                self.value(name)


def is_directive(value: Json) -> bool:
    """Return whether an object is a directive, or meant as one."""
    return isinstance(value, dict) and any(isinstance(key, str) and key.startswith("@") for key in value)


def _must_be_text(value: Json, at: At) -> None:
    if not isinstance(value, str) and not is_directive(value):
        raise MappingError(pointer(at), "this must be a text or a directive")


def _must_be_object(value: Json, at: At) -> None:
    if not isinstance(value, dict):
        raise MappingError(pointer(at), "this must be an object or a directive")


def _path(compiler: Compiling, raw: Json, at: At) -> Resolve:
    _must_be_text(raw, at)
    path = compiler.value(raw, at)
    if isinstance(path, Constant):
        return reader(compiler.note_path(_written_text(path, at)))

    def follow(payload: Json, work: Work) -> Json:
        text = _expect_text(path(payload, work), at)
        work.characters(len(text))
        return read(payload, keys_of_reference(text), work)

    return follow


def _template(compiler: Compiling, raw: Json, at: At) -> Resolve:
    _must_be_text(raw, at)
    template = compiler.value(raw, at)
    nested = "a placeholder stands within another one; write @path with a @template for a path that is made up"
    if isinstance(template, Constant):
        try:
            pieces = pieces_of(_written_text(template, at))
        except NestedPlaceholder:
            raise MappingError(pointer(at), nested) from None
        for piece in pieces:
            if not isinstance(piece, str):
                compiler.note_keys(piece)
        return renderer(pieces)

    def render(payload: Json, work: Work) -> Json:
        text = _expect_text(template(payload, work), at)
        work.characters(len(text))
        try:
            pieces = pieces_of(text)
        except NestedPlaceholder:
            raise MappingFailed(pointer(at), nested) from None
        return renderer(pieces)(payload, work)

    return render


def _written_text(constant: Constant, at: At) -> str:
    if not isinstance(constant.value, str):
        raise MappingError(pointer(at), f"{at[-1]} needs a text, and what stands here is {_name_of(constant.value)}")
    return constant.value


def _expect_text(value: Json, at: At) -> str:
    if not isinstance(value, str):
        raise MappingFailed(pointer(at), f"{at[-1]} needs a text, and what stands here gives {_name_of(value)}")
    return value


def _name_of(value: Json) -> str:
    if value is None or value is MISSING:
        return "null" if value is None else "nothing"
    names: dict[type, str] = {bool: "true or false", list: "a list", dict: "an object", str: "a text"}
    return names.get(type(value), "a number")


def _literal(compiler: Compiling, raw: Json, at: At) -> Resolve:
    return compiler.value(raw, at)


def _if(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"exists" or "blank", "then" and "else"')
    if not is_true(options.given("exists")) and not is_true(options.given("blank")):
        raise options.error("exists", '@if needs "exists" or "blank", a directive')
    by_blank = options.given("exists") is MISSING
    tested = options.value("blank" if by_blank else "exists")
    then = options.value("then")
    other = options.value("else") if is_true(options.given("else")) else Constant(MISSING)
    options.check_others()

    def choose(payload: Json, work: Work) -> Json:
        value = tested(payload, work)
        if value is None or value is MISSING or (by_blank and _is_blank(value, work)):
            return other(payload, work)
        return then(payload, work)

    return choose


def _is_blank(value: Json, work: Work) -> bool:
    """Return whether JavaScript finds ``value == ""``: for 0, false and lists without text too."""
    return text_of(value, work) == "" if isinstance(value, list) else not is_true(value)


def _case(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"operator" and "value"')
    operator = options.string("operator")
    if operator not in ("lower", "upper"):
        raise options.error("operator", '"operator" of @case is "lower" or "upper"')
    change: Callable[[str], str] = str.lower if operator == "lower" else str.upper
    value = options.text("value") if options.given("value") is not MISSING else Constant(MISSING)
    options.check_others()
    if options.given("value") == "":
        return Constant(MISSING)

    def change_case(payload: Json, work: Work) -> Json:
        text = value(payload, work)
        if text.__class__ is not str:
            return text
        work.characters(len(text))
        return change(text)

    return change_case


def _replace(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"pattern" and "value"')
    options.required("value")
    steps = [step.compile() for step in _replacements(options)]
    value = options.text("value")
    options.check_others()
    if options.given("value") == "":
        return Constant(MISSING)

    def replace(payload: Json, work: Work) -> Json:
        text = value(payload, work)
        if text.__class__ is bool:
            text = "true" if text else "false"
        elif text.__class__ in (int, float):
            text = number_text(text)
        elif text.__class__ is not str:
            return ""
        for step in steps:
            text = step(text, work)
        return text

    return replace


def _replacements(options: Options) -> Iterator[Replacement]:
    ignore_case = options.boolean("ignorecase", False)
    everywhere = options.boolean("global", True)
    pattern, replacement = options.string("pattern"), options.string("replacement", "")
    _check_length(options, "pattern", pattern)
    _check_length(options, "replacement", replacement)
    yield Replacement(pattern, replacement, ignore_case, everywhere)
    pattern, replacement = options.given("pattern2"), options.given("replacement2")
    replacement = "" if replacement is None or replacement is MISSING else replacement
    if isinstance(pattern, str) and pattern and isinstance(replacement, str):
        _check_length(options, "pattern2", pattern)
        _check_length(options, "replacement2", replacement)
        yield Replacement(pattern, replacement, ignore_case, everywhere)


def _check_length(options: Options, name: str, text: str) -> None:
    if len(units(text)) > PATTERN_UNITS_MAX:
        raise options.error(name, f'"{name}" of @replace has at most {PATTERN_UNITS_MAX} characters')


def _array_path(compiler: Compiling, raw: Json, at: At) -> Resolve:
    if not isinstance(raw, list) or not raw:
        raise MappingError(pointer(at), "@arrayPath takes a list: a path, and what becomes of each item")
    compiler.count(raw, at)
    _must_be_text(raw[0], (*at, "0"))
    root = compiler.value(raw[0], (*at, "0"))
    keys: Keys | None = None
    if isinstance(raw[0], str):
        keys = compiler.note_path(raw[0])
        root = reader(keys)
    if len(raw) == 1:
        return root
    before = compiler.values
    with compiler.reading(keys):
        item = compiler.value(raw[1], (*at, "1"))
    size = compiler.values - before
    if not isinstance(raw[1], dict) or not raw[1]:
        return root

    def each(payload: Json, work: Work) -> Json:
        found = root(payload, work)
        if found.__class__ is dict:
            found = [found]
        elif found.__class__ is not list:
            return found
        work.values(size * len(found))
        return [item(one, work) for one in found]

    return each


def _flatten(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"value" and "separator"')
    options.required("value")
    separator = options.string("separator")
    keep_lists = is_true(options.given("omitArrays"))
    value = options.value("value")
    options.check_others()

    def flatten(payload: Json, work: Work) -> Json:
        flat: dict[str, Json] = {}
        _flatten_into(flat, value(payload, work), "", separator, keep_lists, work)
        return flat

    return flatten


def _flatten_into(
    flat: dict[str, Json], value: Json, prefix: str, separator: str, keep_lists: bool, work: Work
) -> None:
    inner: Iterator[tuple[str, Json]]
    if value.__class__ is dict:
        inner = iter(entries(value))
    elif value.__class__ is list and not keep_lists:
        inner = zip(map(str, range(len(value))), value, strict=True)
    else:
        flat[prefix] = value
        return
    work.values(len(value))
    for key, item in inner:
        name = f"{prefix}{separator}{key}" if prefix else key
        work.characters(len(name))
        _flatten_into(flat, item, whole(name), separator, keep_lists, work)


def _json(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"mode" and "value"')
    mode = options.string("mode")
    if mode.lower() not in ("encode", "decode"):
        raise options.error("mode", '"mode" of @json is "encode" or "decode"')
    if not is_true(options.required("value")):
        raise options.error("value", '@json needs a "value"; nothing, false, 0 and an empty text are none')
    value = options.value("value")
    options.check_others()
    change = {"encode": _encode, "decode": _decode}.get(mode, _leave_out)
    return lambda payload, work: change(value(payload, work), work)


def _encode(value: Json, work: Work) -> Json:
    text = stringify(value, work)
    return MISSING if text is None else text


def _leave_out(value: Json, work: Work) -> Json:
    """Give nothing: what "Encode" does, which passes the oracle's check."""
    return MISSING


def _decode(value: Json, work: Work) -> Json:
    if value.__class__ is not str:
        return value
    work.characters(len(value))
    try:
        return parse(value)
    except ValueError:
        return value


def _merge(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"objects" and "direction"')
    direction = options.string("direction")
    if direction.lower() not in ("left", "right"):
        raise options.error("direction", '"direction" of @merge is "right" (later objects win) or "left"')
    objects = options.required("objects")
    if not isinstance(objects, list):
        raise options.error("objects", '"objects" of @merge is a list')
    for number, one in enumerate(objects):
        _must_be_object(one, (*options.place("objects"), str(number)))
    listed = options.value("objects")
    options.check_others()
    leftmost_wins = direction == "left"

    def merge(payload: Json, work: Work) -> Json:
        merged: dict[str, Json] = {}
        found = listed(payload, work)
        for one in reversed(found) if leftmost_wins else found:
            merged.update(_own_fields(one, work))
        return merged

    return merge


def _own_fields(value: Json, work: Work) -> dict[str, Json]:
    """Return what ``Object.assign`` takes of a value: an object's fields, a list's items, the units of a text."""
    if value.__class__ is dict:
        work.values(len(value))
        return dict(value)
    if value.__class__ is list or value.__class__ is str:
        work.values(len(value))
        items = units(value) if value.__class__ is str else value
        return {str(number): item for number, item in enumerate(items)}
    return {}


def _transform(compiler: Compiling, raw: Json, at: At) -> Resolve:
    options = Options(compiler, raw, at, '"apply" and "mapping"')
    for name in ("apply", "mapping"):
        _must_be_object(options.required(name), options.place(name))
    compiler.refuse_root_directive(options.given("apply"), options.place("apply"))
    apply = options.value("apply")
    with compiler.reading(None):
        mapping = options.value("mapping")
    options.check_others()

    def transform(payload: Json, work: Work) -> Json:
        if payload is MISSING:
            payload = {}
        elif payload.__class__ is not dict:
            raise MappingFailed(pointer(at), f"@transform needs an object to read, and here is {_name_of(payload)}")
        return mapping(_without_missing(apply(payload, work), work), work)

    return transform


def _without_missing(value: Json, work: Work) -> Json:
    """Return a copy whose objects have no undefined fields; in lists they stay."""
    if value.__class__ is dict:
        work.values(len(value))
        return {key: _without_missing(inner, work) for key, inner in value.items() if inner is not MISSING}
    if value.__class__ is list:
        work.values(len(value))
        return [_without_missing(item, work) for item in value]
    return value


def _exclude_when_null(compiler: Compiling, raw: Json, at: At) -> Resolve:
    value = compiler.value(raw, at)

    def exclude(payload: Json, work: Work) -> Json:
        found = value(payload, work)
        return MISSING if found is None else _without_null(found, work)

    return exclude


def _without_null(value: Json, work: Work) -> Json:
    """Return a copy in which fields that are null are undefined, in objects within objects too but not in lists."""
    if value.__class__ is not dict:
        return value
    work.values(len(value))
    return {key: MISSING if inner is None else _without_null(inner, work) for key, inner in value.items()}


DIRECTIVES: dict[str, Callable[[Compiling, Json, At], Resolve]] = {
    "@path": _path,
    "@template": _template,
    "@if": _if,
    "@literal": _literal,
    "@arrayPath": _array_path,
    "@case": _case,
    "@replace": _replace,
    "@merge": _merge,
    "@flatten": _flatten,
    "@json": _json,
    "@transform": _transform,
    "@excludeWhenNull": _exclude_when_null,
}
"""Every directive with the function that compiles what stands behind it."""
