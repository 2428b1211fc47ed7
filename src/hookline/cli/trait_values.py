"""What ``hookline computed-traits values`` and ``explain`` do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.person import require_one
from hookline.cli.terminal_text import printable

INDENT = "  "


def print_values(admin: AdminApi, id: str, limit: int, as_json: bool) -> int:
    """A line for each person with a value."""
    found = admin.newest(f"/computed-traits/{quote(id, safe='')}/values", limit)
    print(json.dumps(found) if as_json else "\n".join(map(_line, found)) or "nobody has a value")
    return 0


def print_value_explanation(
    admin: AdminApi, id: str, user_id: str | None, anonymous_id: str | None, as_json: bool
) -> int:
    """The value, and below it what it is made of."""
    require_one(user_id, anonymous_id)
    path = f"/computed-traits/{quote(id, safe='')}/explain"
    found = admin.get(path, userId=user_id, anonymousId=anonymous_id)
    print(json.dumps(found) if as_json else "\n".join(_explanation(found, user_id or anonymous_id or "")))
    return 0


def _explanation(found: Json, asked: str) -> Iterator[str]:
    who = printable(found["userId"] or asked)
    yield f"{found['computedTrait']} of {who} is {_text(found['value'])}{_until(found)}"
    yield printable(found["text"])
    counts = "1 event counts" if found["found"] == 1 else f"{found['found']} events count"
    yield f"{counts}, {found['used']} of them with a value"
    if not found["historyComplete"]:
        yield "the history is not complete: it is still read up, or the computed trait is disabled"
    for event in found["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{INDENT}{event['at']}  {name}"


def _line(each: Json) -> str:
    who = each["userId"] if each["userId"] is not None else f"{each['anonymousId']} (anonymous)"
    told = "told" if each["told"] else "not told"
    return f"{printable(who)}  {_text(each['value'])}  since {each['since']}  {told}{_until(each)}"


def _text(value: object) -> str:
    return printable(json.dumps(value, ensure_ascii=False))


def _until(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"
