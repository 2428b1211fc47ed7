"""The documentation as pages: every page of the list, its title, where its links lead; nothing that it says is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hookline.api.problem import TYPE_PREFIX
from hookline.control.pages import DOCS
from hookline.web import docs as module
from hookline.web.docs import (
    BY_PATH,
    DOC_KINDS,
    HOME,
    INDEX,
    KINDS,
    PAGES,
    DocPage,
    _rendered,
    blocks_of_page,
    contents_of,
    doc_of,
    pictures,
    text_of,
)
from hookline.web.guide_text import Block, Piece, blocks_of
from tests.unit.control.running import Running

ROOT = Path(__file__).parents[3]
DOCS_FOLDER = ROOT / "docs"
FOLDERS = ("clients", "deploy", "docs", "examples", "src")
WRITTEN = sorted([*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.md"))])
"""Every file of Markdown; git's own list is not in a copy of the files."""
EVERY_PAGE = pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.path or "home")
ORACLE = MarkdownIt("commonmark").enable("table")


def pieces(blocks: Sequence[Block]) -> Iterator[Piece]:
    """Yield all words of a page, those of cells and of lists within lists too."""
    for block in blocks:
        for entry in block.entries:
            yield from _within(entry)


def _within(entry: Sequence[Piece]) -> Iterator[Piece]:
    for piece in entry:
        yield piece
        yield from _within(piece.pieces)


def anchors(blocks: Sequence[Block]) -> set[str]:
    """Return what links to a part of a page may name: its headings, and rows that are about one name."""
    rows = {name for block in blocks if block.kind == "table" for name in block.names}
    return {block.anchor for block in blocks if block.kind == "heading"} | rows


@EVERY_PAGE
def test_every_page_is_understood(page: DocPage) -> None:
    """Its title is the one of the list, its links to other pages lead to headings they have, no markup is left."""
    blocks = blocks_of_page(page)
    assert text_of(page.path or HOME).splitlines()[0].replace("`", "") == f"# {page.title}"
    words = [piece for piece in pieces(blocks) if piece.kind in ("text", "strong", "em")]
    assert [piece.text for piece in words if re.search(r"\]\(|\*\*|`", piece.text)] == []
    for piece in pieces(blocks):
        path, _, anchor = piece.href.partition("#")
        if piece.kind != "link" or path.startswith("http"):
            continue
        there = {"/docs": INDEX, "": page}.get(path) or BY_PATH[path.removeprefix("/docs/")]
        assert not anchor or anchor in anchors(blocks_of_page(there)), piece


@EVERY_PAGE
def test_every_page_says_what_its_markdown_says(page: DocPage) -> None:
    """As another reader of Markdown understands it: the same words in the same order, the same code, as many items."""
    tokens = ORACLE.parse(text_of(page.path or HOME))
    blocks = blocks_of_page(page)
    assert "".join(_plain("".join(piece.text for piece in pieces(blocks)))) == _plain("".join(_said(tokens)))
    items = sum(len(block.entries) for block in blocks if block.kind in ("bullets", "numbers"))
    items += sum(piece.kind == "item" for piece in pieces(blocks))
    assert items == sum(token.type == "list_item_open" for token in tokens)


