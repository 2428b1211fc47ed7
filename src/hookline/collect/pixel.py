"""The event that a pixel's query stands for, where a picture is all that can be fetched, as in an e-mail.

Either ``data`` holds the event as base64 of its JSON, or each parameter is a field, dots leading into objects.
"""

from __future__ import annotations

import binascii
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hookline.collect.decode import BadBody
from hookline.collect.limits import NESTING_LEVELS_MAX, PIXEL_FIELDS_MAX

_encode = msgspec.json.Encoder().encode
_URL_SAFE = str.maketrans(" -_", "++/")


def event_of(query: bytes) -> bytes:
    """The event's JSON, not yet looked into; raise BadBody when the query holds none."""
    try:
        fields = parse_qsl(query.decode(), keep_blank_values=True, max_num_fields=PIXEL_FIELDS_MAX, errors="strict")
    except UnicodeDecodeError:
        raise BadBody("invalid_utf8") from None
    except ValueError:
        raise BadBody("invalid_query") from None
    for name, value in fields:
        if name == "data":
            return _decoded(value)
    return _encode(_assembled(fields))


def _decoded(data: str) -> bytes:
    # Any spelling of base64 will do: with or without padding, safe for URLs or not, a plus read as a space.
    data = data.translate(_URL_SAFE).rstrip("=")
    try:
        return binascii.a2b_base64(data + "=" * (-len(data) % 4), strict_mode=True)
    except ValueError:
        raise BadBody("invalid_query") from None


def _assembled(fields: list[tuple[str, str]]) -> dict[str, Any]:
    event: dict[str, Any] = {}
    for name, value in fields:
        *way, last = name.split(".")
        if len(way) >= NESTING_LEVELS_MAX:
            raise BadBody("nesting_too_deep")
        inner = event
        for step in way:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise BadBody("invalid_query")
        if isinstance(inner.setdefault(last, value), dict):
            raise BadBody("invalid_query")  # one parameter holds a value where another leads further
    anonymous_id = event.get("anonymousId")
    if isinstance(anonymous_id, str) and len(anonymous_id) > 1 and anonymous_id[0] == anonymous_id[-1] == '"':
        event["anonymousId"] = anonymous_id[1:-1]  # RudderStack's cookies hold it in quotes, and pages paste it so
    return event
