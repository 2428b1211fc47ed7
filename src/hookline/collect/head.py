"""The few fields of an event that the collection edge looks at; everything else stays the caller's bytes.

``null`` means absent, numeric ids are taken as strings, and fields that only advise (timestamps, ``context``,
``integrations``) are ignored when they have the wrong type instead of refusing the event.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

Scalar = str | int | float | None

Choices = dict[str, msgspec.Raw]
"""A destination selection map as written (SPEC 2.4); a value is a boolean or that destination's options."""


class Context(msgspec.Struct, gc=False):
    """What of ``context`` matters for routing."""

    integrations: Choices | None = None


class Given(msgspec.Struct, gc=False):
    """An object of which nothing is looked at."""


Fields = Given | Annotated[list[msgspec.Raw], msgspec.Meta(max_length=0)] | None
"""An object, or the empty list that PHP writes for an empty one; what is neither gets the caller a warning."""


class Head(msgspec.Struct, rename="camel", gc=False):
    """The checked fields of one event."""

    type: Scalar = None
    user_id: Scalar = None
    anonymous_id: Scalar = None
    event: Scalar = None
    group_id: Scalar = None
    previous_id: Scalar = None
    message_id: Scalar = None
    timestamp: Scalar = None
    original_timestamp: Scalar = None
    sent_at: Scalar = None
    write_key: Scalar = None
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
_SCALAR: msgspec.json.Decoder[Scalar] = msgspec.json.Decoder(Scalar)
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
    """The head of a batch's item and the code that refuses it, if any."""
    try:
        return HEAD.decode(item), None
    except msgspec.ValidationError:
        pass
    try:
        raw = RAW_HEAD.decode(item)
    except msgspec.ValidationError:
        return Head(), "invalid_item"
    return read_leniently(raw)


def read_leniently(raw: RawHead) -> tuple[Head, str | None]:
    """The head of an event of which some field has the wrong type, and the code that refuses it, if any."""
    head = Head()
    refused: str | None = None
    for name, code in _REFUSED.items():
        try:
            setattr(head, name, _SCALAR.decode(getattr(raw, name)))
        except msgspec.ValidationError:
            refused = refused or code
    for name in _PASSED_OVER:
        try:
            setattr(head, name, _SCALAR.decode(getattr(raw, name)))
        except msgspec.ValidationError:
            pass
    head.integrations = read_choices(raw.integrations)
    head.context = Context(context_choices(raw.context))
    return head, refused


def read_choices(raw: msgspec.Raw) -> Choices | None:
    """A destination selection map; None when it is no object."""
    try:
        return _CHOICES.decode(raw)
    except msgspec.ValidationError:
        return None


def context_choices(raw: msgspec.Raw) -> Choices | None:
    """The destination selection map within a context."""
    try:
        inner = _RAW_CONTEXT.decode(raw).get("integrations")
    except msgspec.ValidationError:
        return None
    return read_choices(inner) if inner is not None else None


def text(value: Scalar) -> str:
    """An id or a name as a string, the way JavaScript writes numbers; empty when absent."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)
