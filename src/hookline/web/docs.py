"""The documentation that comes with the package, as pages below ``/docs``; each screen leads to the one about it.

``docs/README.md`` is its home page and the one list of pages: what serves, searches or links to documentation reads
``PAGES`` here. ``scripts/docs_site.py`` writes the same pages as files.
"""

from __future__ import annotations

import gzip
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

import hookline
from hookline.web.guide_text import Block, Piece, blocks_of
from hookline.web.rendering import render_for_nobody

PACKAGE = Path(hookline.__file__).parent
FOLDERS = (PACKAGE / "docs", PACKAGE.parents[1] / "docs")
"""In an installed package, and in a checkout."""
KINDS = ("tutorials", "how-to", "reference", "explanation")
"""The folders of the pages that are served."""
HOME = "README"
"""The file of ``INDEX``: also what shows in a repository's folder."""
PICTURE_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
CONTENTS_MIN, CONTENTS_MAX = 3, 40
"""Headings of a page that are listed beside it: with more, only the higher ones."""


class DocPage(NamedTuple):
    """One page: its path below ``/docs`` and below ``docs/`` of the sources, and its title."""

    path: str
    title: str
    group: str
    about: Sequence[Piece] = ()
    """What its entry on the home page says of it."""

    @property
    def href(self) -> str:
        """Return where it is shown."""
        return f"/docs/{self.path}".rstrip("/")

    @property
    def kind(self) -> str:
        """Return its folder, which is one of ``KINDS``, or empty for the home page."""
        return self.path.partition("/")[0]


class DocKind(NamedTuple):
    """One of the four kinds: its title, what it is for, and its pages by group."""

    path: str
    title: str
    about: Sequence[Piece]
    groups: list[tuple[str, list[DocPage]]]


def text_of(path: str) -> str:
    """Return a page as it is written."""
    return _file(f"{path}.md").read_text(encoding="utf-8")


def _file(name: str) -> Path:
    return next(folder / name for folder in FOLDERS if (folder / name).exists())


def _kinds() -> list[DocKind]:
    """Read the home page: a heading for each kind, below it headings of groups, and an item for each page."""
    found: list[DocKind] = []
    title, group = "", ""
    about: Sequence[Piece] = ()
    for block in blocks_of(text_of(HOME), lambda target: target):
        words: Sequence[Piece] = block.entries[0]
        if block.kind == "heading":
            title, group = (_words(words), "") if block.number == 2 else (title, _words(words))
        elif block.kind == "paragraph":
            about = tuple(words)
        elif block.kind == "bullets":
            pages = [_entry(each, group or title) for each in block.entries]
            if pages[0].kind not in KINDS:
                continue
            if not found or found[-1].title != title:
                found.append(DocKind(pages[0].kind, title, about, []))
            found[-1].groups.append((group, pages))
    return found


def _entry(pieces: Sequence[Piece], group: str) -> DocPage:
    page, *about = pieces
    if about:
        about[0] = about[0]._replace(text=about[0].text.removeprefix(": "))
    return DocPage(page.href.removesuffix(".md"), page.text, group, tuple(about))


