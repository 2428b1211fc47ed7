"""From a call to the message that is sent: names, ids, times, context, and the rules of the API.

The rules are those of the service, so that a mistake shows where it is made. Whatever else a caller's mapping holds is
carried along, as the originals do.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from hookline_client.errors import CODES, InvalidCall
from hookline_client.identifiers import message_id
from hookline_client.timestamps import iso, timestamp
from hookline_client.version import VERSION

LIBRARY = {"name": "hookline-python", "version": VERSION}
MESSAGE_ID_CHARACTERS_MAX = 512
MESSAGE_BYTES_MAX = 32_768
"""One call, encoded: the service refuses larger ones."""

_STRINGS = {
    "identify": (),
    "track": ("event",),
    "page": ("category", "name"),
    "screen": ("category", "name"),
    "group": ("groupId",),
    "alias": ("previousId",),
}
_OBJECTS = {
    "identify": "traits",
    "track": "properties",
    "page": "properties",
    "screen": "properties",
    "group": "traits",
    "alias": None,
}
_SNAKE = {
    "user_id": "userId",
    "anonymous_id": "anonymousId",
    "group_id": "groupId",
    "previous_id": "previousId",
    "message_id": "messageId",
}
_NOT_CARRIED = ("type", "writeKey", "sentAt")


def from_mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    """Take the fields of a call from one mapping, with the originals' camelCase names or with ours."""
    return {_SNAKE.get(name, name): value for name, value in given.items() if name not in _NOT_CARRIED}


def view(given: tuple[object, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Tell the values of a page or screen call apart: user, category, name, properties, in this order.

    A single string is the name: after a user, and alone when the user is known otherwise. The category comes before it.
    """
    values = list(given)
    found: dict[str, Any] = {}
    if values and isinstance(values[-1], Mapping):
        found["properties"] = values.pop()
    if values and "userId" not in named and not (len(values) == 1 and "anonymousId" in named):
        found["userId"] = values.pop(0)
    for field in ("name", "category"):
        if values and field not in named:
            found[field] = values.pop()
    if values:
        raise InvalidCall("invalid_field", "By place come a user, a category, a name and properties, each once.")
    return found


def build(
    kind: str, given: dict[str, Any], context: Mapping[str, Any], integrations: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Make the message of a call; InvalidCall when it breaks a rule.

    ``given`` has the names of the API and is not kept; ``context`` and ``integrations`` are the client's defaults.
    """
    now_ns = time.time_ns()
    own_id, own_time = given.pop("messageId", None), given.pop("timestamp", None)
    message: dict[str, Any] = {
        "type": kind,
        "messageId": message_id(now_ns) if own_id is None else _own_id(own_id),
        "timestamp": iso(now_ns) if own_time is None or own_time == "" else timestamp(own_time),
    }
    _identify(kind, message, given.pop("userId", None), given.pop("anonymousId", None))
    for field in _STRINGS[kind]:
        value = given.pop(field, None)
        if value is not None and value != "":
            message[field] = value if type(value) is str else _text(field, value)
    _check(kind, message)
    _add_object(kind, message, given)
    _add_context(message, given, context, integrations)
    for name, value in given.items():
        if value is not None:
            message[str(name)] = value
    return message


def _identify(kind: str, message: dict[str, Any], user_id: object, anonymous_id: object) -> None:
    if user_id is not None and user_id != "":
        message["userId"] = user_id if type(user_id) is str else _text("userId", user_id)
    if anonymous_id is not None and anonymous_id != "":
        message["anonymousId"] = anonymous_id if type(anonymous_id) is str else _text("anonymousId", anonymous_id)
    elif "userId" not in message:
        raise InvalidCall("missing_user_id", CODES["missing_user_id"])
    if kind == "alias" and "userId" not in message:
        raise InvalidCall("missing_user_id", CODES["missing_user_id"])


def _check(kind: str, message: dict[str, Any]) -> None:
    if kind == "track":
        missing = "" if "event" in message else "missing_event"
    elif kind == "group":
        missing = "" if "groupId" in message else "missing_group_id"
    elif kind == "alias":
        missing = "" if "previousId" in message else "missing_previous_id"
    else:
        missing = "missing_name" if "category" in message and "name" not in message else ""
    if missing:
        raise InvalidCall(missing, CODES[missing])


def _add_object(kind: str, message: dict[str, Any], given: dict[str, Any]) -> None:
    name = _OBJECTS[kind]
    if name is None:
        return
    value = given.pop(name, None)
    if value is None and (kind == "page" or kind == "screen"):
        value = given.pop("traits", None)
    if value is not None:
        message[name] = value if type(value) is dict else _mapping(name, value)


def _add_context(
    message: dict[str, Any],
    given: dict[str, Any],
    default: Mapping[str, Any],
    integrations: Mapping[str, Any] | None,
) -> None:
    context, chosen = given.pop("context", None), given.pop("integrations", None)
    if context is None:
        message["context"] = default
    else:
        context = {**default, **_mapping("context", context)}
        inner = context.pop("integrations", None)  # the originals allow it here as well
        if inner is not None:
            chosen = {**_mapping("integrations", inner), **_mapping("integrations", chosen or {})}
        message["context"] = context
    if chosen is not None:
        chosen = _mapping("integrations", chosen)
        message["integrations"] = {**integrations, **chosen} if integrations else chosen
    elif integrations:
        message["integrations"] = integrations


def _own_id(given: object) -> str:
    if given == "":
        return message_id(time.time_ns())
    text = _text("messageId", given)
    if len(text) > MESSAGE_ID_CHARACTERS_MAX:
        raise InvalidCall("invalid_message_id", CODES["invalid_message_id"])
    return text


def _text(field: str, value: object) -> str:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool) or not (isinstance(value, (int, float)) or type(value).__name__ == "UUID"):
        raise InvalidCall("invalid_field", f"{field} must be a string or a number, not {type(value).__name__}.")
    if isinstance(value, float) and not math.isfinite(value):  # a table's empty cell is nobody, not a user of this name
        raise InvalidCall("invalid_field", f"{field} must be a string or a number, not {value}.")
    return str(value)


def _mapping(field: str, value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    if value == []:  # how PHP writes an empty mapping
        return {}
    raise InvalidCall("invalid_field", f"{field} must be a mapping, not {type(value).__name__}.")
