"""Reading the reference pages: tables and headings of Markdown."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def rows(page: str) -> list[list[str]]:
    """The cells of every table row of a page, heads and rules left out; code marks removed."""
    found: list[list[str]] = []
    lines = (DOCS / page).read_text().splitlines()
    for index, line in enumerate(lines):
        if not line.startswith("|") or line.startswith("|---"):
            continue
        if index + 1 < len(lines) and lines[index + 1].startswith("|---"):
            continue
        cells = [cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        found.append(cells)
    return found


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of the same or a higher level."""
    text = (DOCS / page).read_text()
    level = re.search(rf"^(#+) {re.escape(heading)}$", text, re.MULTILINE)
    assert level, f"docs/{page} has no heading {heading!r}"
    end = rf"(?=^#{{1,{len(level[1])}}} |\Z)"
    match = re.compile(rf".*?{end}", re.MULTILINE | re.DOTALL).match(text, level.end())
    return match[0] if match else ""