def _said(tokens: Sequence[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("text", "code_inline", "fence", "code_block"):
            yield token.content
        else:
            yield from _said(token.children or ())


def _plain(text: str) -> str:
    return re.sub(r"\s+|\\(?=\|)", "", text)


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_a_file_links_to_is_there(file: Path) -> None:
    """Every file and heading: also in the changelogs, the READMEs, and pages that are of the repository alone."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", file.read_text(), flags=re.DOTALL)
    lost = [
        f"{path}#{anchor}"
        for path, anchor in re.findall(r"\]\(([^)\s#]*)#?([^)\s]*)[^)]*\)", text)
        if "://" not in path and not _is_there((file.parent / path) if path else file, anchor)
    ]
    assert lost == []


def _is_there(file: Path, anchor: str) -> bool:
    if not anchor or not file.is_file():
        return file.exists() and not anchor
    return anchor in _anchors_of(file)


@cache
def _anchors_of(file: Path) -> set[str]:
    return anchors(blocks_of(file.read_text()))


def test_the_home_page_lists_every_page() -> None:
    """In the folder of its kind, under a heading, with what it is about: so each is one click away."""
    assert [kind.path for kind in DOC_KINDS] == list(KINDS)
    for kind in DOC_KINDS:
        listed = [page for _, pages in kind.groups for page in pages]
        assert [page.path for page in listed if page.kind != kind.path or not page.about] == []
        texts = [kind.about, *(page.about for page in listed)]
        assert [piece for text in texts for piece in text if piece.kind == "link"] == []
    assert len(BY_PATH) == len(PAGES)


def test_every_page_of_the_folder_is_served_or_of_the_repository_alone() -> None:
    """A page that is written is listed, or is one that only makes sense beside the code."""
    written = {str(file.relative_to(DOCS_FOLDER).with_suffix("")) for file in DOCS_FOLDER.rglob("*.md")}
    others = {path for path in written if not path.startswith(("reports/", "decisions/"))} - set(BY_PATH) - {HOME}
    assert others == {
        "architecture", "development", "fuzzing", "performance", "simulation", "support", "threat-model", "tour"
    }  # fmt: skip


def test_screens_name_pages_that_there_are() -> None:
    """A page that was renamed would else lead to the list."""
    assert set(DOCS.values()) - set(BY_PATH) == set()
    assert doc_of("nobody-knows.html", "", DOCS) is INDEX
    assert doc_of("destination/filters.html", "destinations", DOCS).path == "reference/filters"
    assert doc_of("another.html", "deletion", DOCS).path == "explanation/privacy"


def test_every_page_is_served(control: Running) -> None:
    """With what stands around it: its place among the others, its contents, its pictures."""
    for at, page in enumerate(PAGES):
        answer = control.call("GET", page.href, token=False)
        assert answer.status == 200, page.path
        assert f'href="{page.href}" aria-current="page"' in answer.text
        assert all(f'href="#{block.anchor}"' in answer.text for block in contents_of(page))
        assert at + 1 == len(PAGES) or f'rel="next" href="{PAGES[at + 1].href}"' in answer.text
        ids = re.findall(r'\bid="([^"]+)"', answer.text)
        assert sorted(ids) == sorted(set(ids)), page.path
    home = control.call("GET", "/docs", token=False).text
    assert [page.path for page in PAGES if f'href="{page.href}"' not in home] == []
    for name in pictures():
        assert control.call("GET", f"/docs/{name}", token=False).status == 200, name


def test_earlier_addresses_lead_on(control: Running) -> None:
    """Those of pages that have moved, and the one that every error names."""
    for earlier in ("settings", "concepts", "clients/spool", "clients/from-go", TYPE_PREFIX.split("/")[-1].strip("#")):
        answer = control.call("GET", f"/docs/{earlier}", token=False)
        assert answer.status == 308, earlier
        assert answer.headers["location"].endswith(f"/{earlier}")
        assert control.call("GET", answer.headers["location"], token=False).status == 200
    for unknown in ("nonsense", "tour/overview.md", "reference", "../README", "README"):
        assert control.call("GET", f"/docs/{unknown}", token=False).status == 404, unknown


def test_a_page_is_rendered_once(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is open to anybody, and a large one takes the API's own time; an address that is none is not kept."""
    _rendered.cache_clear()
    rendered: list[str] = []
    whole = module.render_doc
    monkeypatch.setattr(module, "render_doc", lambda doc: rendered.append(doc.path) or whole(doc))
    answers = [control.call("GET", f"/docs{path}", token=False) for path in ("", "/reference/api", "/nothing") * 3]
    assert [each.status for each in answers] == [200, 200, 404] * 3
    assert rendered == ["", "reference/api"]
    assert answers[1].text == answers[4].text == whole(BY_PATH["reference/api"])
    assert answers[0].headers["content-type"] == "text/html; charset=utf-8"
    assert _rendered.cache_info().currsize == 2


def test_all_pages_take_little_memory() -> None:
    """Each is kept as it is sent, so all of them together have a bound."""
    assert sum(len(_rendered(page.path)) for page in (INDEX, *PAGES)) < 3_000_000
