"""The page on how it is built names files that are there."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

NAMED = re.compile(r"`([\w/]+\.py)`")


def test_every_module_that_the_page_names_exists() -> None:
    """By its whole path or the end of it: who follows the page finds the file."""
    paths = [path.as_posix() for room in ("src/hookline", "clients/python") for path in (ROOT / room).rglob("*.py")]
    named = set(NAMED.findall((ROOT / "docs" / "architecture.md").read_text()))
    assert len(named) > 30
    assert [name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in paths)] == []
