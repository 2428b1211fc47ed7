"""A path by itself, as lists of properties hold them: ``properties.card`` or ``properties.order\\ id``."""

from __future__ import annotations

from hookline.expressions.error import ExpressionError
from hookline.expressions.lexer import tokens


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
