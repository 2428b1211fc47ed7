"""The documentation as pages: every page of the list, its title, and where its links lead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.control.pages import DOCS
from hookline.web.docs import BY_PATH, HOME, INDEX, PAGES, DocPage, blocks_of_page, doc_of, text_of
from hookline.web.guide_text import Block, Piece

DOCS_FOLDER = Path(__file__).parents[3] / "docs"


def pieces(blocks: list[Block]) -> Iterator[Piece]:
    """Yield all words of a page, those of cells too."""
    for block in blocks:
        for entry in block.entries:
            for piece in entry:
                yield piece
                yield from piece.pieces


@pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.path or "home")
def test_every_page_is_understood(page: DocPage) -> None:
    """Its title is the one of the list, its links to other pages lead to headings they have, no markup is left."""
    blocks = blocks_of_page(page)
    assert text_of(page.path or HOME).splitlines()[0] == f"# {page.title}"
    words = [piece for piece in pieces(blocks) if piece.kind == "text"]
    assert [piece.text for piece in words if "](" in piece.text or "**" in piece.text or "```" in piece.text] == []
    for piece in pieces(blocks):
        path, _, anchor = piece.href.partition("#")
        if piece.kind != "link" or path.startswith("http"):
            continue
        there = {"/docs": INDEX, "": page}.get(path) or BY_PATH[path.removeprefix("/docs/")]
        if anchor and there.path != "errors":
            assert anchor in {block.anchor for block in blocks_of_page(there) if block.kind == "heading"}, piece


def test_the_home_page_leads_to_every_page() -> None:
    """A page that nobody is led to is not found."""
    led_to = {piece.href.partition("#")[0] for piece in pieces(blocks_of_page(INDEX)) if piece.kind == "link"}
    assert {page.href for page in PAGES} - led_to == set()


def test_every_page_of_the_folder_is_served_or_of_the_repository_alone() -> None:
    """A page that is written is listed, or is one that only makes sense beside the code."""
    written = {str(file.relative_to(DOCS_FOLDER).with_suffix("")) for file in DOCS_FOLDER.rglob("*.md")}
    others = {path for path in written if not path.startswith(("reports/", "decisions/"))} - set(BY_PATH) - {HOME}
    assert others == {
        "architecture", "development", "fuzzing", "performance", "simulation", "threat-model", "tour"
    }  # fmt: skip


def test_screens_name_pages_that_there_are() -> None:
    """A page that was renamed would else lead to the list."""
    assert set(DOCS.values()) - set(BY_PATH) == set()
    assert doc_of("nobody-knows.html", "", DOCS) is INDEX
    assert doc_of("destination/filters.html", "destinations", DOCS).path == "filters"
    assert doc_of("another.html", "deletion", DOCS).path == "privacy"
