"""A set-up guide's Markdown as parts for a template: headings, paragraphs, lists and code; nothing becomes markup.

What is not understood stays as it was written. Guides come with packages, so they are as foreign as any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LINE = re.compile(r"(?P<heading>#{1,6}) +(?P<title>.+)|(?P<bullet>[-*]|\d{1,3}\.) +(?P<item>.+)")
_GO_ON = ("paragraph", "numbers", "bullets")
_PIECE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?://[^\s)]+)\)")


class Piece(NamedTuple):
    """Some words; ``kind`` is ``text``, ``code``, ``strong`` or ``link``, which has an address."""

    kind: str
    text: str
    href: str = ""


class Block(NamedTuple):
    """``kind`` is ``heading``, ``paragraph``, ``numbers``, ``bullets`` or ``code``; lists have an entry per item."""

    kind: str
    entries: Sequence[Sequence[Piece]]


def blocks_of(markdown: str) -> list[Block]:
    """Return the guide, block by block."""
    found: list[Block] = []
    kind, texts = "", [""]
    for next_kind, text in [*_lines(markdown), ("", "")]:
        if next_kind == "more" and kind in _GO_ON:
            texts[-1] += f" {text}"
            continue
        begun = "paragraph" if next_kind == "more" else next_kind
        if begun != kind or begun == "heading":
            if kind:
                found.append(_block(kind, texts))
            kind, texts = begun, []
        texts.append(text)
    return found


def _lines(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield each line with what it belongs to; ``more`` goes on with the line before it."""
    fenced = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            if fenced:
                yield "", ""
        elif fenced:
            yield "code", line
        else:
            yield _kind_of(line)


def _kind_of(line: str) -> tuple[str, str]:
    if not line.strip():
        return "", ""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        return "more", line.strip()
    if found["heading"]:
        return "heading", found["title"]
    return ("bullets" if found["bullet"] in "-*" else "numbers"), found["item"]


def _block(kind: str, texts: Sequence[str]) -> Block:
    if kind == "code":
        return Block("code", [[Piece("code", "\n".join(texts))]])
    return Block(kind, [list(_pieces(text)) for text in texts])


def _pieces(text: str) -> Iterator[Piece]:
    end = 0
    for found in _PIECE.finditer(text):
        if found.start() > end:
            yield Piece("text", text[end : found.start()])
        code, strong, label, href = found.groups()
        yield Piece("code", code) if code else Piece("strong", strong) if strong else Piece("link", label, href)
        end = found.end()
    if end < len(text):
        yield Piece("text", text[end:])
