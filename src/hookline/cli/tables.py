"""Print lists: with headers, colours and local time on a terminal, plain and always alike into a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime

from hookline.cli.admin_api import Json
from hookline.cli.target import printable

STYLES = {"■": "red", "▲": "yellow", "◔": "blue", "●": "green", "○": "bright_black"}
"""By the shape that a cell begins with, as on the pages."""

STATE_SHAPES = {
    **dict.fromkeys(("unreachable", "erroring", "refusing", "throttling", "gone"), "■"),
    **dict.fromkeys(("degraded", "paused", "pausing"), "▲"),
    **dict.fromkeys(("catching_up", "draining"), "◔"),
    "healthy": "●",
    "disabled": "○",
}
"""Of what receivers do."""

SEVERITY_SHAPES = {"critical": "■", "warning": "▲", "info": "◔"}
"""Of notices."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows of text. A column whose name ends with ``#`` holds numbers, which are named where no header does."""
    rows = [[printable(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        named = [f" {name[:-1].lower()}" if name.endswith("#") else "" for name in columns]
        for row in rows:
            print("  ".join(cell + word for cell, word in zip(row, named, strict=True) if cell))
        return
    from rich.console import Console  # here: what is read by programs need not wait for it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name.removesuffix("#"), justify="right" if name.endswith("#") else "left", no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(cell, style=STYLES.get(cell[:1], "")) for cell in row))
    Console(highlight=False).print(table)


def print_items(
    items: Sequence[Json],
    line: Callable[[Json], str],
    none: str,
    columns: Sequence[str],
    cells: Callable[[Json, Callable[[str | None], str]], Sequence[object]],
    utc: bool,
) -> None:
    """Print a list as a table on a terminal, into a pipe as one ``line`` for each item; ``none`` where there is none.

    ``cells`` is given how to write a time; what it returns as None or "" is an empty cell.
    """
    if not items:
        print(none)
    elif not sys.stdout.isatty():
        print("\n".join(line(item) for item in items))
    else:
        shown = [cells(item, lambda text: when(text, utc)) for item in items]
        print_table(columns, [["" if cell is None else str(cell) for cell in row] for row in shown])


def when(text: str | None, utc: bool) -> str:
    """Return a time of the API: local on a terminal unless ``utc``, as it came into a pipe."""
    if text is None:
        return ""
    if utc or not sys.stdout.isatty():
        return text
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"
