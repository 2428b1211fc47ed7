"""What ``hookline attempts`` and ``retry-now`` do: the requests to a destination, and another one at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.terminal_text import printable
from hookline.cli.why import attempt_line

PAGE = 200


def print_attempts(admin: AdminApi, destination: str, wanted: Json, limit: int, as_json: bool) -> int:
    """The newest that match, at most ``limit``."""
    items: list[Json] = []
    after: str | None = None
    while len(items) < limit:
        page = admin.get(_path(destination), limit=min(PAGE, limit - len(items)), after=after, **wanted)
        items += page["items"]
        after = page["after"]
        if after is None:
            break
    if as_json:
        print(json.dumps(items))
    else:
        print("\n".join(map(_line, items)) or "there are none")
    return 0


def print_attempt(admin: AdminApi, destination: str, id: str, as_json: bool) -> int:
    """One attempt as it was sent, and its answer."""
    found = admin.get(f"{_path(destination)}/{quote(id, safe='')}")
    print(json.dumps(found) if as_json else "\n".join(_detail(found)))
    return 0


def try_now(admin: AdminApi, destination: str, message_id: str, source: str | None, as_json: bool) -> int:
    """Ask for another attempt at once."""
    body = {"messageId": message_id, **({} if source is None else {"source": source})}
    asked = admin.request("POST", f"/destinations/{quote(destination, safe='')}/retry-now", body)
    print(json.dumps(asked) if as_json else f"{printable(message_id)} is tried now; see hookline why")
    return 0


def _path(destination: str) -> str:
    return f"/destinations/{quote(destination, safe='')}/attempts"


def _line(attempt: Json) -> str:
    event = printable(" ".join(attempt[name] for name in ("type", "event", "messageId") if attempt[name]))
    replay = f", replay {attempt['replay']}" if attempt["replay"] else ""
    return f"{attempt['id']}  {event or 'no longer stored'}  {printable(attempt_line(attempt))}{replay}"


def _detail(found: Json) -> Iterator[str]:
    yield _line(found["attempt"])
    request, answer = found["request"], found["answer"]
    if request is None:
        yield f"  {found['note']}"
    else:
        yield f"  {request['method']} {request['url']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in request["headers"])
        yield f"  {printable(request['body'])}"
    if answer is not None:
        yield f"  answered {answer['status']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in answer["headers"])
        yield f"  {printable(answer['body'], keep=chr(10))}"
