"""Writing a tree as text that parses to the same tree."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from hookline.expressions.parse import RESERVED
from hookline.expressions.tree import All, Any, Call, Compare, Literal, Node, Not, Path

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
