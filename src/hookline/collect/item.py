"""From one event's bytes to its journal record: the fields that are looked at, the rules they are held to, and what is
kept of an event that breaks them. Everything else stays the caller's bytes.

``null`` means absent, numeric ids are taken as strings, and fields that only advise (timestamps, ``context``,
``integrations``) are ignored when they have the wrong type instead of refusing the event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any
from uuid import uuid4

import msgspec

from hookline.collect.decode import (
    BATCH_BYTES_MAX,
    EVENT_BYTES_MAX,
    MESSAGE_ID_CHARACTERS_MAX,
    REJECTED_BODY_BYTES_MAX,
    TYPE_CHARACTERS_MAX,
    USER_KEY_CHARACTERS_MAX,
)
from hookline.collect.http.answers import REJECTIONS
from hookline.events.timestamps import iso, resolve, resolve_all
from hookline.events.untyped import Scalar, scalar, text
from hookline.journal.record import FORMAT_VERSION, Record, fingerprint, fingerprints
from hookline.privacy.suppressions import Suppressed

Usual = str | int | None
"""A field that ids and names are written in. Numbers with a fraction or an exponent are read apart: to read them here
could take 9 µs each, also where a key is repeated (``untyped``)."""

Choices = dict[str, msgspec.Raw]
"""A destination selection map as written (``integrations``); a value is a boolean or that destination's options."""


class Context(msgspec.Struct, gc=False):
    """Hold what of ``context`` matters for routing."""

    integrations: Choices | None = None


class OpaqueObject(msgspec.Struct, gc=False):
    """An object of which nothing is looked at."""


Fields = OpaqueObject | Annotated[list[msgspec.Raw], msgspec.Meta(max_length=0)] | None
"""An object, or the empty list that PHP writes for an empty one; what is neither gets the caller a warning."""


class Head(msgspec.Struct, rename="camel", gc=False):
    """The checked fields of one event."""

    type: Usual = None
    user_id: Usual = None
    anonymous_id: Usual = None
    event: Usual = None
    group_id: Usual = None
    previous_id: Usual = None
    message_id: Usual = None
    timestamp: Usual = None
    original_timestamp: Usual = None
    sent_at: Usual = None
    write_key: Usual = None
    integrations: Choices | None = None
    context: Context | None = None
    properties: Fields = None
    traits: Fields = None


class RawHead(msgspec.Struct, rename="camel", gc=False):
    """The same fields, whatever their types."""

    type: msgspec.Raw = msgspec.Raw(b"null")
    user_id: msgspec.Raw = msgspec.Raw(b"null")
    anonymous_id: msgspec.Raw = msgspec.Raw(b"null")
    event: msgspec.Raw = msgspec.Raw(b"null")
    group_id: msgspec.Raw = msgspec.Raw(b"null")
    previous_id: msgspec.Raw = msgspec.Raw(b"null")
    message_id: msgspec.Raw = msgspec.Raw(b"null")
    timestamp: msgspec.Raw = msgspec.Raw(b"null")
    original_timestamp: msgspec.Raw = msgspec.Raw(b"null")
    sent_at: msgspec.Raw = msgspec.Raw(b"null")
    write_key: msgspec.Raw = msgspec.Raw(b"null")
    integrations: msgspec.Raw = msgspec.Raw(b"null")
    context: msgspec.Raw = msgspec.Raw(b"null")


HEAD = msgspec.json.Decoder(Head)
RAW_HEAD = msgspec.json.Decoder(RawHead)
_CHOICES = msgspec.json.Decoder(Choices)
_RAW_CONTEXT = msgspec.json.Decoder(dict[str, msgspec.Raw])

# A wrong type here is the caller's mistake and refuses the event, by this code; elsewhere it is passed over.
_REFUSED = {
    "type": "unknown_type",
    "user_id": "invalid_field",
    "anonymous_id": "invalid_field",
    "event": "invalid_field",
    "group_id": "invalid_field",
    "previous_id": "invalid_field",
    "message_id": "invalid_message_id",
}
_PASSED_OVER = ("timestamp", "original_timestamp", "sent_at", "write_key")


def read_item(item: msgspec.Raw) -> tuple[Head, str | None]:
    """Return the head of a batch's item and the code that refuses it, if any."""
    try:
        return HEAD.decode(item), None
    except msgspec.ValidationError:
        pass
    return read_unusual_item(item)


