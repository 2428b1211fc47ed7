"""A batch (or import): its envelope is merged into every event, and each event stands or falls by itself.

A request is a browser's when it has an ``Origin``, which browsers add to every POST and nothing else sends; or when its
source is a website and the library that its event names is one for browsers, where a proxy dropped that header.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import inf
from typing import Any, NamedTuple

import msgspec

from hookline.client_address import Network, client_address, forwarded
from hookline.collect.decode import (
    BATCH_EVENTS_MAX,
    NESTING_LEVELS_MAX,
    STORED_BYTES_MAX,
    STORED_BYTES_MORE,
    BadBody,
    any_nested_deeper,
    load,
    nested_deeper,
)
from hookline.collect.http.answers import WARNINGS_MAX, ListedWarning, RejectedItem
from hookline.collect.http.clients import FORWARDED_BYTES_KEPT
from hookline.collect.http.request import Exchange
from hookline.collect.http.router import SERVER_ONLY
from hookline.collect.item import (
    HEAD,
    Arrival,
    Head,
    concerned,
    context_choices,
    read_choices,
    read_item,
    read_unusual_item,
    record_of,
    switches_of,
    usual_records,
)
from hookline.events.timestamps import MILLISECONDS_FROM, parse
from hookline.events.untyped import Scalar, scalar
from hookline.events.warnings import EventWarning, is_object_or_none, warning, warnings_of
from hookline.journal.record import Record
from hookline.privacy.suppressions import Suppressed

LIBRARIES = frozenset(("analytics.js", "RudderLabs JavaScript SDK"))
"""What browser SDKs call themselves in ``context.library.name``; Customer.io's and June's are Segment's."""

LIBRARY = b'"library"'
"""Without it an event does not say what made it."""

ADDRESSES_KEPT = 1_024


class _Library(msgspec.Struct, gc=False):
    name: str | None = None


class _Context(msgspec.Struct, gc=False):
    library: _Library | None = None


class _Event(msgspec.Struct, gc=False):
    context: _Context | None = None


class _Address(msgspec.Struct, gc=False):
    ip: msgspec.Raw = msgspec.Raw()


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_address = msgspec.json.Decoder(_Address).decode


class BrowserAddresses:
    """Finds the address of a request's browser, as the member ``"ip":"…"`` of a context, empty where it is not kept."""

    __slots__ = ("_kept", "_trusted")

    def __init__(self, trusted: Sequence[Network]) -> None:
        self._trusted = trusted
        self._kept: dict[tuple[str, tuple[bytes, bytes]], bytes] = {}

    def member(self, exchange: Exchange) -> bytes:
        """Return the member for a browser's request."""
        headers = exchange.headers
        if headers.get(b"x-ip-policy", b"keep") != b"keep" or exchange.path.startswith(SERVER_ONLY):
            return b""  # Jitsu's SDK says where an address is not wanted
        said = forwarded(headers)
        key = exchange.line.peer, said
        member = self._kept.get(key)
        if member is None:
            address = client_address(key[0], [said], self._trusted)
            member = b'"ip":"%b"' % address.encode() if address else b""
            if len(said[1]) <= FORWARDED_BYTES_KEPT:
                if len(self._kept) >= ADDRESSES_KEPT:
                    self._kept.clear()
                self._kept[key] = member
        return member


def with_address(context: bytes, member: bytes) -> bytes:
    """Return a context, written as an object or empty for none, with the address where it has none."""
    if not context or not context[1:-1].strip():
        return b"{%b}" % member
    return context if bytes(_decode_address(context).ip) else b"{%b,%b" % (member, context[1:])


def is_of_browser(event: bytes) -> bool:
    """Return whether an event, or an envelope, names a library of browsers."""
    if LIBRARY not in event:  # as in most calls of servers: to decode them costs ten times as much
        return False
    try:
        context = _decode_event(event).context
    except (ValueError, RecursionError):
        return False
    return context is not None and context.library is not None and context.library.name in LIBRARIES


BATCH_LEVELS = 2
"""How deep an event of a batch lies already."""

_ABSENT = msgspec.Raw(b"null")
_UNREADABLE = Head()
_NO_WARNINGS: list[EventWarning] = []


class Batch(msgspec.Struct, rename="camel", gc=False):
    """The envelope; its events are slices of the body that nobody has taken apart yet."""

    batch: list[msgspec.Raw] | None
    """``null`` is taken for none, with a warning."""
    write_key: msgspec.Raw = _ABSENT
    sent_at: msgspec.Raw = _ABSENT
    context: msgspec.Raw = _ABSENT
    integrations: msgspec.Raw = _ABSENT


BATCH = msgspec.json.Decoder(Batch)

LARGE_BODY_BYTES = 128 * 1024
"""A body below holds 64 thousand items at most, which are counted once they are there: 4 ms."""
_NO_ITEM = msgspec.Raw()


