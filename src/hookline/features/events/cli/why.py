"""``hookline why``: the status of one event (DESIGN 6.7) as a time line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, CommandFailed, NotFound
from hookline.outcomes.status import because

Event = dict[str, Any]
"""The answer of the admin API."""

MARKS = {
    "delivered": "●",
    "queued": "◔",
    "retrying": "▲",
    "failed": "■",
    "expired": "■",
    "expired_by_retention": "■",
    "rejected": "■",
}
"""Shapes of the pages, so that the same state looks the same everywhere; every other status is off or filtered: ○."""


def find(admin: AdminApi, message_id: str, source: str | None) -> Event:
    """Ask the server what became of an event; raise CommandFailed when it knows none of that id."""
    try:
        event: Event = admin.get(f"/events/{quote(message_id, safe='')}", source=source)
    except NotFound as unknown:
        if "damaged" in str(unknown):
            raise CommandFailed(str(unknown)) from None
        raise CommandFailed(
            f"no event {message_id!r} is kept here; check the id and the source, "
            "or the event is older than retention.events"
        ) from None
    return event


def lines(event: Event) -> Iterator[str]:
    """The time line as text."""
    what = " ".join(str(event[name]) for name in ("type", "messageId") if event.get(name))
    name = (event.get("event") or {}).get("event") if isinstance(event.get("event"), dict) else None
    yield f"{what}{f' “{name}”' if name else ''}"
    yield f"  {event['receivedAt']}  {'refused' if event.get('rejection') else 'accepted'} from {event['source']}" + (
        f", user {event['userId']}" if event.get("userId") else ""
    )
    if event.get("duplicates"):
        yield f"  sent again {event['duplicates']} more times; the repeats were dropped"
    for warning in event.get("warnings") or []:
        yield f"  ▲ warning: {warning['message']} ({warning['code']})"
    if event.get("rejection"):
        yield f"  ■ rejected: {event['rejection']['message']} ({event['rejection']['code']})"
    elif event.get("status"):
        yield f"  {MARKS.get(event['status'], '○')} {event['status']}"
    elif not event["destinations"]:
        yield "  ○ no destination: connect one to the source"
    for destination in event["destinations"]:
        yield from _destination(destination)


def _destination(destination: dict[str, Any]) -> Iterator[str]:
    rule = f" (rule {destination['rule']})" if destination.get("rule") else ""
    status = destination["status"]
    yield f"  {MARKS.get(status, '○')} {destination['id']}  {status}{_because(destination)}{rule}"
    attempts = destination.get("attempts") or []
    for attempt in attempts:
        if not attempt.get("replay"):
            yield f"      {attempt_line(attempt)}"
    for replay in destination.get("replays") or []:
        yield f"    {MARKS.get(replay['status'], '○')} replay {replay['id']}  {replay['status']}{_because(replay)}"
        for attempt in attempts:
            if attempt.get("replay") == replay["id"]:
                yield f"      {attempt_line(attempt)}"


def _because(at: dict[str, Any]) -> str:
    reason = at.get("detail") or because(at["status"], at.get("reason"))
    return f": {reason}" if reason else ""


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
