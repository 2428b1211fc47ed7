"""A report: sections of tables and the checks that decide it, shown on a terminal, as a page, or as data."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import msgspec


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One aim, what was measured, and whether the one meets the other."""

    name: str
    aim: str
    measured: str
    passed: bool


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A heading, a few sentences, a table."""

    title: str
    prose: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report. ``command`` is what makes it again. Without checks it decides nothing, and has no aims."""

    title: str
    prose: str
    command: str
    sections: tuple[Section, ...]
    checks: tuple[Check, ...]
    made: str = ""
    """Moment and machine of the measurement, as in ``made_here()``, where the page is not of this one."""

    @property
    def passed(self) -> bool:
        """Every aim is met."""
        return all(check.passed for check in self.checks)

    def markdown(self) -> str:
        """The page as it stands in the documentation."""
        parts = [f"# {self.title}", self.prose, _made_by(self.command, self.made or made_here())]
        for section in self._all():
            parts += [f"## {section.title}", section.prose, _markdown_table(section)]
        return "\n\n".join(part for part in parts if part) + "\n"

    def write(self, path: Path) -> None:
        """Write the page, its folder too."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.markdown())

    def print(self) -> None:
        """Show the tables on the terminal."""
        from rich.console import Console
        from rich.table import Table

        console = Console(width=None if sys.stdout.isatty() else 140)
        for section in self._all():
            table = Table(*section.columns, title=section.title, title_justify="left")
            for row in section.rows:
                table.add_row(*row)
            console.print(table if section.columns else f"{section.title}: {section.prose}")

    def _all(self) -> tuple[Section, ...]:
        return (*self.sections, self._verdict()) if self.checks else self.sections

    def _verdict(self) -> Section:
        rows = tuple((c.name, c.aim, c.measured, "yes" if c.passed else "**no**") for c in self.checks)
        return Section(title="Aims", columns=("what", "aim", "measured", "met"), rows=rows)


def milliseconds(seconds: float) -> str:
    """A latency as the tables show it."""
    return f"{seconds * 1000:.1f} ms"


def made_here() -> str:
    """Return this moment and machine as the pages say them: one that is made twice on a day differs in the time."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%MZ")
    return f"{moment} ({os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()})"


def _made_by(command: str, made: str) -> str:
    moment, _, system = made.partition(" ")
    return f"Made on {moment} by `{command}` {system}; the command writes this page anew."


def _markdown_table(section: Section) -> str:
    if not section.columns:
        return ""
    lines = [section.columns, tuple("---" for _ in section.columns), *section.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