class _LargeBatch(msgspec.Struct, rename="camel", gc=False):
    """Hold the envelope of a large body. Its list is a slice as well: one that is written again and again would be
    taken apart each time."""

    batch: msgspec.Raw
    write_key: msgspec.Raw = _ABSENT
    sent_at: msgspec.Raw = _ABSENT
    context: msgspec.Raw = _ABSENT
    integrations: msgspec.Raw = _ABSENT


_LARGE_BATCH = msgspec.json.Decoder(_LargeBatch)


@cache
def _items() -> msgspec.json.Decoder[Any]:
    """Return what takes the list of a large body apart: the item after the last that is allowed ends the decoding.

    Of a list, ``max_length`` is looked at when all of it is there, and a few hundred bytes of gzip hold hundreds of
    thousands. Made when it is needed first: it takes 2 MB and 3 ms.
    """
    items = msgspec.defstruct(
        "_Items",
        [(f"item_{number}", msgspec.Raw, _NO_ITEM) for number in range(BATCH_EVENTS_MAX)],
        array_like=True,
        forbid_unknown_fields=True,
        gc=False,
    )
    return msgspec.json.Decoder(items | None)


_TOO_MANY_ITEMS = f"Expected `array` of at most length {BATCH_EVENTS_MAX}"


def read_batch(body: bytes) -> tuple[Batch, bytes, int]:
    """Return the envelope, the body as it is to be stored, and how many surrogates were repaired; raise BadBody."""
    try:
        if len(body) < LARGE_BODY_BYTES:
            return load(body, BATCH, None)
        large, body, repaired = load(body, _LARGE_BATCH, None)
        found = _items().decode(large.batch)
    except msgspec.ValidationError as error:
        code = "too_many_events" if str(error).startswith(_TOO_MANY_ITEMS) else "invalid_body"
        raise BadBody(code) from None
    items = None
    if found is not None:
        all_items = msgspec.structs.astuple(found)
        items = list(all_items[: bisect_left(all_items, True, key=lambda item: item is _NO_ITEM)])
    return Batch(items, large.write_key, large.sent_at, large.context, large.integrations), body, repaired


def write_key_of(batch: Batch) -> object:
    """Return the envelope's write key, else the first event's."""
    key = _scalar(batch.write_key)
    if key is None and batch.batch:
        key = read_item(batch.batch[0])[0].write_key
    return key


def _stored_bytes_max(arrival: Arrival) -> int:
    """Return how many bytes of events one request may store, the envelope merged into each."""
    return max(STORED_BYTES_MAX, arrival.batch_bytes_max + STORED_BYTES_MORE)


class Part(NamedTuple):
    """Some events of a batch: their records, rejected ones included, what the answer says of rejected ones and of those
    that were understood otherwise than sent, and how many accepted events have no record because their people are
    suppressed."""

    records: list[Record]
    rejected: list[RejectedItem]
    warnings: list[ListedWarning]
    dropped: int


def about_library(batch: Batch) -> list[bytes]:
    """Return what may name the library that sent a batch: its envelope, and its first event."""
    return [b'{"context":%b}' % bytes(batch.context), *map(bytes, (batch.batch or ())[:1])]


def records_of(batch: Batch, body: bytes, arrival: Arrival, suppressed: Suppressed | None = None) -> Part:
    """Return all events as one part; raise BadBody when the batch as a whole is past its limits."""
    whole = Part([], [], [], 0)
    for part in records_in_steps(batch, body, arrival, lambda: suppressed, BATCH_EVENTS_MAX, inf):
        if part is not None:
            whole = Part(part.records, part.rejected, [*whole.warnings, *part.warnings], part.dropped)
    return whole


def records_in_steps(
    batch: Batch,
    body: bytes,
    arrival: Arrival,
    suppressed: Callable[[], Suppressed | None],
    step_events: int,
    step_bytes: float,
) -> Iterator[Part | None]:
    """Yield the events in parts of at most ``step_events``, and None where nothing is there yet. What is to be said of
    the envelope comes first, as a part without events. Who is ``suppressed`` is asked for each part: the list may
    change between two. How deep events are nested is looked at one by one where so many have more than ``step_bytes``.

    Raise BadBody, before the first part, when the batch as a whole is past its limits.
    """
    raws = batch.batch or []
    if len(raws) > BATCH_EVENTS_MAX:
        raise BadBody("too_many_events")
    listed = [ListedWarning(each.code, each.field, each.message) for each in _open_envelope(batch, arrival)]
    items = list(map(bytes, raws))
    items_bytes = sum(map(len, items))
    if items_bytes + len(items) * arrival.envelope_bytes > _stored_bytes_max(arrival):
        raise BadBody("stores_too_much")
    if _around_nested_deeper(batch, body, items_bytes):
        raise BadBody("nesting_too_deep")
    for start in range(0, len(items), step_events):
        some = items[start : start + step_events]
        is_short = items_bytes <= step_bytes or sum(map(len, some)) <= step_bytes
        for part in (some,) if is_short else ([item] for item in some):
            if any_nested_deeper(part, NESTING_LEVELS_MAX):
                raise BadBody("nesting_too_deep")
            yield None
    if listed:
        yield Part([], [], listed, 0)
    for start in range(0, len(items), step_events):
        stop = start + step_events
        yield _part(raws[start:stop], items[start:stop], arrival, suppressed(), start)


