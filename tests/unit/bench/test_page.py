"""A report as a page: its tables, its verdict, and the command that makes it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.page import Check, Page, Section


def page(*checks: Check) -> Page:
    """A small report."""
    section = Section(title="Figures", prose="Measured.", columns=("what", "p99"), rows=(("alone", "3.0 ms"),))
    return Page(title="A report", prose="Why.", command="hookline bench x", sections=(section,), checks=checks)


def check(passed: bool) -> Check:
    """An aim that is met or missed."""
    return Check(name="lost", aim="0", measured="0" if passed else "7", passed=passed)


def test_a_page_has_its_tables_and_its_command(tmp_path: Path) -> None:
    """What is written is Markdown with every section, the aims, and how to make it again."""
    path = tmp_path / "reports" / "x.md"
    page(check(True)).write(path)
    text = path.read_text()
    assert text.startswith("# A report\n\nWhy.\n\nMade on ")
    assert "`hookline bench x`" in text
    assert "## Figures\n\nMeasured.\n\n| what | p99 |\n| --- | --- |\n| alone | 3.0 ms |" in text
    assert "| lost | 0 | 0 | yes |" in text


def test_one_missed_aim_fails_the_report() -> None:
    """A report passes only if every aim is met, and shows the one that is not."""
    assert page(check(True)).passed
    assert not page(check(True), check(False)).passed
    assert "| lost | 0 | 7 | **no** |" in page(check(False)).markdown()


def test_the_terminal_shows_every_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed are the figures and the verdict."""
    page(check(False)).print()
    shown = capsys.readouterr().out
    assert "3.0 ms" in shown
    assert "lost" in shown
