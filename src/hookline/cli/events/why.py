"""``hookline why``: the fate of one event (DESIGN 6.7) as a time line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, NotFound
from hookline.cli.failure import CommandFailed

Fate = dict[str, Any]

MARKS = {
    "delivered": "●",
    "waiting": "◔",
    "retrying": "▲",
    "parked": "▲",
    "failed": "■",
    "expired": "■",
    "expired_by_retention": "■",
    "rejected": "■",
}
"""Shapes of the pages, so that the same state looks the same everywhere; every other fate is off or filtered: ○."""


def fate_of(admin: AdminApi, message_id: str, source: str | None) -> Fate:
    """Ask the server what became of an event; raise CommandFailed when it knows none of that id."""
    try:
        fate: Fate = admin.get(f"/events/{quote(message_id, safe='')}", source=source)
    except NotFound as unknown:
        if "damaged" in str(unknown):
            raise CommandFailed(str(unknown)) from None
        raise CommandFailed(
            f"no event {message_id!r} is kept here; check the id and the source, "
            "or the event is older than retention.events"
        ) from None
    return fate


def lines(fate: Fate) -> Iterator[str]:
    """The time line as text."""
    what = " ".join(str(fate[name]) for name in ("type", "messageId") if fate.get(name))
    name = (fate.get("event") or {}).get("event") if isinstance(fate.get("event"), dict) else None
    yield f"{what}{f' “{name}”' if name else ''}"
    yield f"  {fate['receivedAt']}  {'refused' if fate.get('rejection') else 'accepted'} from {fate['source']}" + (
        f", user {fate['userId']}" if fate.get("userId") else ""
    )
    if fate.get("duplicates"):
        yield f"  sent again {fate['duplicates']} more times; the repeats were dropped"
    for warning in fate.get("warnings") or []:
        yield f"  ▲ warning: {warning['message']} ({warning['code']})"
    if fate.get("rejection"):
        yield f"  ■ rejected: {fate['rejection']['message']} ({fate['rejection']['code']})"
    elif fate.get("fate"):
        yield f"  {MARKS.get(fate['fate'], '○')} {fate['fate']}"
    elif not fate["destinations"]:
        yield "  ○ no destination: connect one to the source"
    for destination in fate["destinations"]:
        yield from _destination(destination)


def _destination(destination: dict[str, Any]) -> Iterator[str]:
    because = f": {destination['reason']}" if destination.get("reason") else ""
    rule = f" (rule {destination['rule']})" if destination.get("rule") else ""
    yield f"  {MARKS.get(destination['fate'], '○')} {destination['id']}  {destination['fate']}{because}{rule}"
    attempts = destination.get("attempts") or []
    for attempt in attempts:
        if not attempt.get("replay"):
            yield f"      {attempt_line(attempt)}"
    for replay in destination.get("replays") or []:
        because = f": {replay['reason']}" if replay.get("reason") else ""
        yield f"    {MARKS.get(replay['fate'], '○')} replay {replay['id']}  {replay['fate']}{because}"
        for attempt in attempts:
            if attempt.get("replay") == replay["id"]:
                yield f"      {attempt_line(attempt)}"


def attempt_line(attempt: dict[str, Any]) -> str:
    """One attempt as text."""
    parts = [f"{attempt['at']}  attempt {attempt['number']}  {attempt['outcome']}"]
    if attempt.get("httpStatus"):
        parts.append(f"status {attempt['httpStatus']}")
    if attempt.get("milliseconds") is not None:
        parts.append(f"{attempt['milliseconds']} ms")
    if attempt.get("url"):
        parts.append(attempt["url"])
    if attempt.get("error"):
        parts.append(attempt["error"])
    if attempt.get("nextAt"):
        parts.append(f"next try {attempt['nextAt']}")
    return ", ".join(parts)