def read_unusual_item(item: msgspec.Raw) -> tuple[Head, str | None]:
    """Do what ``read_item`` does for one of which some field is not as usual."""
    try:
        raw = RAW_HEAD.decode(item)
    except msgspec.ValidationError:
        return Head(), "invalid_item"
    return read_leniently(raw)


def read_leniently(raw: RawHead) -> tuple[Head, str | None]:
    """Return the head of an event of which some field is not as usual, and the code that refuses it, if any."""
    head = Head()
    refused: str | None = None
    for name, code in _REFUSED.items():
        try:
            setattr(head, name, scalar(getattr(raw, name)))
        except msgspec.ValidationError:
            refused = refused or code
    for name in _PASSED_OVER:
        try:
            setattr(head, name, scalar(getattr(raw, name)))
        except msgspec.ValidationError:
            pass
    head.integrations = read_choices(raw.integrations)
    head.context = Context(context_choices(raw.context))
    return head, refused


def read_choices(raw: msgspec.Raw) -> Choices | None:
    """Return a destination selection map; None when it is no object."""
    try:
        return _CHOICES.decode(raw)
    except msgspec.ValidationError:
        return None


def context_choices(raw: msgspec.Raw) -> Choices | None:
    """Return the destination selection map within a context."""
    try:
        inner = _RAW_CONTEXT.decode(raw).get("integrations")
    except msgspec.ValidationError:
        return None
    return read_choices(inner) if inner is not None else None


TYPES = frozenset(("identify", "track", "page", "screen", "group", "alias"))


class Arrival(msgspec.Struct, gc=False):
    """Hold what all events of one request share; ``switches`` are the destinations that the envelope selects or not.

    ``address`` is a browser's, to be put into the envelope's context; ``envelope_bytes`` are those of the caller alone.

    A struct, because it is made for every request: making one costs a third of making an ordinary object.
    """

    source: str
    received_at: int
    traceparent: str | None = None
    switches: dict[str, bool] = {}
    envelope: bytes | None = None
    envelope_bytes: int = 0
    sent_at: Scalar = None
    batch_bytes_max: int = BATCH_BYTES_MAX
    address: bytes = b""


