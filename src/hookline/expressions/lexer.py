"""An expression's text as tokens, each with its column. One pass, linear in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isinf
from typing import Any, Literal, NamedTuple

TEXT_CHARACTERS_MAX = 4_096

Kind = Literal["text", "number", "name", "sign", "end"]


class Token(NamedTuple):
    """One token: ``value`` is what a literal stands for, or the parts of a dotted name."""

    kind: Kind
    written: str
    value: Any
    column: int


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens and an ``end``; raise ExpressionError where no token begins."""
    if len(text) > TEXT_CHARACTERS_MAX:
        sentence = f"the expression is longer than {TEXT_CHARACTERS_MAX} characters; shorten it"
        raise ExpressionError(sentence, TEXT_CHARACTERS_MAX + 1)
    at = 0
    while at < len(text):
        found = _TOKEN(text, at)
        if found is None:
            raise _nothing_begins(text, at)
        if found.lastgroup != "space":
            yield _token(found, at + 1)
        at = found.end()
    yield Token("end", "", None, len(text) + 1)


def parts_of(written: str) -> tuple[str, ...]:
    """Return the parts of a dotted name; a backslash makes the next character part of the name."""
    return tuple(_ESCAPED.sub(r"\1", part) for part in _PART(written))


_NAME = r"(?:[^\W\d]|[$]|\\.)(?:[\w$-]|\\.)*(?:\.(?:[\w$-]|\\.)+)*"
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w$]))"
    r'|(?P<text>"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')'
    rf"|(?P<name>{_NAME})"
    r"|(?P<sign>!=|>=|<=|[=><!(),])",
    re.DOTALL,
).match
_PART = re.compile(r"(?:[^.\\]|\\.)+", re.DOTALL).findall
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", "\\": "\\", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SURROGATES = range(0xD800, 0xE000)


def _token(found: re.Match[str], column: int) -> Token:
    written = found[0]
    match found.lastgroup:
        case "number":
            return Token("number", written, _number(written, column), column)
        case "text":
            return Token("text", written, _unescaped(written, column), column)
        case "name":
            return Token("name", written, parts_of(written), column)
        case _:
            return Token("sign", written, None, column)


def _number(written: str, column: int) -> int | float:
    value = float(written) if any(mark in written for mark in ".eE") else int(written)
    if isinstance(value, float) and isinf(value):
        raise ExpressionError(f"the number {written} is too large; write a smaller one", column)
    return value


def _unescaped(written: str, column: int) -> str:
    def character(escape: re.Match[str]) -> str:
        code = escape[1]
        known = _ESCAPES.get(code)
        if known is None and len(code) == 5 and int(code[1:], 16) not in _SURROGATES:
            known = chr(int(code[1:], 16))
        if known is None:
            sentence = f"there is no escape \\{code}; write \\\\ for a backslash, or the character itself,"
            raise ExpressionError(sentence, column + 1 + escape.start())
        return known

    return _ESCAPE.sub(character, written[1:-1])


def _nothing_begins(text: str, at: int) -> ExpressionError:
    wrong = text[at]
    if wrong in "\"'":
        return ExpressionError(f"expected a closing {wrong} for the text that begins", at + 1)
    if wrong == ".":
        return ExpressionError("expected a name on both sides of '.'", at + 1)
    if wrong.isdigit() or wrong == "-":
        return ExpressionError("expected a number such as 5, -2 or 0.5", at + 1)
    if wrong in "&|":
        return ExpressionError(f"expected 'and' or 'or' instead of {wrong!r}", at + 1)
    return ExpressionError(f"unexpected {wrong!r}; write a backslash before it if it belongs to a name,", at + 1)


class ExpressionError(ValueError):
    """An expression that cannot be read; the message says what to do and ends with the column (from 1)."""

    def __init__(self, sentence: str, column: int) -> None:
        super().__init__(f"{sentence} at column {column}")
        self.column = column
