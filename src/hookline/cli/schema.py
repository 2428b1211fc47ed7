"""What ``hookline schema`` prints: the events of a source by name, and the properties of one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.terminal_text import printable

PAGE = 200


def print_schema(admin: AdminApi, source: str, type: str | None, name: str | None, limit: int, as_json: bool) -> int:
    """The names, at most ``limit``; properties where one name is asked for."""
    path = f"/sources/{quote(source, safe='')}/schema"
    items: list[Json] = []
    after: str | None = None
    while True:
        page = admin.get(path, limit=min(PAGE, limit - len(items)), after=after, type=type, name=name)
        items += page["items"]
        after = page["after"]
        if after is None or len(items) >= limit:
            break
    if as_json:
        print(json.dumps({**page, "items": items}))
        return 0
    for item in items:
        print("\n".join(_lines(item, with_properties=name is not None)))
    print("\n".join(_rest(page, len(items))))
    return 0


def _lines(item: Json, with_properties: bool) -> Iterator[str]:
    name = printable(f"{item['type']} {item['name']}".rstrip())
    yield f"{name}  {item['count']:,} times, {item['firstSeen']} to {item['lastSeen']}"
    for each in item["properties"] if with_properties else ():
        types = ", ".join(f"{kind} {count:,}" for kind, count in each["types"].items())
        yield f"  {printable(each['path'])}  {types}"
    if with_properties:
        more = "" if item["propertiesComplete"] else "; there are more properties than are kept"
        yield f"  looked for in {item['examined']:,} events{more}"


def _rest(page: Json, shown: int) -> Iterator[str]:
    if not shown:
        yield "no events of this kind yet"
    if page["names"] > shown:
        yield f"{page['names'] - shown:,} more names"
    if page["otherEvents"]:
        yield f"{page['otherEvents']:,} events have further names"
    if page["unread"]:
        yield f"{page['unread']:,} events left to read"