def record_of(
    item: bytes, head: Head, arrival: Arrival, type_: str | None, refused: str | None = None
) -> tuple[Record, bool]:
    """Return the record of one event, and whether a time of it cannot be read; ``rejection`` is set when the event
    breaks a rule.

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
        return _rejected(item, arrival, text(kind), user_key, message_id, code or "unknown_type"), False
    if not message_id:
        message_id = str(uuid4())
    timestamp, is_time_unreadable = resolve(
        arrival.received_at, head.timestamp, head.original_timestamp, head.sent_at, arrival.sent_at
    )
    record = Record(
        FORMAT_VERSION,
        False,
        arrival.received_at,
        arrival.source,
        kind,
        message_id,
        fingerprint(arrival.source, message_id),
        user_key,
        timestamp,
        "sdk",
        item,
        arrival.envelope,
        selection(head, arrival.switches),
        None,
        arrival.traceparent,
    )
    return record, is_time_unreadable


def unreadable(body: bytes, arrival: Arrival, type_: str | None, code: str, is_shown: bool = True) -> Record:
    """Return the record of a call that is refused as a whole, with the start of its body if that may be shown."""
    shown = _quoted(body) if is_shown else msgspec.json.encode({"bytes": len(body)})
    return _rejected(shown, arrival, type_ or "", "", "", code)


SWITCHES_MAX = 100
SWITCH_CHARACTERS_MAX = 100
"""Of a destination selection: each name takes twenty times as much memory as in the request, for each event."""


def selection(head: Head, shared: Mapping[str, bool]) -> dict[str, bool] | None:
    """Return the effective destination selection, the event's own over the batch's; None when it disables nothing."""
    if not shared and not head.integrations and (head.context is None or not head.context.integrations):
        return None
    switches = switches_of(shared, head.context.integrations if head.context is not None else None, head.integrations)
    return switches if False in switches.values() else None


def switches_of(shared: Mapping[str, bool], *maps: Choices | None) -> dict[str, bool]:
    """Return which destinations are selected or not, later maps over earlier ones: of very many the first, and all."""
    switches = dict(shared)
    for choices in maps:
        for name, value in (choices or {}).items():
            written = bytes(value)
            if written != b"null" and len(name) <= SWITCH_CHARACTERS_MAX:
                switches[name] = written != b"false"  # an object holds options of a destination that is on
    if len(switches) > SWITCHES_MAX:
        first = islice((name for name in switches if name != "All"), SWITCHES_MAX)
        switches = {name: switches[name] for name in ("All", *first) if name in switches}
    return switches


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
    """Return a JSON object that shows the start of what cannot be kept as it is."""
    start = item[: REJECTED_BODY_BYTES_MAX // 2].decode("utf-8", "replace")
    quoted = msgspec.json.encode({"bytes": len(item), "start": start})
    if len(quoted) > REJECTED_BODY_BYTES_MAX:  # control characters grow sixfold when escaped
        quoted = msgspec.json.encode({"bytes": len(item), "start": start[: REJECTED_BODY_BYTES_MAX // 8]})
    return quoted


_NEED_NO_NAME = frozenset(("identify", "page", "screen"))


def usual_records(
    items: Sequence[bytes], heads: Sequence[Head], arrival: Arrival
) -> tuple[list[Record], list[int], list[int]]:
    """Return the records of the usual events in their order, equal to what ``record_of`` makes, the others' indexes,
    and the indexes of usual ones with a time nobody can read."""
    others = _unusual(items, heads, arrival)
    # Any: the type checker cannot see that type, ids and time of what is left are text.
    usual: Sequence[Any] = heads
    if others:
        skipped = set(others)
        usual = [head for index, head in enumerate(heads) if index not in skipped]
        items = [item for index, item in enumerate(items) if index not in skipped]
    received_at, source, sent_at = arrival.received_at, arrival.source, arrival.sent_at
    envelope, switches, traceparent = arrival.envelope, arrival.switches, arrival.traceparent
    prints = fingerprints(source, [head.message_id for head in usual])
    timestamps, unreadable = resolve_all(
        received_at,
        [head.original_timestamp if head.timestamp is None else head.timestamp for head in usual],
        [head.sent_at for head in usual],
        sent_at,
    )
    records = [
        Record(
            FORMAT_VERSION,
            False,
            received_at,
            source,
            head.type,
            head.message_id,
            fingerprint,
            head.anonymous_id if head.user_id is None else head.user_id,
            timestamp,
            "sdk",
            item,
            envelope,
            selection(head, switches)
            if switches or head.integrations or (head.context and head.context.integrations)
            else None,
            None,
            traceparent,
        )
        for head, item, fingerprint, timestamp in zip(usual, items, prints, timestamps, strict=True)
    ]
    if others and unreadable:
        places = [index for index in range(len(heads)) if index not in skipped]
        unreadable = [places[index] for index in unreadable]
    return records, others, unreadable


def _unusual(items: Sequence[bytes], heads: Sequence[Head], arrival: Arrival) -> list[int]:
    bytes_max = EVENT_BYTES_MAX - arrival.envelope_bytes
    return [
        index
        for index, head in enumerate(heads)
        if not (
            (head.event if (type_ := head.type) == "track" else type_ in _NEED_NO_NAME)
            and (user_key := head.anonymous_id if (user_id := head.user_id) is None else user_id)
            and user_key.__class__ is str
            and (message_id := head.message_id)
            and message_id.__class__ is str
            and len(message_id) <= MESSAGE_ID_CHARACTERS_MAX
            and (time := head.original_timestamp if (timestamp := head.timestamp) is None else timestamp)
            and time.__class__ is str
            and len(items[index]) <= bytes_max
        )
    ]


def concerns(suppressed: Suppressed, head: Head) -> bool:
    """Return whether an event is a suppressed person's: by its user id, without one by its anonymous id, and in an
    alias by who the user was before.

    An anonymous id beside a user id decides nothing: it may be a device of several users, or a constant of the client.
    """
    user_id = text(head.user_id)
    if user_id:
        if user_id in suppressed:
            return True
    elif (anonymous_id := text(head.anonymous_id)) and suppressed.has_anonymous(anonymous_id):
        return True
    # Who it was before may have been a user or an anonymous person.
    return bool(previous_id := text(head.previous_id)) and suppressed.has_anonymous(previous_id)


def concerned(suppressed: Suppressed, heads: Sequence[Head]) -> list[int]:
    """Return the indexes of the events that name suppressed people."""
    return [index for index, head in enumerate(heads) if concerns(suppressed, head)]
