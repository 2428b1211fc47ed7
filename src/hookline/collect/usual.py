"""The usual events of a batch, made into records in bulk; ``item.record_of`` states the rules and has the last word.

Usual is what nearly every event of an SDK is: ids and time given as text, and nothing missing. An event that is not,
for whatever reason, is left to ``record_of``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.collect.head import Head
from hookline.collect.item import Arrival, selection
from hookline.collect.limits import EVENT_BYTES_MAX, MESSAGE_ID_CHARACTERS_MAX
from hookline.events.fingerprint import fingerprints
from hookline.events.timestamps import resolve_all
from hookline.journal.record import FORMAT_VERSION, Record

_NEED_NO_NAME = frozenset(("identify", "page", "screen"))


def usual_records(
    items: Sequence[bytes], heads: Sequence[Head], arrival: Arrival
) -> tuple[list[Record], list[int], list[int]]:
    """The records of the usual events in their order, equal to what ``record_of`` makes, the others' indexes, and the
    indexes of usual ones with a time nobody can read.
    """
    others = _unusual(items, heads, arrival)
    # Any: the type checker cannot see that type, ids and time of what is left are text.
    usual: Sequence[Any] = heads
    if others:
        skipped = set(others)
        usual = [head for index, head in enumerate(heads) if index not in skipped]
        items = [item for index, item in enumerate(items) if index not in skipped]
    received_at, source, sent_at = arrival.received_at, arrival.source, arrival.sent_at
    envelope, choices, traceparent = arrival.envelope, arrival.choices, arrival.traceparent
    prints = fingerprints(source, [head.message_id for head in usual])
    timestamps, unreadable = resolve_all(
        received_at,
        [head.original_timestamp if head.timestamp is None else head.timestamp for head in usual],
        [head.sent_at or sent_at for head in usual],
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
            selection(head, choices)
            if choices or head.integrations or (head.context and head.context.integrations)
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
