"""Compiling a document: objects, lists and scalars become functions of the event, directives by their own rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from math import isfinite
from typing import Any as Json

from hookline.kinds.mapping.bounds import (
    DEPTH_MAX,
    DOCUMENT_CHARACTERS_MAX,
    DOCUMENT_VALUES_MAX,
    MappingError,
    Work,
    pointer,
    too_deep,
)
from hookline.kinds.mapping.directives import DIRECTIVES, METADATA, ROOT_DIRECTIVE, At, Constant, is_directive
from hookline.kinds.mapping.javascript import MISSING
from hookline.kinds.mapping.own import OWN_DIRECTIVES
from hookline.kinds.mapping.paths import Keys, Resolve, keys_of_reference


class Mapping:
    """A compiled document. It may be used for any number of events, by several threads."""

    __slots__ = ("_resolve", "paths")

    def __init__(self, resolve: Resolve, paths: frozenset[str]) -> None:
        self._resolve = resolve
        self.paths = paths
        """Dotted paths of the event that it reads, ``""`` for the whole; those that it makes up from an event are not
        known."""

    def resolve(self, event: dict[str, Json]) -> Json:
        """Return what the document gives for an event: a JSON value of which nothing belongs to the event, or MISSING.

        Raises MappingFailed where the event does not allow it, or the work or the result is beyond a bound.
        """
        work = Work()
        try:
            return _finish(self._resolve(event, work), work, 0)
        except RecursionError:
            raise too_deep() from None


def compile_mapping(document: Json) -> Mapping:
    """Compile a document; raise MappingError for the first mistake in it, in any branch."""
    compiler = Compiler()
    compiler.refuse_root_directive(document, ())
    try:
        resolve = compiler.value(document, ())
    except RecursionError:
        raise MappingError("", f"a mapping is at most {DEPTH_MAX} levels deep") from None
    return Mapping(resolve, frozenset(compiler.paths))


class Compiler:
    """Compile the parts of one document; directives call it for what stands in them."""

    def __init__(self) -> None:
        self.paths: set[str] = set()
        self.values = 0
        self._characters = 0
        self._base: Keys | None = ()
        """Where in the event paths are read at present; None where they read what was made."""

    def value(self, value: Json, at: At) -> Resolve:
        """Compile any JSON value."""
        self.count(value, at)
        if isinstance(value, dict):
            return self._directive(value, at) if is_directive(value) else self._object(value, at)
        if isinstance(value, list):
            return self._list(value, at)
        return Constant(value)

    def note_path(self, path: str) -> Keys:
        """Return the keys of a path of ``@path``, which is read here."""
        return self.note_keys(keys_of_reference(path))

    def note_keys(self, keys: Keys) -> Keys:
        """Return the keys of a path that is read here."""
        if self._base is not None:
            self.paths.add(".".join(self._base + keys))
        return keys

    @contextmanager
    def reading(self, keys: Keys | None) -> Iterator[None]:
        """Compile what reads its paths below these keys, or, without any, in what was made."""
        base = self._base
        self._base = None if keys is None or base is None else base + keys
        try:
            yield
        finally:
            self._base = base

    def refuse_root_directive(self, value: Json, at: At) -> None:
        """Refuse what stands for a directive of the whole where an object is transformed."""
        if isinstance(value, dict) and ROOT_DIRECTIVE in value:
            sentence = f"{ROOT_DIRECTIVE} is not supported; write @transform around the other fields"
            raise MappingError(pointer((*at, ROOT_DIRECTIVE)), sentence)

    def count(self, value: Json, at: At) -> None:
        """Count a value without what is in it; refuse what is beyond a bound or none of JSON."""
        if len(at) > DEPTH_MAX:
            raise MappingError(pointer(at), f"a mapping is at most {DEPTH_MAX} levels deep")
        self.values += 1
        if self.values > DOCUMENT_VALUES_MAX:
            raise MappingError(pointer(at), f"a mapping has at most {DOCUMENT_VALUES_MAX:,} values")
        if isinstance(value, str):
            self._count_characters(value, at)
        elif isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise MappingError(pointer(at), f"the name {key!r} of a field is no text; write it in quotes")
                self._count_characters(key, at)
        elif isinstance(value, float):
            if not isfinite(value):
                raise MappingError(pointer(at), "this number has no form in JSON")
        elif value is not None and not isinstance(value, (bool, int, list)):
            raise MappingError(pointer(at), f"this is no JSON value but a {type(value).__name__}; write it as text")

    def _count_characters(self, text: str, at: At) -> None:
        self._characters += len(text)
        if self._characters > DOCUMENT_CHARACTERS_MAX:
            raise MappingError(pointer(at), f"a mapping has at most {DOCUMENT_CHARACTERS_MAX:,} characters")

    def _directive(self, value: dict[str, Json], at: At) -> Resolve:
        names = [key for key in value if key.startswith("@")]
        name = names[0]
        if len(names) > 1:
            sentence = f"one object has one directive, and this one has {' and '.join(names[:2])}"
            raise MappingError(pointer(at), sentence)
        for key in value:
            if key not in (name, METADATA):
                raise MappingError(pointer((*at, key)), f"beside {name} stands no other field; put {key} elsewhere")
        at = (*at, name)
        build = DIRECTIVES.get(name) or OWN_DIRECTIVES.get(name)
        if build is None:
            raise MappingError(pointer(at), _unknown(name))
        return build(self, value[name], at)

    def _object(self, value: dict[str, Json], at: At) -> Resolve:
        fields = [(key, self.value(inner, (*at, key))) for key, inner in value.items()]
        constants = {key: resolve.value for key, resolve in fields if isinstance(resolve, Constant)}
        if len(constants) == len(fields):
            return Constant(constants)
        return lambda payload, work: {key: resolve(payload, work) for key, resolve in fields}

    def _list(self, value: list[Json], at: At) -> Resolve:
        items = [self.value(item, (*at, str(number))) for number, item in enumerate(value)]
        constants = [resolve.value for resolve in items if isinstance(resolve, Constant)]
        if len(constants) == len(items):
            return Constant(constants)
        return lambda payload, work: [resolve(payload, work) for resolve in items]


def _unknown(name: str) -> str:
    if name == "@liquid":
        return "@liquid is not supported: Liquid is a programming language; write @template, @if, @case or @replace"
    names = {known.lower(): known for known in (*DIRECTIVES, *OWN_DIRECTIVES)}
    near = get_close_matches(name[:100].lower(), names, 1, 0.0)
    known = names[near[0]] if near else "@path"
    return f"there is no directive {name[:100]}; did you mean {known}?"


def _finish(value: Json, work: Work, depth: int) -> Json:
    """Return a copy without what is undefined, within the bounds; numbers without a form in JSON become null."""
    kind = value.__class__
    if kind is dict:
        return _finish_object(value, work, depth)
    if kind is list:
        if depth >= DEPTH_MAX:
            raise too_deep()
        work.values(len(value))
        return [None if item is MISSING else _finish(item, work, depth + 1) for item in value]
    if kind is str:
        work.characters(len(value))
    elif kind is float and not isfinite(value):
        return None
    return value


def _finish_object(value: dict[str, Json], work: Work, depth: int) -> dict[str, Json]:
    if depth >= DEPTH_MAX:
        raise too_deep()
    work.values(len(value))
    finished = {}
    size = 0
    for key, inner in value.items():
        if inner is MISSING:
            continue
        size += len(key)
        kind = inner.__class__
        if kind is str:
            size += len(inner)
        elif kind is dict or kind is list or kind is float:
            inner = _finish(inner, work, depth + 1)
        finished[key] = inner
    work.characters(size)
    return finished
