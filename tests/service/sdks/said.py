"""What every program says (``programs/calls.json``), and the webhook bodies that has to give."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from tests.service.sdks.sdk import PROGRAMS, SDK

CALLS_FILE = PROGRAMS / "calls.json"
CALLS: list[dict[str, Any]] = json.loads(CALLS_FILE.read_text())
NOT_ROUTED = "track For no destination"
"""The call whose ``integrations`` exclude every destination."""

CARRIED = (
    *("userId", "anonymousId", "event", "name", "category", "groupId", "previousId"),
    *("properties", "traits", "context"),
)
ALWAYS: dict[str, dict[str, Any]] = {
    "identify": {"traits": {}},
    "track": {"properties": {}},
    "page": {"properties": {}},
    "group": {"traits": {}},
}
"""What a body of its type has even if nobody said it."""


def name_of(event: dict[str, Any]) -> str:
    """The name of a call in these tests: its type, and the event of a track call."""
    return f"track {event['event']}" if event["type"] == "track" else str(event["type"])


SAID = {name_of(call): call for call in CALLS}


def said_by(sdk: SDK) -> dict[str, dict[str, Any]]:
    """The calls of its program by their names."""
    return {name: call for name, call in SAID.items() if call["type"] != sdk.without}


def body_of(call: dict[str, Any]) -> dict[str, Any]:
    """The body a receiver gets of a call or a posted event; its ``timestamp`` is left out."""
    kind = call["type"]
    body = {name: call[name] for name in CARRIED if call.get(name) not in (None, "")}
    if kind == "identify" and "traits" not in body:
        body["traits"] = body["context"].get("traits", {})  # where RudderStack's SDKs give them
    if kind == "alias":
        body["Previous ID"], body["User ID"] = body.pop("previousId"), body.pop("userId")
    return {"version": 1, "type": kind, **ALWAYS.get(kind, {}), **body}


def milliseconds(iso: str) -> int:
    """An ISO 8601 time as milliseconds since the epoch, what is finer cut off."""
    at = datetime.fromisoformat(iso)
    return int(at.timestamp()) * 1000 + at.microsecond // 1000


def differences(expected: Any, got: Any, path: str = "") -> dict[str, str]:
    """Where two JSON values differ: path to ``missing``, ``added`` or ``changed``."""
    if not (isinstance(expected, dict) and isinstance(got, dict)):
        same = expected == got and isinstance(expected, bool) == isinstance(got, bool)
        return {} if same else {path: "changed"}
    found: dict[str, str] = {}
    for name in [*expected, *(name for name in got if name not in expected)]:
        inner = f"{path}.{name}" if path else name
        if name not in got:
            found[inner] = "missing"
        elif name not in expected:
            found[inner] = "added"
        else:
            found.update(differences(expected[name], got[name], inner))
    return found
