"""docs/threat-model.md: what it promises is held by something that is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT

LINKS = [
    (page, link)
    for page in (DOCS / "threat-model.md", ROOT / "SECURITY.md")
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
]


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[link for _, link in LINKS])
def test_tests_and_pages_that_it_names_are_there(page: Path, link: str) -> None:
    """A promise whose test was renamed or taken away is noticed."""
    assert (page.parent / link).exists()


def test_it_is_found() -> None:
    """From the first page, and from where an installation is set up."""
    for page in ("README.md", "SECURITY.md", "docs/how-to/run-in-production.md"):
        assert "threat-model.md" in (ROOT / page).read_text()
