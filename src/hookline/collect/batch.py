"""A batch (or import): its envelope is merged into every event, and each event stands or falls by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from hookline.collect.answers import RejectedItem
from hookline.collect.decode import BadBody, any_nested_deeper, nested_deeper
from hookline.collect.head import HEAD, Choices, Head, Scalar, context_choices, read_choices, read_item
from hookline.collect.item import Arrival, record_of
from hookline.collect.limits import BATCH_EVENTS_MAX, NESTING_LEVELS_MAX, STORED_BYTES_MAX
from hookline.collect.suppression import concerned
from hookline.collect.usual import usual_records
from hookline.connections.model import Source
from hookline.events.timestamps import MILLISECONDS_FROM, parse
from hookline.journal.record import Record
from hookline.privacy.suppressed import Suppressed

BATCH_LEVELS = 2
"""How deep an event of a batch lies already."""

_ABSENT = msgspec.Raw(b"null")
_UNREADABLE = Head()


class Batch(msgspec.Struct, rename="camel", gc=False):
    """The envelope; its events are slices of the body that nobody has taken apart yet."""

    batch: list[msgspec.Raw]
    write_key: msgspec.Raw = _ABSENT
    sent_at: msgspec.Raw = _ABSENT
    context: msgspec.Raw = _ABSENT
    integrations: msgspec.Raw = _ABSENT


BATCH = msgspec.json.Decoder(Batch)
_SCALAR: msgspec.json.Decoder[Scalar] = msgspec.json.Decoder(Scalar)


def write_key_of(batch: Batch) -> object:
    """The envelope's write key, else the first event's."""
    key = _scalar(batch.write_key)
    if key is None and batch.batch:
        key = read_item(batch.batch[0])[0].write_key
    return key


def stored_bytes_max_of(source: Source) -> int:
    """Return how many bytes of events one request of this source may store, the envelope merged into each."""
    return STORED_BYTES_MAX


class Part(NamedTuple):
    """Some events of a batch: their records, rejected ones included, what the answer says of the rejected ones, and how
    many accepted events have no record because their people are suppressed."""

    records: list[Record]
    rejected: list[RejectedItem]
    dropped: int


def records_of(
    batch: Batch,
    body: bytes,
    arrival: Arrival,
    suppressed: Suppressed | None = None,
    stored_bytes_max: int = STORED_BYTES_MAX,
) -> Part:
    """Return all events as one part; raise BadBody when the batch as a whole is past its limits."""
    for part in records_in_steps(batch, body, arrival, suppressed, stored_bytes_max, BATCH_EVENTS_MAX):
        if part is not None:
            return part
    return Part([], [], 0)


def records_in_steps(
    batch: Batch,
    body: bytes,
    arrival: Arrival,
    suppressed: Suppressed | None,
    stored_bytes_max: int,
    step_events: int,
) -> Iterator[Part | None]:
    """Yield the events in parts of at most ``step_events``, and None where nothing is there yet.

    Raise BadBody, before the first part, when the batch as a whole is past its limits.
    """
    raws = batch.batch
    if len(raws) > BATCH_EVENTS_MAX:
        raise BadBody("too_many_events")
    _open_envelope(batch, arrival)
    items = list(map(bytes, raws))
    items_bytes = sum(map(len, items))
    if items_bytes + len(items) * arrival.envelope_bytes > stored_bytes_max:
        raise BadBody("stores_too_much")
    if _around_nested_deeper(batch, body, items_bytes):
        raise BadBody("nesting_too_deep")
    for start in range(0, len(items), step_events):
        if any_nested_deeper(items[start : start + step_events], NESTING_LEVELS_MAX):
            raise BadBody("nesting_too_deep")
        yield None
    for start in range(0, len(items), step_events):
        stop = start + step_events
        yield _part(raws[start:stop], items[start:stop], arrival, suppressed, start)


def _part(
    raws: list[msgspec.Raw], items: list[bytes], arrival: Arrival, suppressed: Suppressed | None, first: int
) -> Part:
    heads = _heads(raws)
    records, others = usual_records(items, heads, arrival)
    rejected: list[RejectedItem] = []
    for index in others:
        head, refused = heads[index], None
        if head is _UNREADABLE:
            head, refused = read_item(raws[index])
            heads[index] = head
        record = record_of(items[index], head, arrival, None, refused)
        records.insert(index, record)
        if record.rejection is not None:
            code, message = record.rejection.code, record.rejection.message
            rejected.append(RejectedItem(first + index, record.message_id, code, message))
    gone = set(concerned(suppressed, heads)) if suppressed is not None else ()
    if not gone:
        return Part(records, rejected, 0)
    kept = [record for index, record in enumerate(records) if index not in gone]
    return Part(kept, rejected, sum(records[index].rejection is None for index in gone))


def _around_nested_deeper(batch: Batch, body: bytes, items_bytes: int) -> bool:
    parts = [bytes(part) for part in (batch.context, batch.integrations) if part is not _ABSENT]
    if any_nested_deeper(parts, NESTING_LEVELS_MAX + BATCH_LEVELS - 1):
        return True
    # What is left of the body is seldom long enough to be nested too deep: keys, times, commas.
    rest_bytes = len(body) - items_bytes - 2 * len(batch.batch) - sum(map(len, parts))
    return rest_bytes > 2 * NESTING_LEVELS_MAX and nested_deeper(body, NESTING_LEVELS_MAX + BATCH_LEVELS)


def _heads(raws: list[msgspec.Raw]) -> list[Head]:
    """The heads of the items; an item that is no event, or has a field of the wrong type, gets an empty one."""
    try:
        return list(map(HEAD.decode, raws))
    except msgspec.ValidationError:
        return [_head(raw) for raw in raws]


def _head(raw: msgspec.Raw) -> Head:
    try:
        return HEAD.decode(raw)
    except msgspec.ValidationError:
        return _UNREADABLE


def _open_envelope(batch: Batch, arrival: Arrival) -> None:
    arrival.sent_at = _milliseconds(_scalar(batch.sent_at))
    context, integrations = bytes(batch.context), bytes(batch.integrations)
    members = [
        b'"%b":%b' % (name, value)
        for name, value in ((b"context", context), (b"integrations", integrations))
        if value.startswith(b"{") and value != b"{}"
    ]
    if not members:
        return
    arrival.envelope = b"{" + b",".join(members) + b"}"
    arrival.envelope_bytes = len(arrival.envelope)
    choices: list[Choices | None] = [context_choices(batch.context), read_choices(batch.integrations)]
    arrival.choices = tuple(choice for choice in choices if choice)


def _milliseconds(sent_at: Scalar) -> Scalar:
    # Read once here instead of once per event; small numbers would be taken for seconds and stay as they are.
    read = parse(sent_at)
    return read if read is not None and read > MILLISECONDS_FROM else sent_at


def _scalar(raw: msgspec.Raw) -> Scalar:
    try:
        return _SCALAR.decode(raw)
    except msgspec.ValidationError:
        return None
