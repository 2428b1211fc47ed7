"""Lists as files: CSV for spreadsheets, JSON for programs, of all that a filter finds and not only of one page."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar.params import QueryParameter
from litestar.response import Stream

from hookline.api.listing import Listing

EXPORT_ROWS_MAX = 50_000
"""The newest; narrow the filter for others."""
PAGE_ROWS = 200

Format = Annotated[
    Literal["csv", "json"],
    QueryParameter(name="format", description=f"File format. The file has the newest {EXPORT_ROWS_MAX:,} rows."),
]
Page = Callable[[int, str | None], Awaitable[Listing[Any]]]
"""Gives so many items after a cursor, as the list's own call does."""
Row = Callable[[Any], Mapping[str, object]]
"""Gives an item's columns, all of them and always in one order."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def cell(value: object) -> object:
    """Return what a cell holds: a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def export(format: Literal["csv", "json"], name: str, columns: Sequence[str], row: Row, page: Page) -> Stream:
    """Return the file, written while the list is read page by page."""
    headers = {"Content-Disposition": f'attachment; filename="{name}.{format}"', "Cache-Control": "no-store"}
    if format == "csv":
        return Stream(_csv(columns, row, page), media_type="text/csv; charset=utf-8", headers=headers)
    return Stream(_json(page), media_type="application/json", headers=headers)


async def _items(page: Page) -> AsyncIterator[Sequence[Any]]:
    after, left = None, EXPORT_ROWS_MAX
    while left > 0:
        found = await page(min(left, PAGE_ROWS), after)
        yield found.items
        left -= len(found.items)
        if found.after is None:
            return
        after = found.after


async def _csv(columns: Sequence[str], row: Row, page: Page) -> AsyncIterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    async for items in _items(page):
        for item in items:
            values = row(item)
            writer.writerow([cell(values[column]) for column in columns])
        yield text.getvalue().encode("utf-8", "replace")
        text.seek(0)
        text.truncate()


async def _json(page: Page) -> AsyncIterator[bytes]:
    began = b"["
    async for items in _items(page):
        for item in items:
            yield began + b"\n" + msgspec.json.encode(item)
            began = b","
    yield b"[]\n" if began == b"[" else b"\n]\n"
