"""A set-up guide's Markdown as parts for a template: headings, paragraphs, lists, tables, code. Nothing becomes markup.

What is not understood stays as it was written. Guides come with packages, so they are as foreign as any text. The
documentation is our own: there, links to other pages are resolved too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_LINE = re.compile(r"(?P<heading>#{1,6}) +(?P<title>.+)|(?P<bullet>[-*]|\d{1,3}\.) +(?P<item>.+)")
_GO_ON = ("paragraph", "numbers", "bullets")
_PIECE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?://[^\s)]+)\)|\*([^*\s][^*]*)\*")
_OWN_PIECE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^\s)]+)\)|\*([^*\s][^*]*)\*")
_CELL_END = re.compile(r"(?<!\\)\|")
_UNSEEN = re.compile(r"<!--.*-->|<a id=\"[\w-]*\"></a>|!\[[^\]]*\]\([^)]*\)")
"""Comments, anchors and pictures: what is shipped has no pictures."""
_NO_ANCHOR = re.compile(r"[^\w\- ]")

Link = Callable[[str], str]
"""Returns where a link leads, empty where it leads nowhere from here."""


class Piece(NamedTuple):
    """Some words; ``kind`` is ``text``, ``code``, ``strong``, ``em`` or ``link``, which has an address."""

    kind: str
    text: str
    href: str = ""
    pieces: tuple[Piece, ...] = ()


class Block(NamedTuple):
    """``kind`` is ``heading``, ``paragraph``, ``numbers``, ``bullets``, ``table`` or ``code``.

    Lists have an entry per item, tables one per row, a cell being a piece of the kind ``cell`` whose ``pieces`` it has.
    ``number`` is the level of a heading, and the first number of a list.
    """

    kind: str
    entries: Sequence[Sequence[Piece]]
    number: int = 0

    @property
    def anchor(self) -> str:
        """Return the name that links to this heading use."""
        words = "".join(piece.text for piece in self.entries[0]).lower()
        return _NO_ANCHOR.sub("", words).strip().replace(" ", "-")


def blocks_of(markdown: str, link: Link | None = None) -> list[Block]:
    """Return the guide, block by block; with ``link``, which only our own pages have, links between pages too."""
    found: list[Block] = []
    kind, texts, number = "", [""], 0
    for next_kind, text, next_number in [*_lines(markdown), ("", "", 0)]:
        if next_kind == "more" and kind in _GO_ON:
            texts[-1] += f" {text}"
            continue
        begun = "paragraph" if next_kind == "more" else next_kind
        if begun != kind or begun == "heading":
            if kind:
                found.append(_block(kind, texts, number, link))
            kind, texts, number = begun, [], next_number
        texts.append(text)
    return found


def _lines(markdown: str) -> Iterator[tuple[str, str, int]]:
    """Yield each line with what it belongs to; ``more`` goes on with the line before it."""
    fenced: int | None = None
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = len(line) - len(line.lstrip()) if fenced is None else None
            if fenced is not None:
                yield "", "", 0
        elif fenced is not None:
            yield "code", line[fenced:], 0  # the fence of an item of a list stands in as far as the item does
        else:
            yield _kind_of(line)


def _kind_of(line: str) -> tuple[str, str, int]:
    text = line.strip()
    if not text or _UNSEEN.fullmatch(text):
        return "", "", 0
    if text.startswith("|") and text.endswith("|") and len(text) > 1:
        return "table", text[1:-1], 0
    found = _LINE.fullmatch(text)
    if found is None:
        return "more", text, 0
    if found["heading"]:
        return "heading", found["title"], len(found["heading"])
    if found["bullet"] in "-*":
        return "bullets", found["item"], 0
    return "numbers", found["item"], int(found["bullet"][:-1])


def _block(kind: str, texts: Sequence[str], number: int, link: Link | None) -> Block:
    if kind == "code":
        return Block("code", [[Piece("code", "\n".join(texts))]])
    if kind == "table":
        rows = [[cell.strip().replace("\\|", "|") for cell in _CELL_END.split(text)] for text in texts]
        shown = [row for row in rows if any(cell.strip("-: ") for cell in row)]
        return Block("table", [[Piece("cell", "", "", tuple(_pieces(cell, link))) for cell in row] for row in shown])
    return Block(kind, [list(_pieces(text, link)) for text in texts], number)


def _pieces(text: str, link: Link | None) -> Iterator[Piece]:
    end = 0
    for found in (_PIECE if link is None else _OWN_PIECE).finditer(text):
        if found.start() > end:
            yield Piece("text", text[end : found.start()])
        code, strong, label, target, emphasis = found.groups()
        if code or strong:
            yield Piece("code", code) if code else Piece("strong", strong)
        elif label:
            href = target if link is None else link(target)
            yield Piece("link", label.replace("`", ""), href) if href else Piece("text", label.replace("`", ""))
        else:
            yield Piece("em", emphasis)
        end = found.end()
    if end < len(text):
        yield Piece("text", text[end:])
