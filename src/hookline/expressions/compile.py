"""Compiling: a tree becomes closures that evaluate over decoded JSON and never raise.

What a path does not find is ``MISSING``: it makes every comparison false, passes through ``length`` and ``lowercase``,
and only ``typeof`` tells it. Values of different types are unequal and have no order; there is no conversion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any as Json
from typing import Final, Protocol

from hookline.expressions.tree import All, Any, Call, Compare, Literal, Node, Not, Path


class Fields(Protocol):
    """Hold what is evaluated over: a decoded JSON object, or anything that gives its fields by name."""

    def get(self, name: str, default: Json, /) -> Json:
        """Return the field's value as decoded JSON, or the default."""


class _Missing:
    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

Condition = Callable[[Fields], bool]
Operand = Callable[[Fields], Json]


def compile_condition(node: Node) -> Condition:
    """Return a function that says whether the condition holds."""
    match node:
        case Literal(value):
            return _always if value is True else _never
        case Compare():
            return _compare(node)
        case Not(term):
            inner = compile_condition(term)
            return lambda fields: not inner(fields)
        case All(terms):
            return _all([compile_condition(term) for term in terms])
        case Any(terms):
            return _any([compile_condition(term) for term in terms])
        case Call("contains", (whole, part)):
            return _contains(compile_operand(whole), compile_operand(part))
        case Call("match", (whole, Literal(str() as pattern))):
            return _match(compile_operand(whole), Glob(pattern))
        case _:
            operand = compile_operand(node)
            return lambda fields: operand(fields) is True


def compile_operand(node: Node) -> Operand:
    """Return a function that gives the node's value, or MISSING."""
    match node:
        case Literal(value):
            return lambda fields: value
        case Path((name,)):
            return lambda fields: fields.get(name, MISSING)
        case Path(parts):
            return _path(parts[0], parts[1:])
        case Call("length", (of,)):
            return _length(compile_operand(of))
        case Call("lowercase", (of,)):
            return _lowercase(compile_operand(of))
        case Call("typeof", (of,)):
            operand = compile_operand(of)
            return lambda fields: type_of(operand(fields))
        case _:
            return compile_condition(node)


def type_of(value: Json) -> str:
    """Return what ``typeof`` calls a value."""
    return _TYPES.get(value.__class__, "missing")


_TYPES: dict[type, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "list",
    dict: "object",
}


def _always(fields: Fields) -> bool:
    return True


def _never(fields: Fields) -> bool:
    return False


def _all(terms: Sequence[Condition]) -> Condition:
    def every(fields: Fields) -> bool:
        for term in terms:  # noqa: SIM110 - a generator would cost more than the terms
            if not term(fields):
                return False
        return True

    return every


def _any(terms: Sequence[Condition]) -> Condition:
    def some(fields: Fields) -> bool:
        for term in terms:  # noqa: SIM110
            if term(fields):
                return True
        return False

    return some


def _path(first: str, rest: tuple[str, ...]) -> Operand:
    def value(fields: Fields) -> Json:
        found = fields.get(first, MISSING)
        for name in rest:
            if found.__class__ is not dict:
                return MISSING
            found = found.get(name, MISSING)
        return found

    return value


def _compare(node: Compare) -> Condition:
    left, right = compile_operand(node.left), compile_operand(node.right)
    if node.operator == "=" and isinstance(node.right, Literal) and isinstance(node.right.value, str):
        text = node.right.value  # by far the commonest comparison; only text equals text
        return lambda fields: bool(left(fields) == text)
    test = _COMPARISONS[node.operator]

    def compared(fields: Fields) -> bool:
        a, b = left(fields), right(fields)
        return a is not MISSING and b is not MISSING and test(a, b)

    return compared


def _equal(a: Json, b: Json) -> bool:
    """Equal values of the same type; lists and objects equal nothing."""
    if a.__class__ in _NUMBERS:
        return b.__class__ in _NUMBERS and bool(a == b)
    return a.__class__ is b.__class__ and a.__class__ in _ALONE and bool(a == b)


def _ordered(a: Json, b: Json) -> bool:
    return (a.__class__ in _NUMBERS and b.__class__ in _NUMBERS) or (a.__class__ is str and b.__class__ is str)


_NUMBERS = frozenset({int, float})
_ALONE = frozenset({str, bool, type(None)})
_COMPARISONS: dict[str, Callable[[Json, Json], bool]] = {
    "=": _equal,
    "!=": lambda a, b: not _equal(a, b),
    ">": lambda a, b: _ordered(a, b) and a > b,
    ">=": lambda a, b: _ordered(a, b) and a >= b,
    "<": lambda a, b: _ordered(a, b) and a < b,
    "<=": lambda a, b: _ordered(a, b) and a <= b,
}


def _contains(whole: Operand, part: Operand) -> Condition:
    def contains(fields: Fields) -> bool:
        a, b = whole(fields), part(fields)
        if a.__class__ is str:
            return b.__class__ is str and b in a
        return a.__class__ is list and any(_equal(item, b) for item in a)

    return contains


def _match(whole: Operand, pattern: Glob) -> Condition:
    def match(fields: Fields) -> bool:
        value = whole(fields)
        return value.__class__ is str and pattern.matches(value)

    return match


def _length(of: Operand) -> Operand:
    def length(fields: Fields) -> Json:
        value = of(fields)
        return len(value) if value.__class__ in (str, list, dict) else MISSING

    return length


def _lowercase(of: Operand) -> Operand:
    def lowercase(fields: Fields) -> Json:
        value = of(fields)
        return value.lower() if value.__class__ is str else MISSING

    return lowercase


_PIECE = re.compile(r"\\(.)|(\*)|([^\\*]+)|\\", re.DOTALL)


class Glob:
    """A compiled pattern; a backslash before ``*`` or a backslash makes it an ordinary character."""

    __slots__ = ("_first", "_last", "_middle", "_size")

    def __init__(self, pattern: str) -> None:
        pieces = [""]
        for found in _PIECE.finditer(pattern):
            if found[2]:
                pieces.append("")
            else:
                pieces[-1] += found[1] or found[3] or "\\"
        self._first = pieces[0]
        self._middle = [piece for piece in pieces[1:-1] if piece]
        self._last = pieces[-1] if len(pieces) > 1 else None
        self._size = len(self._first) + len(self._last or "")

    def matches(self, text: str) -> bool:
        """Return whether the whole text fits. Every piece is looked for once, from left to right, and never again."""
        if self._last is None:
            return text == self._first
        if len(text) < self._size or not (text.startswith(self._first) and text.endswith(self._last)):
            return False
        at, end = len(self._first), len(text) - len(self._last)
        for piece in self._middle:
            at = text.find(piece, at, end)
            if at < 0:
                return False
            at += len(piece)
        return True
