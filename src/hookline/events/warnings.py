"""What of an accepted event was understood otherwise than it was sent: told in the answer, and again by ``why``.

It follows from the caller's bytes alone, so nothing is kept for it, and events of older versions have it too.
"""

from __future__ import annotations

import msgspec

from hookline.events import untyped
from hookline.events.timestamps import is_unreadable

WARNINGS: dict[str, str] = {
    "not_an_object": "{} must be a JSON object; the given value is ignored.",
    "unreadable_time": "{} cannot be read as a time and is ignored; send ISO 8601, or seconds since the epoch.",
    "empty_batch": "{} is null, so it had no event; send an array.",
}
"""Every code with its sentence, which begins with the field."""

OBJECTS = ("properties", "traits", "context", "integrations")
"""The fields that are objects; ``null`` and an empty list (as PHP writes an empty array) are as good as none."""


class EventWarning(msgspec.Struct, frozen=True):
    """One thing that was understood differently: a stable ``code``, the field, and a sentence."""

    code: str
    field: str
    message: str


class _Fields(msgspec.Struct, gc=False):
    properties: msgspec.Raw = msgspec.Raw()
    traits: msgspec.Raw = msgspec.Raw()
    context: msgspec.Raw = msgspec.Raw()
    integrations: msgspec.Raw = msgspec.Raw()
    timestamp: msgspec.Raw = msgspec.Raw()
    originalTimestamp: msgspec.Raw = msgspec.Raw()
    sentAt: msgspec.Raw = msgspec.Raw()


class _Context(msgspec.Struct, gc=False):
    integrations: msgspec.Raw = msgspec.Raw()


def warning(code: str, field: str) -> EventWarning:
    """Return the warning of this code about a field."""
    return EventWarning(code, field, WARNINGS[code].format(field))


def warnings_of(body: bytes) -> list[EventWarning]:
    """Return what is understood otherwise of an event that is accepted: at most one warning for each field."""
    try:
        fields = _decode_fields(body)
        inner = _decode_context(fields.context).integrations if _is_object(fields.context) else msgspec.Raw()
    except (ValueError, RecursionError):
        return []
    found = [name for name in OBJECTS if not is_object_or_none(getattr(fields, name))]
    if not is_object_or_none(inner):
        found.append("context.integrations")
    times = "originalTimestamp" if bytes(fields.timestamp) in _NOT_GIVEN else "timestamp", "sentAt"
    return [
        *(warning("not_an_object", name) for name in found),
        *(warning("unreadable_time", name) for name in times if _is_unreadable_time(getattr(fields, name))),
    ]


def is_object_or_none(raw: msgspec.Raw) -> bool:
    """Return whether a field holds an object, or nothing that would be lost."""
    written = bytes(raw)
    return written[:1] == b"{" or written in (b"", b"null") or (written[0] == ord("[") and not written[1:-1].strip())


def _is_unreadable_time(raw: msgspec.Raw) -> bool:
    try:
        return bytes(raw) not in _NOT_GIVEN and is_unreadable(untyped.decode(raw))
    except (ValueError, RecursionError):
        return True  # as a number that no float holds


def _is_object(raw: msgspec.Raw) -> bool:
    return bytes(raw)[:1] == b"{"


_NOT_GIVEN = (b"", b"null", b'""')
_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_context = msgspec.json.Decoder(_Context).decode
