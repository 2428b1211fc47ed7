"""The pattern of ``match``: text in which ``*`` stands for any characters, over the whole value, in linear time."""

from __future__ import annotations

import re

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
