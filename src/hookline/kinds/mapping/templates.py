"""Text made of an event: templates, and replacing one text by another. No regular expression comes from a document or
an event, and both are linear in what they read and make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any as Json
from typing import NamedTuple

from hookline.kinds.mapping.bounds import Work
from hookline.kinds.mapping.javascript import BLANKS, MISSING, case_folds, has_surrogate, text_of, units, whole
from hookline.kinds.mapping.paths import Keys, Resolve, keys_of, reader

Piece = str | Keys
"""Of a template: text as it is, or the keys of a path whose value stands there."""


class NestedPlaceholder(ValueError):
    """A placeholder in whose path another one stands."""


def pieces_of(template: str) -> list[Piece]:
    """Take a template apart. Three braces count before two, as they do for the oracle; both give the value as it is.

    Raises NestedPlaceholder, for a path that an event could write: ``{{ {{{properties.name}}} }}``.
    """
    triple = list(_placeholders(template, 3))
    if not triple:
        return _pieces(template, _placeholders(template, 2))
    # For the second look, one character stands for each placeholder of the first; braces may meet around it.
    used = set(template)
    mark = next(character for character in map(chr, range(0xE000, 0x110000)) if character not in used)
    outside = _pieces(template, iter(triple))
    marked = "".join([piece if isinstance(piece, str) else mark for piece in outside])
    paths = iter([piece for piece in outside if not isinstance(piece, str)])
    pieces: list[Piece] = []
    for piece in _pieces(marked, _placeholders(marked, 2)):
        if isinstance(piece, str):
            before, *rest = piece.split(mark)
            pieces.append(before)
            for after in rest:
                pieces += (next(paths), after)
        elif any(mark in key for key in piece):
            raise NestedPlaceholder
        else:
            pieces.append(piece)
    return [piece for piece in pieces if piece != ""]


class _Placeholder(NamedTuple):
    start: int
    end: int
    path: str


def _placeholders(text: str, braces: int) -> Iterator[_Placeholder]:
    """Find what stands between so many braces and has no closing one in it, from left to right."""
    opening, closing = "{" * braces, "}" * braces
    at = 0
    while (end := text.find("}", at)) >= 0:
        start = text.find(opening, at, max(end - 1, at))
        if start >= 0 and text.startswith(closing, end):
            yield _Placeholder(start, end + braces, text[start + braces : end].strip(BLANKS))
            at = end + braces
        else:
            at = end + 1


def _pieces(text: str, placeholders: Iterator[_Placeholder]) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for placeholder in placeholders:
        pieces += (text[at : placeholder.start], keys_of(placeholder.path))
        at = placeholder.end
    pieces.append(text[at:])
    return [piece for piece in pieces if piece != ""]


def renderer(pieces: list[Piece]) -> Resolve:
    """Return a function that gives the text of a template."""
    texts = [piece if isinstance(piece, str) else "" for piece in pieces]
    readers = [(place, _reader_in_template(piece)) for place, piece in enumerate(pieces) if not isinstance(piece, str)]
    constant_size = sum(map(len, texts))

    def render(payload: Json, work: Work) -> Json:
        filled = texts.copy()
        size = constant_size
        for place, read_value in readers:
            value = read_value(payload, work)
            if value.__class__ is not str:
                value = text_of(value, work)
            size += len(value)
            filled[place] = value
        work.characters(size)
        text = "".join(filled)
        return text if text.isascii() else whole(text)

    return render


def _reader_in_template(keys: Keys) -> Resolve:
    if keys:
        return reader(keys)
    return lambda payload, work: {} if payload is MISSING else payload


class Replacement(NamedTuple):
    """One text to look for and what to put in its place. A dollar sign before ``&``, a quote of either slant or another
    dollar sign means there what it does in JavaScript."""

    pattern: str
    replacement: str
    ignore_case: bool
    everywhere: bool

    def compile(self) -> Callable[[str, Work], str]:
        """Return a function that replaces."""
        if has_surrogate(self.pattern):  # half a pair: it is found within pairs too
            by_units = self._compile(units(self.pattern))
            return lambda text, work: whole(by_units(units(text), work))
        replace = self._compile(self.pattern)
        return lambda text, work: whole(replace(text, work))

    def _compile(self, pattern: str) -> Callable[[str, Work], str]:
        substitutes = _substitutes(self.replacement)
        constant = all(substitute not in _FROM_TEXT for substitute in substitutes)
        if constant and not self.ignore_case:
            return self._compile_plain(pattern, "".join(substitutes))
        folds = case_folds() if self.ignore_case else {}
        wanted = pattern.translate(folds)

        def replace(text: str, work: Work) -> str:
            work.characters(len(text))
            searched = text.translate(folds) if folds else text
            made: list[str] = []
            at = 0
            while (start := searched.find(wanted, at)) >= 0:
                end = start + len(wanted)
                made.append(text[at:start])
                for substitute in substitutes:
                    made.append(_substitute(substitute, text, start, end, work))
                at = end
                if not self.everywhere:
                    break
            made.append(text[at:])
            return "".join(made)

        return replace

    def _compile_plain(self, pattern: str, replacement: str) -> Callable[[str, Work], str]:
        times = -1 if self.everywhere else 1
        grows = max(len(replacement) - len(pattern), 0)

        def replace(text: str, work: Work) -> str:
            work.characters(len(text) + (grows and grows * text.count(pattern)))
            return text.replace(pattern, replacement, times)

        return replace


_MATCH, _BEFORE, _AFTER = _FROM_TEXT = ("$&", "$`", "$'")


def _substitutes(replacement: str) -> list[str]:
    """Take a replacement apart: text as it is, and the three signs for parts of the text that is searched."""
    found: list[str] = []
    at = 0
    while (sign := replacement.find("$", at)) >= 0:
        two = replacement[sign : sign + 2]
        found.append(replacement[at:sign])
        found.append("$" if two == "$$" else two if two in _FROM_TEXT else "$")
        at = sign + (2 if two == "$$" or two in _FROM_TEXT else 1)
    found.append(replacement[at:])
    return [part for part in found if part]


def _substitute(substitute: str, text: str, start: int, end: int, work: Work) -> str:
    # The sizes are counted before the parts are taken: a text of n places replaced by itself has n times its length.
    if substitute == _MATCH:
        work.characters(end - start)
        return text[start:end]
    if substitute == _BEFORE:
        work.characters(start)
        return text[:start]
    if substitute == _AFTER:
        work.characters(len(text) - end)
        return text[end:]
    work.characters(len(substitute))
    return substitute
