"""The tree of an expression: what parsing makes and what is written back or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias, get_args

from hookline.expressions.lexer import ExpressionError, tokens

Operator = OneOf["=", "!=", ">", ">=", "<", "<="]
OPERATORS: tuple[Operator, ...] = get_args(Operator)
FunctionName = OneOf["contains", "match", "length", "lowercase", "typeof"]
FUNCTIONS: dict[FunctionName, int] = {"contains": 2, "match": 2, "length": 1, "lowercase": 1, "typeof": 1}
"""Every function with the number of its arguments."""
CONDITIONS: frozenset[FunctionName] = frozenset({"contains", "match"})
"""The functions that are true or false; the others give a value to compare."""

Scalar: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A value written in the expression."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class Path:
    """A field, by the names that lead to it."""

    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language with its arguments."""

    name: FunctionName
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Two operands with an operator between them."""

    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class All:
    """Conditions joined by ``and``, at least two."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """Conditions joined by ``or``, at least two."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    term: Node


Node: TypeAlias = Literal | Path | Call | Compare | All | Any | Not


def is_condition(node: Node) -> bool:
    """Return whether the node may stand where true or false is wanted; a field counts as true when it holds
    ``true``."""
    match node:
        case Literal(value):
            return isinstance(value, bool)
        case Call(name, _):
            return name in CONDITIONS
        case _:
            return True


def paths_in(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield the parts of every path of a tree, from left to right."""
    match node:
        case Path(parts):
            yield parts
        case Call(_, terms) | All(terms) | Any(terms):
            for term in terms:
                yield from paths_in(term)
        case Compare(_, left, right):
            yield from paths_in(left)
            yield from paths_in(right)
        case Not(term):
            yield from paths_in(term)


def parse_path(text: str) -> tuple[str, ...]:
    """Return the parts of a path; raise ExpressionError for anything that is not exactly one path."""
    first, *rest = tokens(text)
    if first.kind != "name":
        raise ExpressionError("expected a path such as properties.card", first.column)
    if rest[0].kind != "end":
        sentence = f"unexpected {rest[0].written!r}; write a backslash before a blank or sign that is part of a name,"
        raise ExpressionError(sentence, rest[0].column)
    parts: tuple[str, ...] = first.value
    return parts
