"""What ``hookline dead-letters`` does: dead letters as lines of text, retried and discarded by id or by filter."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.replaying import line, moment
from hookline.cli.why import attempt_line

USAGE = 2


def selection_of(since: str | None, until: str | None, **fields: str | None) -> Json:
    """The filter from options that were given."""
    fields = {"from": moment("--from", since), "to": moment("--to", until), **fields}
    return {name: value for name, value in fields.items() if value is not None}


def print_list(admin: AdminApi, wanted: Json, limit: int, as_json: bool) -> int:
    """The newest that match, at most ``limit``."""
    items = admin.newest("/dead-letters", limit, **wanted)
    if as_json:
        print(json.dumps(items))
    else:
        print("\n".join(_line(letter) for letter in items) or "there are none")
    return 0


def print_one(admin: AdminApi, id: str, as_json: bool) -> int:
    """One with everything known of it."""
    letter = admin.get(f"/dead-letters/{quote(id, safe='')}")
    if as_json:
        print(json.dumps(letter))
        return 0
    print(_line(letter))
    for attempt in letter["history"]:
        print(f"    {attempt_line(attempt)}")
    print(json.dumps(letter["payload"], indent=2, ensure_ascii=False) if letter["payload"] else "no longer stored")
    return 0


def retry_all(
    admin: AdminApi, wanted: Json, ids: tuple[str, ...], rate: float | None, everything: bool, as_json: bool
) -> int:
    """Retry what is meant and say by which replays."""
    body = {**_meant(wanted, ids, everything), **({} if rate is None else {"rate": rate})}
    made = admin.request("POST", "/dead-letters/retry", body)["items"]
    if as_json:
        print(json.dumps(made))
    else:
        print("\n".join(line(view) for view in made) or "there are none")
    return 0


def discard_all(admin: AdminApi, wanted: Json, ids: tuple[str, ...], everything: bool, as_json: bool) -> int:
    """Discard what is meant and say how many that were."""
    done = admin.request("POST", "/dead-letters/discard", _meant(wanted, ids, everything))
    if as_json:
        print(json.dumps(done))
    elif done["discarded"] is None:
        print(f"{done['matched']} will be discarded as soon as the deliver role runs")
    else:
        print(f"{done['discarded']} discarded")
    return 0


def _meant(wanted: Json, ids: tuple[str, ...], everything: bool) -> dict[str, Any]:
    if not (wanted or ids or everything):
        raise CommandFailed("name ids, a filter such as --destination, or --all", exit_code=USAGE)
    if not all(id.isdecimal() for id in ids):
        raise CommandFailed("the ids of dead letters are numbers; see hookline dead-letters list", exit_code=USAGE)
    return {**wanted, **({"ids": [int(id) for id in ids]} if ids else {})}


def _line(letter: Json) -> str:
    what = f"{letter['type']} “{letter['event']}”" if letter["event"] else letter["type"]
    answer = " ".join(str(letter[name]) for name in ("outcome", "status") if letter[name])
    parts = [
        f"{letter['id']}  {letter['at']}  {letter['destination']}  {letter['fate']}  {what}  {letter['messageId']}"
    ]
    parts.append(f"{letter['attempts']} attempts")
    parts += [text for text in (answer, letter["error"], letter["replay"] and f"replay {letter['replay']}") if text]
    return ", ".join(parts)
