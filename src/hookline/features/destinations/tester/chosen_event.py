"""The record of a test event: as the collection edge would have made it, or a deletion request, only that it is stored
nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args
from uuid import uuid4

import msgspec

from hookline.api.problem import FieldError, Problem, invalid_body
from hookline.api.services import Services
from hookline.collect.decode import (
    MESSAGE_ID_CHARACTERS_MAX,
    NESTING_LEVELS_MAX,
    USER_KEY_CHARACTERS_MAX,
    nested_deeper,
)
from hookline.collect.item import Arrival, read_item, record_of
from hookline.events.timestamps import iso, resolve
from hookline.features.events.service import event_log
from hookline.journal.record import FORMAT_VERSION, Record, fingerprint
from hookline.route.filters import UNFILTERED_TYPE


async def chosen_record(
    services: Services,
    event: msgspec.Raw | None,
    message_id: str | None,
    sample: SampleType | None,
    source: str,
    now_ms: int,
    stored_of: str | None = None,
) -> Record:
    """Return the record of what was chosen: an event given, a stored one, or a sample (a track call when nothing was).

    ``source`` is that of an event given or a sample; ``stored_of`` that of a stored one, None for any.
    Raise Problem for an event that the collection edge would refuse, and for one that is not stored.
    """
    if sum(each is not None for each in (event, message_id, sample)) > 1:
        raise Problem(422, "invalid_object", "Give one of event, messageId and sample.")
    if message_id is not None:
        found = await event_log(services).find(message_id, stored_of)
        if found is None or found.record.rejection is not None or found.record.erased:
            detail = f"No stored event that can be sent has the message id {message_id[:100]!r}."
            raise Problem(404, "unknown_event", detail)
        return found.record
    if event is None:
        return accepted(msgspec.Raw(sample_event(sample or "track", iso(now_ms))), source, now_ms)
    return accepted(event, source, now_ms)


def accepted(event: msgspec.Raw, source: str, now_ms: int) -> Record:
    """Return the record of one event of a source; raise Problem when the collection edge would refuse it."""
    item = bytes(event)
    try:
        item.decode()
    except UnicodeDecodeError:
        raise _refused("invalid_utf8", "it is not valid UTF-8") from None
    if nested_deeper(item, NESTING_LEVELS_MAX):
        raise _refused("nesting_too_deep", f"it is nested deeper than {NESTING_LEVELS_MAX} levels")
    head, fault = read_item(event)
    if fault is None and head.type == UNFILTERED_TYPE:
        return _delete_message(event, source, now_ms)
    record, _ = record_of(item, head, Arrival(source, now_ms), None, fault)
    if record.rejection is not None:
        raise _refused(record.rejection.code, record.rejection.message)
    return record


class DeleteMessage(msgspec.Struct, kw_only=True, rename="camel"):
    """Hold the content of a delete message, and nothing else; a ``messageId`` goes into its header alone."""

    type: Literal["delete"]
    user_id: Annotated[str, msgspec.Meta(min_length=1, max_length=USER_KEY_CHARACTERS_MAX)]
    timestamp: str | None = None
    message_id: Annotated[str, msgspec.Meta(min_length=1, max_length=MESSAGE_ID_CHARACTERS_MAX)] | None = None


DELETE_FIELDS = ("type", "userId", "timestamp", "messageId")


def _delete_message(event: msgspec.Raw, source: str, now_ms: int) -> Record:
    """Return the record of a delete message as a deletion request would have it sent; sources never send one."""
    given = msgspec.json.decode(event, type=dict[str, Any])
    for name in given:
        if name not in DELETE_FIELDS:
            raise _unusable(name, "a delete message has only type, userId and timestamp; remove this")
    try:
        message = msgspec.convert(given, DeleteMessage)
    except msgspec.ValidationError as error:
        if not isinstance(given.get("userId"), str) or not given["userId"]:
            raise _unusable("userId", "a delete message names the person to delete; add a userId, as text") from None
        (field,) = invalid_body(error, "/event").errors
        raise Problem(422, "unusable_event", f"{field.pointer}: {field.detail}.", [field]) from None
    at, _ = resolve(now_ms, message.timestamp, None, None)
    body = msgspec.json.encode({"type": message.type, "userId": message.user_id, "timestamp": at})
    id = message.message_id or str(uuid4())
    key = fingerprint(source, id)
    return Record(FORMAT_VERSION, False, now_ms, source, message.type, id, key, message.user_id, at, "deletion", body)


def _refused(code: str, message: str) -> Problem:
    return Problem(
        422, "unusable_event", f"Hookline would not accept this event ({code}): {message}", [FieldError("/event", code)]
    )


def _unusable(name: str, message: str) -> Problem:
    field = FieldError("/event/" + name.replace("~", "~0").replace("/", "~1"), message)
    return Problem(422, "unusable_event", f"{name[:100]}: {message}.", [field])


SampleType = Literal["identify", "track", "page", "screen", "group", "alias", "delete"]

_TRAITS = {"name": "Ada Lovelace", "email": "ada@example.com", "plan": "pro"}
_ORDER = {"orderId": "4711", "total": 99.9, "currency": "EUR", "products": [{"sku": "A-1", "quantity": 2}]}
_PAGE = {"url": "https://example.com/pricing", "path": "/pricing", "title": "Pricing", "referrer": ""}

_OWN: Mapping[SampleType, dict[str, Any]] = {
    "identify": {"traits": _TRAITS},
    "track": {"event": "Order Completed", "properties": _ORDER},
    "page": {"name": "Pricing", "properties": _PAGE},
    "screen": {"name": "Home", "properties": {"variation": "blue"}},
    "group": {"groupId": "acme", "traits": {"name": "Acme", "employees": 42}},
    "alias": {"previousId": "anonymous-1"},
    "delete": {},
}

assert set(_OWN) == set(get_args(SampleType))


def sample_event(type: SampleType, timestamp: str) -> bytes:
    """Return the event as JSON; its messageId is left to be made up."""
    shared = {"type": type, "userId": "test-user", "timestamp": timestamp}
    if type == UNFILTERED_TYPE:
        return msgspec.json.encode(shared)
    context = {"ip": "203.0.113.7", "locale": "en-GB", "library": {"name": "hookline-test", "version": "1"}}
    return msgspec.json.encode({**shared, **_OWN[type], "context": context})
