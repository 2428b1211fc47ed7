"""The bulk way of a batch's usual events says what ``record_of`` says, event for event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.collect.batch import BATCH, records_of
from hookline.collect.decode import EVENT_BYTES_MAX, MESSAGE_ID_CHARACTERS_MAX
from hookline.collect.item import HEAD, Arrival, read_item, record_of, usual_records
from hookline.journal.record import Record

NOW = 1_795_158_000_000
USUAL = {
    "type": "track",
    "userId": "u1",
    "event": "Order",
    "messageId": "m1",
    "timestamp": "2026-11-20T07:00:00.123Z",
}
LONGEST_ID = "m" * MESSAGE_ID_CHARACTERS_MAX
PADDED = {**USUAL, "pad": "x" * (EVENT_BYTES_MAX - len(json.dumps({**USUAL, "pad": ""})))}

ODD = st.sampled_from([None, "", "x", 0, 7, 1.5, True, [], {}, {"a": 1}, "é\ud83d\ude00"])
SELECTIONS = st.sampled_from([None, {}, {"All": True}, {"All": False}, {"crm": False, "b": {"x": 1}}, [], 7])
TIMESTAMPS = st.sampled_from(
    [USUAL["timestamp"], "2026-11-20T08:59:59.999Z", "2026-11-20T07:00:00+01:00", "1969-12-31T23:59:59.999Z", 1e9, "no"]
)
EVENTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["track", "identify", "page", "screen", "group", "alias", "delete"]) | ODD,
        "userId": st.just("u1") | ODD,
        "anonymousId": st.just("a1") | ODD,
        "event": st.just("Order") | ODD,
        "messageId": st.sampled_from(["m1", LONGEST_ID, LONGEST_ID + "m"]) | ODD,
        "timestamp": TIMESTAMPS | ODD,
        "originalTimestamp": TIMESTAMPS,
        "sentAt": TIMESTAMPS,
        "groupId": ODD,
        "previousId": ODD,
        "integrations": SELECTIONS,
        "context": SELECTIONS | st.fixed_dictionaries({"integrations": SELECTIONS}),
    },
)
ITEMS = st.one_of(st.just(USUAL), EVENTS.map(lambda fields: {**USUAL, **fields}), EVENTS, ODD, st.just(PADDED))
ENVELOPE = {"sentAt": TIMESTAMPS, "context": SELECTIONS, "integrations": SELECTIONS}


def _known(record: Record) -> Record:
    """The record without an id that was made up for it."""
    if len(record.message_id) == 36:
        record.message_id, record.fingerprint = "", b""
    return record


@given(st.lists(ITEMS, max_size=8), st.fixed_dictionaries({}, optional=ENVELOPE))
def test_bulk_equals_one_by_one(items: list[Any], envelope: dict[str, Any]) -> None:
    """Whatever the events and their envelope, records, their order and the rejections are those of ``record_of``."""
    body = json.dumps({"batch": items, **envelope}).encode()
    arrival = Arrival("web", NOW, "00-trace")
    batch = BATCH.decode(body)
    records, rejected, _, _ = records_of(batch, body, arrival)
    expected = []
    for raw in batch.batch or ():
        head, refused = read_item(raw)
        expected.append(_known(record_of(bytes(raw), head, arrival, None, refused)[0]))
    assert [_known(record) for record in records] == expected
    refusals = [(index, record.rejection) for index, record in enumerate(expected) if record.rejection]
    assert [(item.index, item.code) for item in rejected] == [(index, why.code) for index, why in refusals]


def _others(*events: dict[str, Any]) -> list[int]:
    items = [json.dumps(event).encode() for event in events]
    return usual_records(items, [HEAD.decode(item) for item in items], Arrival("web", NOW))[1]


def test_usual_events_are_taken_in_bulk() -> None:
    """What SDKs send needs no second look: user or visitor, selections, either time, all types without further ids."""
    visitor = {key: value for key, value in USUAL.items() if key != "userId"} | {"anonymousId": "a1"}
    chosen = USUAL | {"integrations": {"All": True}, "context": {"ip": "1.2.3.4", "integrations": {"crm": False}}}
    original = {**USUAL, "timestamp": None, "originalTimestamp": USUAL["timestamp"], "sentAt": USUAL["timestamp"]}
    pages = [{**USUAL, "type": type_} for type_ in ("identify", "page", "screen")]
    assert _others(USUAL, visitor, chosen, original, *pages, {**USUAL, "messageId": LONGEST_ID}, PADDED) == []


@pytest.mark.parametrize(
    "change",
    [
        {"type": "group", "groupId": "g"},
        {"type": "delete"},
        {"event": ""},
        {"userId": ""},
        {"userId": 0, "anonymousId": "a1"},
        {"messageId": 7},
        {"messageId": LONGEST_ID + "m"},
        {"timestamp": None},
        {"timestamp": 1_795_158_000},
        {"timestamp": "", "originalTimestamp": "2026-11-20T07:00:00.123Z"},
        {"pad": PADDED["pad"] + "x"},
    ],
)
def test_anything_else_is_left_to_the_rules(change: dict[str, Any]) -> None:
    """An event with one thing unusual about it is named by its index; those around it stay in bulk."""
    assert _others(USUAL, {**USUAL, **change}, USUAL) == [1]
