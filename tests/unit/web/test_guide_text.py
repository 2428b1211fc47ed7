"""Set-up guides, from the little Markdown they are written in."""

from __future__ import annotations

from hookline.kinds.catalog import kinds
from hookline.web.guide_text import Block, Piece, blocks_of


def plain(text: str) -> list[Piece]:
    """Words without anything to them."""
    return [Piece("text", text)]


def test_headings_paragraphs_lists_and_code() -> None:
    """Lines go on until something else begins; a list is one block with its items."""
    guide = (
        "## Set up\nOne line\ngoes on.\n\nAnother.\n1. First\n   goes on\n2. Second\n- Dot\n```sh\na  b\n# c\n```\nEnd"
    )
    assert blocks_of(guide) == [
        Block("heading", [plain("Set up")], 2),
        Block("paragraph", [plain("One line goes on.")]),
        Block("paragraph", [plain("Another.")]),
        Block("numbers", [plain("First goes on"), plain("Second")], 1),
        Block("bullets", [plain("Dot")]),
        Block("code", [[Piece("code", "a  b\n# c")]]),
        Block("paragraph", [plain("End")]),
    ]


def test_words_with_something_to_them() -> None:
    """Code, strong words, and links to other sites; any other address stays text."""
    (block,) = blocks_of("Use `a*b`, **now**, [here](https://example.com/x) not [there](javascript:alert(1)) <b>")
    assert block.entries[0] == [
        Piece("text", "Use "),
        Piece("code", "a*b"),
        Piece("text", ", "),
        Piece("strong", "now"),
        Piece("text", ", "),
        Piece("link", "here", "https://example.com/x"),
        Piece("text", " not [there](javascript:alert(1)) <b>"),
    ]


def test_what_is_not_finished_is_shown_all_the_same() -> None:
    """Fences without an end, nothing at all."""
    assert blocks_of("```\nx") == [Block("code", [[Piece("code", "x")]])]
    assert blocks_of("") == []


def test_the_guides_that_come_with_hookline_are_understood() -> None:
    """Every block has a kind that the template knows, and no mark of Markdown is left over."""
    for kind in kinds().values():
        blocks = blocks_of(kind.guide)
        assert {block.kind for block in blocks} <= {"heading", "paragraph", "numbers", "bullets", "code", "table"}
        cells = [cell.pieces for b in blocks if b.kind == "table" for row in b.entries for cell in row]
        pieces = [p for each in (*cells, *(e for b in blocks if b.kind != "table" for e in b.entries)) for p in each]
        assert not [p for p in pieces if p.kind == "text" and ("`" in p.text or "*" in p.text)]