def _words(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


DOC_KINDS = _kinds()
PAGES = tuple(page for kind in DOC_KINDS for _, pages in kind.groups for page in pages)
BY_PATH = {each.path: each for each in PAGES}
INDEX = DocPage("", "Hookline documentation", "")


def doc_of(screen: str, here: str, docs: Mapping[str, str]) -> DocPage:
    """Return the page about a screen: of its template, else of the rail's entry it belongs to, else the list."""
    return BY_PATH.get(docs.get(screen) or docs.get(here) or "", INDEX)


@get("/docs", needs="open", sync_to_thread=False)
def list_docs() -> Response[bytes]:
    """Show the documentation's first page: what there is, by kind."""
    return Response(_rendered(INDEX.path), media_type="text/html")


@get("/docs/{path:path}", needs="open", sync_to_thread=False)
def show_doc(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[Any]:
    """Show one page of the documentation, one of its pictures, or what its search reads."""
    name = path.strip("/")
    if name in BY_PATH:
        return Response(_rendered(name), media_type="text/html")
    if name in pictures():
        return Response(pictures()[name].read_bytes(), media_type=PICTURE_TYPES[posixpath.splitext(name)[1]])
    if name == SEARCH_FILE:
        return _search_answer("gzip" in request.headers.get("accept-encoding", ""))
    moved = [each for each in PAGES if each.path.endswith(f"/{name}")]
    if len(moved) == 1:  # addresses from before there were kinds; a browser keeps what is behind the #
        return Response("", status_code=308, media_type="text/html", headers={"Location": moved[0].href})
    raise NotFoundException


@cache
def _rendered(path: str) -> bytes:
    """Return a known page as it is sent. It is open to anybody and takes some 40 ms to render, so it is kept: all pages
    together have 1.5 MB."""
    return render_doc(BY_PATH.get(path, INDEX)).encode()


def render_doc(doc: DocPage, site: bool = False) -> str:
    """Return a page as HTML; of a ``site``, which has no Hookline beside it."""
    at = PAGES.index(doc) if doc.path else -1
    blocks = blocks_of_page(doc)
    titles = {kind.title for kind in DOC_KINDS}
    values = {
        "doc": doc,
        "kinds": DOC_KINDS,
        "blocks": blocks,
        "lead": next((at for at, block in enumerate(blocks) if _words(block.entries[0]) in titles), len(blocks)),
        "contents": contents_of(doc),
        "before": PAGES[at - 1] if at > 0 else None,
        "after": PAGES[at + 1] if at + 1 < len(PAGES) else None,
        "search_version": _search_version(),
        "site": site,
    }
    return render_for_nobody("docs_page.html" if doc.path else "docs_home.html", values)


@cache
def blocks_of_page(doc: DocPage) -> list[Block]:
    """Return a page, block by block."""
    return blocks_of(text_of(doc.path or HOME), lambda target: _resolve(doc.path, target))


def _resolve(path: str, target: str) -> str:
    """Return where a link of a page leads here, empty where it leads out of what is shipped."""
    if target.startswith(("https://", "http://", "#")):
        return target
    name, _, anchor = target.partition("#")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if posixpath.splitext(wanted)[1] in PICTURE_TYPES:
        return f"/docs/{wanted}"
    wanted = wanted.removesuffix(".md")
    found = INDEX if wanted == HOME else BY_PATH.get(wanted)
    return found.href + (f"#{anchor}" if anchor else "") if found else ""


@cache
def pictures() -> dict[str, Path]:
    """Return the file of each picture that a page shows, by its path: no other file is ever read."""
    blocks = [block for doc in (INDEX, *PAGES) for block in blocks_of_page(doc) if block.kind == "picture"]
    names = [piece.href.removeprefix("/docs/") for block in blocks for entry in block.entries for piece in entry]
    return {name: _file(name) for name in names}


def contents_of(doc: DocPage) -> list[Block]:
    """Return the headings of a page that are listed beside it."""
    found = [block for block in blocks_of_page(doc) if block.kind == "heading" and block.number in (2, 3)]
    if len(found) > CONTENTS_MAX:
        found = [block for block in found if block.number == 2]
    return found if len(found) >= CONTENTS_MIN else []


SEARCH_FILE = "search-index.js"
SUMMARY_CHARACTERS_MAX = 140


@cache
def search_script() -> str:
    """Return what the search of the documentation looks through, as a script: a page that is a file may load it."""
    entries = [entry for doc in PAGES for entry in _search_entries(doc)]
    return f"window.hooklineDocs = {msgspec.json.encode(entries).decode()};\n"


def _search_entries(doc: DocPage) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield for a page, each of its sections and each row about one name: address, title, where it is, its beginning,
    and its words."""
    address, title, lead, others = doc.path, doc.title, list[str](), [_words(doc.about)]
    for block in [*blocks_of_page(doc)[1:], None]:
        if block is not None and not (block.kind == "heading" and block.number in (2, 3)):
            texts = [words for entry in block.entries for words in _all_words(entry)]
            (others if block.kind in ("table", "code") else lead).extend(texts)
            if block.kind == "table":
                yield from _rows(doc, block)
            continue
        yield address, title, doc.title if "#" in address else doc.group, *_summed_up(" ".join(lead), others)
        if block is not None:
            address, title, lead, others = f"{doc.path}#{block.anchor}", _words(block.entries[0]), [], []


def _rows(doc: DocPage, table: Block) -> Iterator[tuple[str, str, str, str, str]]:
    for name, row in zip(table.names, table.entries, strict=True):
        if "." in name or "_" in name:  # a setting, a code, a metric; words such as `id` are in every table
            yield f"{doc.path}#{name}", name, doc.title, *_summed_up(" ".join(_all_words(row[-1:])), [])


def _summed_up(lead: str, others: Sequence[str]) -> tuple[str, str]:
    """Return the beginning of a text, and every word of it and of what belongs to it, once."""
    words = dict.fromkeys(word.strip(".,:;!?()\"'“”`").lower() for word in " ".join([lead, *others]).split())
    summary = lead if len(lead) <= SUMMARY_CHARACTERS_MAX else f"{lead[:SUMMARY_CHARACTERS_MAX].rstrip()}…"
    return summary, " ".join(words)


def _all_words(pieces: Sequence[Piece]) -> Iterator[str]:
    """Yield what pieces say, a cell or an item of a list at a time."""
    own = "".join(piece.text for piece in pieces if not piece.pieces).strip()
    if own:
        yield own
    for piece in pieces:
        if piece.pieces:
            yield from _all_words(piece.pieces)


@cache
def _search_version() -> str:
    return sha256(search_script().encode()).hexdigest()[:12]


@cache
def _search_packed() -> bytes:
    return gzip.compress(search_script().encode(), mtime=0)


def _search_answer(is_packed: bool) -> Response[Any]:
    """Answer with the index; its address holds its version, so it may be kept for ever."""
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if not is_packed:
        return Response(search_script(), media_type="text/javascript", headers=headers)
    headers["Content-Encoding"] = "gzip"
    return Response(_search_packed(), media_type="text/javascript", headers=headers)
