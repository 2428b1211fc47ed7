"""What ``hookline usage`` prints: sums per period, as a table, as JSON or for a spreadsheet."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Literal

from hookline.cli.admin_api import AdminApi, Json

PATHS = {
    "sources": "/usage",
    "destinations": "/usage/destinations",
    "users": "/usage/users",
    "storage": "/usage/storage",
}
COLUMNS = {
    "sources": ("period", "source", "events", "filtered", "counted"),
    "destinations": ("period", "destination", "delivered", "filtered", "failures", "givenUp"),
    "users": ("month", "source", "users"),
    "storage": ("name", "title", "bytes"),
}
PAGE = 200


def print_usage(admin: AdminApi, of: str, query: Mapping[str, str | None], form: Literal["text", "json", "csv"]) -> int:
    """All items, newest period first."""
    items = _items(admin, PATHS[of], query)
    if form == "json":
        print(json.dumps(items))
        return 0
    rows = [[item[column] for column in COLUMNS[of]] for item in items]
    if form == "csv":
        csv.writer(sys.stdout).writerows([COLUMNS[of], *rows])
        return 0
    shown = [[f"{value:,}" if isinstance(value, int) else str(value or "all") for value in row] for row in rows]
    print("\n".join(_table([COLUMNS[of], *shown])) if rows else "nothing was counted in this time")
    return 0


def _items(admin: AdminApi, path: str, query: Mapping[str, str | None]) -> list[Json]:
    items: list[Json] = []
    after: str | None = None
    while True:
        paging: dict[str, str | int | None] = {"limit": PAGE, "after": after} if query else {}
        page = admin.get(path, **query, **paging)
        items += page["items"] if "items" in page else page["parts"]
        after = page.get("after")
        if after is None:
            return items


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