def _part(
    raws: list[msgspec.Raw], items: list[bytes], arrival: Arrival, suppressed: Suppressed | None, first: int
) -> Part:
    heads = _heads(raws)
    records, others, doubtful = usual_records(items, heads, arrival)
    rejected: list[RejectedItem] = []
    for index in others:
        head, refused = heads[index], None
        was_unreadable = head is _UNREADABLE
        if was_unreadable:
            head, refused = read_unusual_item(raws[index])
            heads[index] = head
        record, is_time_unreadable = record_of(items[index], head, arrival, None, refused)
        if was_unreadable or is_time_unreadable:
            doubtful.append(index)
        records.insert(index, record)
        if record.rejection is not None:
            code, message = record.rejection.code, record.rejection.message
            rejected.append(RejectedItem(first + index, record.message_id, code, message))
    listed = _listed(sorted(doubtful), items, records, first) if doubtful else []
    gone = set(concerned(suppressed, heads)) if suppressed is not None else ()
    if not gone:
        return Part(records, rejected, listed, 0)
    kept = [record for index, record in enumerate(records) if index not in gone]
    return Part(kept, rejected, listed, sum(records[index].rejection is None for index in gone))


def _listed(doubtful: list[int], items: list[bytes], records: list[Record], first: int) -> list[ListedWarning]:
    """Return the warnings of these events, those of rejected ones apart: one more than are told at most."""
    found: list[ListedWarning] = []
    for index in doubtful:
        if records[index].rejection is None:
            id = records[index].message_id
            found += [ListedWarning(w.code, w.field, w.message, first + index, id) for w in warnings_of(items[index])]
        if len(found) > WARNINGS_MAX:
            break
    return found


def _around_nested_deeper(batch: Batch, body: bytes, items_bytes: int) -> bool:
    parts = [bytes(part) for part in (batch.context, batch.integrations) if part is not _ABSENT]
    if any_nested_deeper(parts, NESTING_LEVELS_MAX + BATCH_LEVELS - 1):
        return True
    # What is left of the body is seldom long enough to be nested too deep: keys, times, commas.
    rest_bytes = len(body) - items_bytes - 2 * len(batch.batch or ()) - sum(map(len, parts))
    return rest_bytes > 2 * NESTING_LEVELS_MAX and nested_deeper(body, NESTING_LEVELS_MAX + BATCH_LEVELS)


def _heads(raws: list[msgspec.Raw]) -> list[Head]:
    """Return the heads of the items; an item that is no event, or has a field of the wrong type, gets an empty one."""
    try:
        return list(map(HEAD.decode, raws))
    except msgspec.ValidationError:
        return [_head(raw) for raw in raws]


def _head(raw: msgspec.Raw) -> Head:
    try:
        return HEAD.decode(raw)
    except msgspec.ValidationError:
        return _UNREADABLE


def _open_envelope(batch: Batch, arrival: Arrival) -> list[EventWarning]:
    """Put what all events share into the arrival; return what of it was understood otherwise than sent."""
    warnings = _NO_WARNINGS if batch.batch is not None else [warning("empty_batch", "batch")]
    sent_at = arrival.sent_at = _milliseconds(_scalar(batch.sent_at))
    if sent_at is None and bytes(batch.sent_at) not in (b"null", b'""'):
        warnings = [*warnings, warning("unreadable_time", "sentAt")]
    context, integrations = bytes(batch.context), bytes(batch.integrations)
    for name, value in (("context", batch.context), ("integrations", batch.integrations)):
        if value is not _ABSENT and not is_object_or_none(value):
            warnings = [*warnings, warning("not_an_object", name)]
    written = _written(context, integrations)
    arrival.envelope_bytes = len(written)
    if arrival.address:
        context = with_address(context if context.startswith(b"{") else b"", arrival.address)
    if not written and not arrival.address:
        return warnings
    arrival.envelope = _written(context, integrations)
    arrival.switches = switches_of({}, context_choices(batch.context), read_choices(batch.integrations))
    return warnings


def _written(context: bytes, integrations: bytes) -> bytes:
    """Return the envelope as it is stored, empty when it has nothing to give to events."""
    members = [
        b'"%b":%b' % (name, value)
        for name, value in ((b"context", context), (b"integrations", integrations))
        if value.startswith(b"{") and value != b"{}"
    ]
    return b"{" + b",".join(members) + b"}" if members else b""


def _milliseconds(sent_at: Scalar) -> Scalar:
    # Read once here instead of once per event; small numbers would be taken for seconds and stay as they are.
    read = parse(sent_at)
    return sent_at if read is not None and read <= MILLISECONDS_FROM else read


def _scalar(raw: msgspec.Raw) -> Scalar:
    try:
        return scalar(raw)
    except msgspec.ValidationError:
        return None
