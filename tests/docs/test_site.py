"""The documentation as files (``make docs``): nothing is missing, and nothing is asked of another server."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hookline.web.docs import PAGES
from tests.docs.pages import ROOT


class Page(HTMLParser):
    """What a page names: its own anchors, where its links lead, and what it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element names."""
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif name in ("src", "data-index") or (tag, name) == ("link", "href"):
                self.loads.append(value or "")
            elif name in ("href", "action", "srcset", "data-root"):
                self.links.append(value or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, written by the command that people run."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    subprocess.run([sys.executable, ROOT / "scripts" / "docs_site.py", folder], check=True, timeout=120)
    return folder


def test_every_link_and_picture_is_there(site: Path) -> None:
    """Each address leads from its page to a file of the site, and to a part that this has."""
    pages = {file: Page(file) for file in site.rglob("*.html")}
    assert {str(file.relative_to(site)) for file in pages} == {"index.html", *(f"{page.path}.html" for page in PAGES)}
    lost = [
        (file.name, address)
        for file, page in pages.items()
        for address in [*page.links, *page.loads]
        if not (address.startswith(("https://", "http://")) and address in page.links)
        and not _leads_somewhere(file, address, pages)
    ]
    assert lost == []


def _leads_somewhere(file: Path, address: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(address)
    there = (file.parent / parts.path).resolve() if parts.path else file
    if parts.scheme or address.startswith("/") or not there.exists():
        return False
    return not parts.fragment or parts.fragment in pages[there].ids


def test_nothing_is_asked_of_another_server(site: Path) -> None:
    """No style sheet or script loads anything by itself, and what pages load is of the site."""
    texts = {file: file.read_text() for file in (site / "static").iterdir()}
    assert texts
    assert [file.name for file, text in texts.items() if re.search(r"url\(|@import|\bimport\(|fetch\(", text)] == []
    assert all(not re.match(r"(https?:)?//", address) for file in site.rglob("*.html") for address in Page(file).loads)
