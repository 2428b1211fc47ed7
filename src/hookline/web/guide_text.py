"""A set-up guide's Markdown as parts for a template: headings, paragraphs, lists, tables, code. Nothing becomes markup.

What is not understood stays as it was written. Guides come with packages, so they are as foreign as any text. The
documentation is our own: there, links to other pages are resolved too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_LINE = re.compile(r"(?P<heading>#{1,6}) +(?P<title>.+)|(?P<bullet>[-*]|\d{1,3}\.) +(?P<item>.+)")
_GO_ON = ("paragraph", "numbers", "bullets")
_PIECE = re.compile(
    r"(?<!`)(?:`([^`]+)`|`` ?(.+?) ?``)(?!`)|\*\*([^*]+)\*\*|\[([^\]]+)\]\((https?://[^\s)]+)\)|\*([^*\s][^*]*)\*"
)
_OWN_PIECE = re.compile(
    r"(?<!`)(?:`([^`]+)`|`` ?(.+?) ?``)(?!`)|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^\s)]+)\)|\*([^*\s][^*]*)\*"
)
_CELL_END = re.compile(r"(?<!\\)\|")
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^\s)]+)\)")
_UNSEEN = re.compile(r"<!--.*-->|<a id=\"[\w-]*\"></a>")
"""Comments and anchors."""
_NAME = re.compile(r"[\w.-]+")
_LISTS = ("numbers", "bullets")
_NO_ANCHOR = re.compile(r"[^\w\- ]")

Link = Callable[[str], str]
"""Returns where a link leads, empty where it leads nowhere from here."""


class Piece(NamedTuple):
    """Some words; ``kind`` is ``text``, ``code``, ``strong``, ``em``, or ``link`` or ``picture`` with an address.

    Strong words may have ``pieces`` in place of a text. The last piece of a list's entry may be a list within it, of
    the kind ``bullets``; its ``pieces`` are its entries.
    """

    kind: str
    text: str
    href: str = ""
    pieces: tuple[Piece, ...] = ()


class Block(NamedTuple):
    """``kind`` is ``heading``, ``paragraph``, ``numbers``, ``bullets``, ``table``, ``code`` or ``picture``.

    Lists have an entry per item, tables one per row, a cell being a piece of the kind ``cell`` whose ``pieces`` it has.
    ``number`` is the level of a heading, and the first number of a list; ``repeat`` counts headings of the same words
    before this one.
    """

    kind: str
    entries: Sequence[Sequence[Piece]]
    number: int = 0
    repeat: int = 0

    @property
    def names(self) -> list[str]:
        """Return what each row of a table is about, if its first cell is a name in code, else an empty text."""
        firsts = [row[0].pieces for row in self.entries]
        return [
            cell[0].text if len(cell) == 1 and cell[0].kind == "code" and _NAME.fullmatch(cell[0].text) else ""
            for cell in firsts
        ]

    @property
    def anchor(self) -> str:
        """Return the name that links to this heading use."""
        words = "".join(piece.text for piece in self.entries[0]).lower()
        name = _NO_ANCHOR.sub("", words).strip().replace(" ", "-")
        return f"{name}-{self.repeat}" if self.repeat else name


def blocks_of(markdown: str, link: Link | None = None) -> list[Block]:
    """Return the guide, block by block; with ``link``, which only our own pages have, links between pages too."""
    found: list[Block] = []
    kind, texts, number = "", [""], 0
    for next_kind, text, next_number in [*_lines(markdown), ("", "", 0)]:
        if next_kind == "more" and kind in _GO_ON:
            texts[-1] += f" {text}"
            continue
        if next_kind == "within" and kind in _LISTS:
            texts[-1] += f"\n{text}"
            continue
        begun = {"more": "paragraph", "within": "bullets"}.get(next_kind, next_kind)
        if begun != kind or begun == "heading":
            if kind:
                found.append(_block(kind, texts, number, link))
            kind, texts, number = begun, [], next_number
        texts.append(text)
    return _told_apart(found)


def _told_apart(blocks: list[Block]) -> list[Block]:
    seen = Counter[str]()
    for at, block in enumerate(blocks):
        if block.kind == "heading":
            name = block.anchor
            blocks[at] = block._replace(repeat=seen[name])
            seen[name] += 1
    return blocks


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
    if _PICTURE.fullmatch(text):
        return "picture", text, 0
    if text.startswith("|") and text.endswith("|") and len(text) > 1:
        return "table", text[1:-1], 0
    found = _LINE.fullmatch(text)
    if found is None:
        return "more", text, 0
    if found["heading"]:
        return "heading", found["title"], len(found["heading"])
    if found["bullet"] in "-*":
        return "within" if line.startswith("  ") else "bullets", found["item"], 0
    return "numbers", found["item"], int(found["bullet"][:-1])


def _block(kind: str, texts: Sequence[str], number: int, link: Link | None) -> Block:
    if kind == "code":
        return Block("code", [[Piece("code", "\n".join(texts))]])
    if kind == "table":
        rows = [[cell.strip().replace("\\|", "|") for cell in _CELL_END.split(text)] for text in texts]
        shown = [row for row in rows if any(cell.strip("-: ") for cell in row)]
        return Block("table", [[Piece("cell", "", "", tuple(_pieces(cell, link))) for cell in row] for row in shown])
    if kind == "picture":  # one that a guide names would be asked of a foreign server: its words stay
        found = [each.groups() for each in map(_PICTURE.fullmatch, texts) if each]
        linked = [(words, link(target) if link else "") for words, target in found]
        return Block("picture", [[Piece("picture" if href else "text", words, href)] for words, href in linked])
    return Block(kind, [_entry(text, link) for text in texts], number)


def _entry(text: str, link: Link | None) -> list[Piece]:
    """Return the pieces of a paragraph, or of an item with the list that stands within it."""
    own, *within = text.split("\n")
    items = tuple(Piece("item", "", "", tuple(_pieces(each, link))) for each in within)
    return [*_pieces(own, link), *([Piece("bullets", "", "", items)] if items else [])]


def _pieces(text: str, link: Link | None) -> Iterator[Piece]:
    end = 0
    for found in (_PIECE if link is None else _OWN_PIECE).finditer(text):
        if found.start() > end:
            yield Piece("text", text[end : found.start()])
        code, other_code, strong, label, target, emphasis = found.groups()
        if code or other_code:
            yield Piece("code", code or other_code)
        elif strong:
            within = tuple(_pieces(strong, link))
            is_plain = [piece.kind for piece in within] == ["text"]
            yield Piece("strong", strong) if is_plain else Piece("strong", "", "", within)
        elif label:
            href = target if link is None else link(target)
            yield Piece("link", label.replace("`", ""), href) if href else Piece("text", label.replace("`", ""))
        else:
            yield Piece("em", emphasis)
        end = found.end()
    if end < len(text):
        yield Piece("text", text[end:])
