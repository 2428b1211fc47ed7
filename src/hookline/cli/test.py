"""What ``hookline test`` prints: the requests for one event, what the receiver answered, and where the time went."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hookline.cli.admin_api import AdminApi, Json
from hookline.cli.failure import CommandFailed
from hookline.cli.terminal_text import printable

USAGE = 2
BODY_CHARACTERS_SHOWN = 2_000


def body_of(event: str | None, message_id: str | None, sample: str | None, **options: Any) -> Json:
    """The request's body; an event is JSON, or @FILE that holds it."""
    given = {"messageId": message_id, "sample": sample, **options}
    if event is not None:
        try:
            given["event"] = json.loads(Path(event[1:]).read_text() if event.startswith("@") else event)
        except (OSError, ValueError) as error:
            raise CommandFailed(f"--event: write one JSON object, or @FILE that holds it ({error})", USAGE) from None
    return {name: value for name, value in given.items() if value not in (None, False)}


def run_test(admin: AdminApi, destination: str, body: Json, as_json: bool) -> int:
    """Test and print; 1 when a receiver did not accept the event."""
    report = admin.request("POST", f"/destinations/{quote(destination, safe='')}/test", body)
    print(json.dumps(report) if as_json else "\n".join(lines(report)))
    return 0 if all(answer["outcome"] == "success" for answer in report["answers"] or ()) else 1


def lines(report: Json) -> Iterator[str]:
    """The report as text."""
    routing = report["routing"]
    if routing["sent"]:
        yield f"{report['type']} {printable(report['messageId'])}"
    else:
        why = routing["stoppedBy"] or routing["reason"]
        yield f"{report['type']} {printable(report['messageId'])}: would not be sent by itself ({printable(why)})"
    for rule in routing["editedBy"]:
        yield f"  changed by {printable(rule)}"
    answers = report["answers"] or [None] * len(report["requests"])
    for request, answer in zip(report["requests"], answers, strict=True):
        yield ""
        yield f"{request['method']} {request['url']}"
        yield from (f"  {each['name']}: {printable(each['value'])}" for each in request["headers"])
        yield f"  {printable(request['body'][:BODY_CHARACTERS_SHOWN])}"
        if answer is not None:
            yield from _answer(answer)


def _answer(answer: Json) -> Iterator[str]:
    mark = "●" if answer["outcome"] == "success" else "■"
    status = f" {answer['status']}" if answer["status"] else ""
    error = f": {printable(answer['error'])}" if answer["error"] else ""
    yield f"{mark} {answer['outcome']}{status}{error}"
    parts = [f"{name} {ms:g} ms" for name, ms in answer["milliseconds"].items() if ms is not None]
    yield f"  {', '.join(parts)}"
    yield from (f"  {each['name']}: {printable(each['value'])}" for each in answer["headers"])
    if answer["body"]:
        yield f"  {printable(answer['body'][:BODY_CHARACTERS_SHOWN], keep=chr(10))}"
