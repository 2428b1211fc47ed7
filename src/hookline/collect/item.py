"""From one event to its journal record: the rules of DESIGN 6.1, and what is kept of an event that breaks them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import msgspec

from hookline.collect.answers import REJECTIONS
from hookline.collect.head import Choices, Head, Scalar, text
from hookline.collect.limits import (
    BATCH_BYTES_MAX,
    EVENT_BYTES_MAX,
    MESSAGE_ID_CHARACTERS_MAX,
    REJECTED_BODY_BYTES_MAX,
    TYPE_CHARACTERS_MAX,
    USER_KEY_CHARACTERS_MAX,
)
from hookline.events.fingerprint import fingerprint
from hookline.events.timestamps import iso, resolve
from hookline.journal.record import FORMAT_VERSION, Record

TYPES = frozenset(("identify", "track", "page", "screen", "group", "alias"))


class Arrival(msgspec.Struct, gc=False):
    """What all events of one request share; ``choices`` are the envelope's destination selection maps, weakest first.

    ``address`` is a browser's, to be put into the envelope's context; ``envelope_bytes`` are those of the caller alone.

    A struct, because it is made for every request: making one costs a third of making an ordinary object.
    """

    source: str
    received_at: int
    traceparent: str | None = None
    choices: tuple[Choices, ...] = ()
    envelope: bytes | None = None
    envelope_bytes: int = 0
    sent_at: Scalar = None
    batch_bytes_max: int = BATCH_BYTES_MAX
    address: bytes = b""


def record_of(item: bytes, head: Head, arrival: Arrival, type_: str | None, refused: str | None = None) -> Record:
    """The record of one event; its ``rejection`` is set when the event breaks a rule.

    ``type_`` is what the path says, None in a batch. ``refused`` is the code of a fault found before.
    """
    kind = type_ if type_ is not None else head.type
    user_id, anonymous_id, message_id = head.user_id, head.anonymous_id, head.message_id
    if not isinstance(user_id, str):
        user_id = text(user_id)
    if not isinstance(message_id, str):
        message_id = text(message_id)
    user_key = user_id or text(anonymous_id)
    code = refused or _fault(kind, user_id, user_key, message_id, head)
    if code is None and len(item) + arrival.envelope_bytes > EVENT_BYTES_MAX:
        code = "event_too_large"
    if code is not None or not isinstance(kind, str):
        return _rejected(item, arrival, text(kind), user_key, message_id, code or "unknown_type")
    if not message_id:
        message_id = str(uuid4())
    return Record(
        FORMAT_VERSION,
        False,
        arrival.received_at,
        arrival.source,
        kind,
        message_id,
        fingerprint(arrival.source, message_id),
        user_key,
        resolve(arrival.received_at, head.timestamp, head.original_timestamp, head.sent_at or arrival.sent_at),
        "sdk",
        item,
        arrival.envelope,
        selection(head, arrival.choices),
        None,
        arrival.traceparent,
    )


def unreadable(body: bytes, arrival: Arrival, type_: str | None, code: str) -> Record:
    """The record of a call whose body is not even JSON."""
    return _rejected(_quoted(body), arrival, type_ or "", "", "", code)


def selection(head: Head, shared: tuple[Choices, ...]) -> dict[str, bool] | None:
    """The effective destination selection (SPEC 2.4), later maps over earlier ones; None when it disables nothing."""
    if not shared and not head.integrations and (head.context is None or not head.context.integrations):
        return None
    own = (head.context.integrations if head.context is not None else None, head.integrations)
    switches: dict[str, bool] = {}
    for choices in (*shared, *own):
        switches.update(_switches((choices or {}).items()))
    return switches if False in switches.values() else None


def _fault(kind: Scalar, user_id: str, user_key: str, message_id: str, head: Head) -> str | None:
    if kind not in TYPES:
        return "unknown_type" if kind not in (None, "") else "missing_type"
    if not user_key or (kind == "alias" and not user_id):
        return "missing_user_id"
    if kind == "track":
        if not (head.event or text(head.event)):
            return "missing_event"
    elif kind == "group":
        if not text(head.group_id):
            return "missing_group_id"
    elif kind == "alias" and not text(head.previous_id):
        return "missing_previous_id"
    return "invalid_message_id" if len(message_id) > MESSAGE_ID_CHARACTERS_MAX else None


def _switches(choices: Iterable[tuple[str, msgspec.Raw]]) -> Iterable[tuple[str, bool]]:
    for name, value in choices:
        written = bytes(value)
        if written != b"null":
            yield name, written != b"false"  # an object holds options of a destination that is on


def _rejected(item: bytes, arrival: Arrival, kind: str, user_key: str, message_id: str, code: str) -> Record:
    # An id too long to be one is not kept as one: the record needs an id by which it can be found.
    usable = 0 < len(message_id) <= MESSAGE_ID_CHARACTERS_MAX
    message_id = message_id if usable else str(uuid4())
    return Record(
        FORMAT_VERSION,
        False,
        arrival.received_at,
        arrival.source,
        kind[:TYPE_CHARACTERS_MAX],
        message_id,
        fingerprint(arrival.source, message_id),
        user_key[:USER_KEY_CHARACTERS_MAX],
        iso(arrival.received_at),
        "sdk",
        item if len(item) <= REJECTED_BODY_BYTES_MAX else _quoted(item),
        None,
        None,
        None,
        arrival.traceparent,
        REJECTIONS[code],
    )


def _quoted(item: bytes) -> bytes:
    """A JSON object that shows the start of what cannot be kept as it is."""
    start = item[: REJECTED_BODY_BYTES_MAX // 2].decode("utf-8", "replace")
    quoted = msgspec.json.encode({"bytes": len(item), "start": start})
    if len(quoted) > REJECTED_BODY_BYTES_MAX:  # control characters grow sixfold when escaped
        quoted = msgspec.json.encode({"bytes": len(item), "start": start[: REJECTED_BODY_BYTES_MAX // 8]})
    return quoted
