"""Parse: an expression's text becomes a tree, or an error with a column and a sentence; and a tree becomes text
again.

expression  = conjunction {"or" conjunction}
conjunction = negation {"and" negation}
negation    = ("not" | "!") negation | comparison
comparison  = operand [("=" | "!=" | ">" | ">=" | "<" | "<=") operand]
operand     = "(" expression ")" | text | number | "true" | "false" | "null" | path | function "(" … ")"
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Sequence

from hookline.expressions.lexer import ExpressionError, Token, tokens
from hookline.expressions.tree import (
    FUNCTIONS,
    OPERATORS,
    All,
    Any,
    Call,
    Compare,
    Literal,
    Node,
    Not,
    Operator,
    Path,
    is_condition,
)

DEPTH_MAX = 32
"""Levels of parentheses, functions and ``not`` in each other; evaluation recurses no deeper."""

WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
RESERVED = frozenset({"and", "or", "not", *WORDS, *FUNCTIONS})
"""Words that a path can only begin with after a backslash."""

_OPERATORS: dict[str, Operator] = {operator: operator for operator in OPERATORS}
_Rule = Callable[[], Node]


def parse(text: str, fields: Collection[str] | None = None) -> Node:
    """Return the tree of a condition; raise ExpressionError. ``fields`` are the names a path may begin with,
    None any."""
    return _Parser(text, fields).whole()


class _Parser:
    def __init__(self, text: str, fields: Collection[str] | None) -> None:
        self._tokens = list(tokens(text))
        self._fields = fields
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        if len(self._tokens) == 1:
            raise ExpressionError("expected a condition such as type = 'track'", 1)
        node = self._condition(self._expression)
        if self._next.kind != "end":
            raise self._unexpected("'and', 'or' or the end")
        return node

    def _expression(self) -> Node:
        return self._joined("or", Any, lambda: self._joined("and", All, self._negation))

    def _joined(self, word: str, make: type[All] | type[Any], inner: _Rule) -> Node:
        start = self._next
        terms = [inner()]
        while self._next.written == word:
            if len(terms) == 1:
                self._must_be_condition(terms[0], start)
            self._take()
            terms.append(self._condition(inner))
        return terms[0] if len(terms) == 1 else make(tuple(terms))

    def _negation(self) -> Node:
        if self._next.written not in ("not", "!"):
            return self._comparison()
        self._take()
        self._enter()
        node = Not(self._condition(self._negation))
        self._depth -= 1
        return node

    def _comparison(self) -> Node:
        left = self._operand()
        operator = _OPERATORS.get(self._next.written)
        if operator is None:
            return left
        self._take()
        node = Compare(operator, left, self._operand())
        if self._next.written in _OPERATORS:
            raise ExpressionError("comparisons cannot be chained; write 'and' between two of them", self._next.column)
        return node

    def _operand(self) -> Node:
        token = self._next
        if token.written == "(":
            self._take()
            self._enter()
            node = self._expression()
            self._expect(")", f"for the '(' at column {token.column}")
            self._depth -= 1
            return node
        if token.kind in ("text", "number"):
            return Literal(self._take().value)
        if token.kind == "name":
            return self._named(self._take())
        raise self._no_value()

    def _named(self, token: Token) -> Node:
        if token.written in WORDS:
            return Literal(WORDS[token.written])
        if token.written in FUNCTIONS:
            return self._call(token)
        if token.written in ("and", "or", "not"):
            self._at -= 1
            raise self._no_value()
        if self._next.written == "(":
            known = ", ".join(FUNCTIONS)
            raise ExpressionError(f"there is no function {token.written!r} (there are {known})", token.column)
        if self._fields is not None and token.value[0] not in self._fields:
            raise ExpressionError(_unknown_field(token.value[0], self._fields), token.column)
        return Path(token.value)

    def _call(self, token: Token) -> Node:
        name = next(each for each in FUNCTIONS if each == token.written)
        self._expect("(", f"after {name!r}")
        self._enter()
        arguments = [self._expression()]
        while self._next.written == ",":
            self._take()
            arguments.append(self._expression())
        if len(arguments) != FUNCTIONS[name]:
            wanted = "two arguments" if FUNCTIONS[name] == 2 else "one argument"
            raise ExpressionError(f"expected {wanted} for {name!r}, found {len(arguments)},", token.column)
        self._expect(")", f"after the arguments of {name!r}")
        self._depth -= 1
        if name == "match" and not (isinstance(arguments[1], Literal) and isinstance(arguments[1].value, str)):
            raise ExpressionError("the pattern of 'match' must be text in quotes, such as 'Order *',", token.column)
        return Call(name, tuple(arguments))

    # what is wanted and what is there

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._next
        self._at += 1
        return token

    def _expect(self, sign: str, why: str) -> None:
        if self._next.written != sign:
            raise self._unexpected(f"'{sign}' {why}")
        self._take()

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            column = self._tokens[self._at - 1].column
            raise ExpressionError(f"the expression is nested deeper than {DEPTH_MAX} levels; flatten it", column)

    def _condition(self, rule: _Rule) -> Node:
        start = self._next
        node = rule()
        self._must_be_condition(node, start)
        return node

    def _must_be_condition(self, node: Node, start: Token) -> None:
        if not is_condition(node):
            raise ExpressionError("expected a condition; compare this value with another one", start.column)

    def _unexpected(self, wanted: str) -> ExpressionError:
        found = "the end" if self._next.kind == "end" else self._next.written
        return ExpressionError(f"expected {wanted}, found {found},", self._next.column)

    def _no_value(self) -> ExpressionError:
        """Name what stands before the gap, as that is where a person looks."""
        if self._at == 0:
            return ExpressionError(f"expected a value before {self._next.written!r}", self._next.column)
        before = self._tokens[self._at - 1]
        return ExpressionError(f"expected a value after {before.written!r}", before.column)


def _unknown_field(name: str, fields: Collection[str]) -> str:
    close = difflib.get_close_matches(name, fields, n=1, cutoff=0.6)
    return (
        f"there is no field {name!r} ({f'did you mean {close[0]!r}?' if close else 'there are ' + ', '.join(fields)})"
    )


_LEVELS: tuple[type[Node], ...] = (Any, All, Not, Compare)
"""From loosest to tightest; a node inside of a tighter one is put in parentheses."""
_OPERAND = len(_LEVELS)
_ODD_START = re.compile(r"^(?![^\W\d]|[$])")
_ODD = re.compile(r"([^\w$-])")


def write(node: Node) -> str:
    """Return the text of an expression."""
    match node:
        case Literal(value):
            return json.dumps(value, ensure_ascii=False)
        case Path(parts):
            return write_path(parts)
        case Call(name, arguments):
            return f"{name}({', '.join(map(write, arguments))})"
        case Compare(operator, left, right):
            return f"{_within(left, _OPERAND)} {operator} {_within(right, _OPERAND)}"
        case Not(term):
            return f"not {_within(term, _level(node))}"
        case All(terms):
            return " and ".join(_within(term, _level(node) + 1) for term in terms)
        case Any(terms):
            return " or ".join(_within(term, _level(node) + 1) for term in terms)


def write_path(parts: Sequence[str]) -> str:
    """Return a dotted name; a backslash before each character that a name cannot have by itself."""
    escaped = [_ODD.sub(r"\\\1", part) for part in parts]
    written = ".".join(escaped)
    if written in RESERVED or _ODD_START.match(parts[0]):
        return written if written.startswith("\\") else "\\" + written
    return written


def _within(node: Node, level: int) -> str:
    return write(node) if _level(node) >= level else f"({write(node)})"


def _level(node: Node) -> int:
    return _LEVELS.index(type(node)) if isinstance(node, _LEVELS) else _OPERAND
