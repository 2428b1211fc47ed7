"""What ``hookline audiences members``, ``sync``, ``syncs``, ``explain`` and ``history`` do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.person import require_one
from hookline.cli.terminal_text import printable

INDENT = "  "


def print_members(admin: AdminApi, id: str, limit: int, as_json: bool) -> int:
    """A line for each member."""
    found = admin.newest(f"/audiences/{_part(id)}/members", limit)
    print(json.dumps(found) if as_json else "\n".join(map(_member, found)) or "nobody")
    return 0


def ask_sync(admin: AdminApi, collection: str, id: str, as_json: bool) -> int:
    """Ask for a sync."""
    asked = admin.request("POST", f"/{collection}/{_part(id)}/sync")
    end = f"its end: hookline {collection} syncs {printable(id)}"
    print(json.dumps(asked) if as_json else f"asked at {asked['askedAt']}; {end}")
    return 0


def print_syncs(admin: AdminApi, collection: str, id: str, limit: int, as_json: bool) -> int:
    """A line for each sync."""
    found = admin.newest(f"/{collection}/{_part(id)}/syncs", limit)
    lines = [
        f"{each['number']:>6}  {each['at']}  {each['came']:,} came, {each['went']:,} went, told by {each['finishedAt']}"
        for each in found
    ]
    print(json.dumps(found) if as_json else "\n".join(lines) or "there are none yet")
    return 0


def print_explanation(admin: AdminApi, id: str, user_id: str | None, anonymous_id: str | None, as_json: bool) -> int:
    """In or out, and below it the clauses."""
    require_one(user_id, anonymous_id)
    found = admin.get(f"/audiences/{_part(id)}/explain", userId=user_id, anonymousId=anonymous_id)
    print(json.dumps(found) if as_json else "\n".join(_explanation(found, user_id or anonymous_id or "")))
    return 0


def print_history(admin: AdminApi, id: str, user_id: str | None, anonymous_id: str | None, as_json: bool) -> int:
    """A line for each time the person came or went."""
    require_one(user_id, anonymous_id)
    found = admin.get(f"/audiences/{_part(id)}/history", userId=user_id, anonymousId=anonymous_id)["items"]
    lines = [
        f"{each['at']}  {'in' if each['member'] else 'out'}"
        + ("" if each["sync"] is None else f", sync {each['sync']}")
        for each in found
    ]
    print(json.dumps(found) if as_json else "\n".join(lines) or "never in it, as far as is known")
    return 0


def _explanation(found: Json, asked: str) -> Iterator[str]:
    state = "in" if found["member"] else "not in"
    yield f"{printable(found['userId'] or asked)} is {state} {found['audience']}{_until(found)}"
    synced = found["synced"]
    if synced is None:
        yield "after the last sync: not in"
    else:
        yield f"after the last sync: in, since {synced['since']}, {'told' if synced['told'] else 'not told'}"
    if not found["historyComplete"]:
        yield "the history is not complete: it is still read up, or the audience is disabled"
    yield from _clause(found["reason"], "")


def _clause(clause: Json, indent: str) -> Iterator[str]:
    found = "" if clause["found"] is None else f": {clause['found']}"
    yield f"{indent}{'✓' if clause['held'] else '✗'} {printable(clause['text'])}{found}{_until(clause)}"
    for path, value in clause["values"].items():
        yield f"{indent}{INDENT}{printable(path)} is {printable(json.dumps(value, ensure_ascii=False))}"
    for event in clause["events"]:
        name = "no longer kept" if event["messageId"] is None else printable(event["messageId"])
        yield f"{indent}{INDENT}{event['at']}  {name}"
    for term in clause["terms"]:
        yield from _clause(term, indent + INDENT)


def _until(found: Json) -> str:
    return "" if found["until"] is None else f", until {found['until']} if nothing new happens"


def _member(member: Json) -> str:
    who = member["userId"] if member["userId"] is not None else f"{member['anonymousId']} (anonymous)"
    return f"{printable(who)}  since {member['since']}  {'told' if member['told'] else 'not told'}{_until(member)}"


def _part(id: str) -> str:
    return quote(id, safe="")
