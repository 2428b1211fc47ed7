"""What ``hookline replay`` does: the count first, a line that follows the progress, and replays as lines of text."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi
from hookline.cli.failure import CommandFailed
from hookline.settings import parse_duration

View = dict[str, Any]

LOOK_SECONDS = 0.5
ENDED = ("done", "cancelled", "counted", "failed")
MARKS = {"done": "●", "running": "◔", "queued": "◔", "preparing": "◔", "paused": "▲", "cancelled": "○"}
USAGE = 2


def request_of(*, since: str | None, until: str | None, **fields: Any) -> View:
    """The body of a request from options that were given."""
    fields = {"from": moment("--from", since), "to": moment("--to", until), **fields}
    fields["deadLetteredSince"] = moment("--dead-lettered-since", fields["deadLetteredSince"])
    return {name: value for name, value in fields.items() if value is not None}


def start(admin: AdminApi, request: View, *, dry_run: bool, ask: bool, detach: bool, as_json: bool) -> int:
    """Count, show, ask where somebody is there to answer, send, and follow to the end."""
    counted = _until_ended(admin, admin.request("POST", "/replays", {**request, "dryRun": True}), as_json)
    if counted["state"] == "failed":
        raise CommandFailed("the events could not be counted; the server's log says why")
    if dry_run and as_json:
        print(json.dumps(counted))
    if not as_json:
        print("\n".join(_dry_lines(counted)))
    if dry_run or (counted["total"] == 0 and not as_json):
        return 0
    if ask and sys.stdin.isatty() and sys.stdout.isatty() and input("Send them? [y/N] ").strip().lower() != "y":
        print("nothing was sent")
        return 0
    made = admin.request("POST", "/replays", request)
    if detach:
        print(json.dumps(made) if as_json else f"{made['id']} has begun; follow it: hookline replay watch {made['id']}")
        return 0
    return follow(admin, made["id"], as_json)


def follow(admin: AdminApi, id: str, as_json: bool) -> int:
    """Show the progress until the end; 0 when all was delivered."""
    try:
        view = _until_ended(admin, _get(admin, id), as_json)
    except KeyboardInterrupt:
        print(f"\n{id} goes on; follow it: hookline replay watch {id}, end it: hookline replay cancel {id}")
        return 0
    print(json.dumps(view) if as_json else line(view))
    if view["failed"] and not as_json:
        print(f"events not delivered: hookline dead-letters list --destination {view['destination']}")
    return 0 if view["state"] == "done" and not view["failed"] else 1


def print_list(admin: AdminApi, as_json: bool) -> int:
    """The newest replays."""
    items = admin.get("/replays", limit=200)["items"]
    if as_json:
        print(json.dumps(items))
    else:
        print("\n".join(line(view) for view in items) or "there are no replays")
    return 0


def print_one(admin: AdminApi, method: str, id: str, action: str, as_json: bool) -> int:
    """Do something to a replay and show how it stands."""
    view = admin.request(method, f"/replays/{quote(id, safe='')}{action}")
    print(json.dumps(view) if as_json else line(view))
    return 0


def line(view: View) -> str:
    """One replay in one line."""
    parts = [f"{MARKS.get(view['state'], '◔')} {view['id']}  {view['state']}  to {view['destination']}"]
    if view["state"] in ("counting", "preparing") and view["toCount"]:
        parts.append(f"counted {view['counted']:,} of {view['toCount']:,}")
    else:
        total = "?" if view["total"] is None else f"{view['total']:,}"
        parts.append(f"{view['done']:,} of {total}")
    for name in ("failed", "retrying"):
        if view[name]:
            parts.append(f"{view[name]:,} {name}")
    if view["rate"] is not None:
        parts.append(f"at most {view['rate']:g}/s")
    if view["etaSeconds"] is not None and view["state"] not in ENDED:
        parts.append(f"{_duration(view['etaSeconds'])} to go")
    if view["reason"]:
        parts.append(view["reason"])
    return ", ".join(parts)


def _dry_lines(view: View) -> Iterator[str]:
    if view["total"] == 0:
        yield f"no stored event matches; nothing to send to {view['destination']}"
        return
    yield f"{view['total']:,} events to {view['destination']}, about {_duration(view['etaSeconds'])}; the first:"
    for event in view["sample"]:
        name = f" “{event['event']}”" if event["event"] else ""
        yield f"  {event['receivedAt']}  {event['type']}{name}  {event['messageId']}  {event['userId']}"


def _until_ended(admin: AdminApi, view: View, quiet: bool) -> View:
    """Look again until it has ended; on a terminal the last line shows how far it is."""
    live = sys.stdout.isatty() and not quiet
    width = 0
    while view["state"] not in ENDED:
        if live:
            text = line(view)
            print(f"\r{text.ljust(width)}", end="", flush=True)
            width = len(text)
        time.sleep(LOOK_SECONDS)
        view = _get(admin, view["id"])
    if width:
        print(f"\r{' ' * width}\r", end="")
    return view


def _get(admin: AdminApi, id: str) -> View:
    view: View = admin.get(f"/replays/{quote(id, safe='')}")
    return view


def moment(option: str, text: str | None) -> str | None:
    """ISO 8601 with an offset; a time without one is local, a duration is so long ago."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        pass
    try:
        return datetime.fromtimestamp(time.time() - parse_duration(text), UTC).isoformat()
    except ValueError:
        raise CommandFailed(
            f"{option}: write a time such as 2026-11-20T07:00:00Z, or how long ago such as 24h, not {text!r}",
            exit_code=USAGE,
        ) from None


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
