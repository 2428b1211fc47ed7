"""The fields of an event: what is asked of each type, what is made up, and what the record says."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import pytest

from hookline.collect import decode
from hookline.events.body import render_canonical
from hookline.events.timestamps import iso
from hookline.journal.record import Record, fingerprint
from tests.unit.collect.wire import OTHER_KEY, TRACK, Running, sized

GOOD: dict[str, dict[str, Any]] = {
    "identify": {"anonymousId": "a1"},
    "track": {"userId": "u1", "event": "Order"},
    "page": {"userId": "u1"},
    "screen": {"anonymousId": "a1"},
    "group": {"userId": "u1", "groupId": "g1"},
    "alias": {"userId": "u1", "previousId": "p1"},
}
ABSENT = [None, ""]


def _one(edge: Running) -> Record:
    (record,) = edge.memory.records
    return record


@pytest.mark.parametrize("type_", GOOD)
def test_each_type_with_what_it_needs_is_stored(edge: Running, type_: str) -> None:
    """A good call of each type becomes one accepted record with the caller's bytes."""
    body = json.dumps(GOOD[type_]).encode()
    assert edge.post(f"/v1/{type_}", body).status == 200
    record = _one(edge)
    assert (record.type, record.source, record.body, record.origin) == (type_, "web", body, "sdk")
    assert (record.envelope, record.selection, record.to, record.rejection) == (None, None, None, None)
    assert record.user_key in ("u1", "a1")


MISSING = [(type_, "ids", "missing_user_id") for type_ in GOOD]
MISSING += [
    ("track", "event", "missing_event"),
    ("group", "groupId", "missing_group_id"),
    ("alias", "previousId", "missing_previous_id"),
    ("alias", "userId", "missing_user_id"),
]


@pytest.mark.parametrize("absent", ABSENT)
@pytest.mark.parametrize(("type_", "field", "code"), MISSING)
def test_what_is_missing_is_named(edge: Running, type_: str, field: str, code: str, absent: object) -> None:
    """A missing, null or empty field is 400 with its code; the event is kept for inspection, never delivered."""
    names = ("userId", "anonymousId") if field == "ids" else (field,)
    event = {"anonymousId": "a1", **GOOD[type_], **dict.fromkeys(names, absent), "messageId": "m1"}
    answer = edge.post(f"/v1/{type_}", event)
    assert (answer.status, edge.reason(answer)) == (400, code)
    record = _one(edge)
    assert record.rejection is not None
    assert (record.rejection.code, record.message_id, record.type) == (code, "m1", type_)
    assert json.loads(record.body) == event


def test_anonymous_alias_is_refused(edge: Running) -> None:
    """An alias needs userId itself; anonymousId does not stand in for it."""
    assert edge.post("/v1/alias", {"anonymousId": "a1", "previousId": "p1"}).code == "missing_user_id"


@pytest.mark.parametrize("field", ["userId", "anonymousId", "event"])
@pytest.mark.parametrize("value", [True, {"a": 1}, ["x"], []])
def test_wrong_types_are_refused(edge: Running, field: str, value: object) -> None:
    """An id or a name that is neither text nor number is 400."""
    assert edge.reason(edge.post("/v1/track", {**TRACK, field: value})) == "invalid_field"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        *((7, "7"), (7.0, "7"), (7.5, "7.5"), (2**64, str(2**64)), (0, "0"), (-1, "-1")),
        *((1e-7, "1e-7"), (1e-5, "0.00001"), (2.0**63, "9223372036854776000"), (1e21, "1e+21")),
    ],
)
def test_numeric_ids_are_strings(edge: Running, value: float, key: str) -> None:
    """A numeric id counts as the string JavaScript would make of it, which is what receivers get."""
    assert edge.post("/v1/track", {**TRACK, "userId": value}).status == 200
    record = _one(edge)
    assert (record.user_key, json.loads(render_canonical(record))["userId"]) == (key, key)


def test_user_id_goes_before_anonymous_id(edge: Running) -> None:
    """One user's events share a key: the user id where there is one."""
    edge.post("/v1/track", {**TRACK, "anonymousId": "a1"})
    edge.post("/v1/track", {**TRACK, "anonymousId": "a1", "userId": None})
    assert [record.user_key for record in edge.memory.records] == ["u1", "a1"]


@pytest.mark.parametrize("absent", ["none", None, ""])
def test_a_message_id_is_made_when_missing(edge: Running, absent: str | None) -> None:
    """Without messageId one is made, told to the caller and stored."""
    event = {key: value for key, value in TRACK.items() if key != "messageId"}
    if absent != "none":
        event["messageId"] = absent  # type: ignore[assignment]
    told = edge.post("/v1/track", event).json["messageId"]
    assert uuid.UUID(told).version == 4
    assert _one(edge).message_id == told


@pytest.mark.parametrize("message_id", ["a.b", "x\r\nY: z", "\x00", "🙂", "\u202eabc", 'q"\\', " ", "m" * 512])
def test_any_text_is_a_message_id(edge: Running, message_id: str) -> None:
    """A messageId may hold any character; it is stored and told as it came, with the fingerprint over both parts."""
    assert edge.post("/v1/track", {**TRACK, "messageId": message_id}).json["messageId"] == message_id
    record = _one(edge)
    assert (record.message_id, record.fingerprint) == (message_id, fingerprint("web", message_id))


def test_a_numeric_message_id_is_its_digits(edge: Running) -> None:
    """A number as messageId is taken as text, so that a resend is recognised."""
    assert edge.post("/v1/track", {**TRACK, "messageId": 12345}).json["messageId"] == "12345"


@pytest.mark.parametrize("message_id", ["m" * 513, {"a": 1}, ["m"], True])
def test_an_impossible_message_id_is_refused(edge: Running, message_id: object) -> None:
    """An id too long or of a wrong type cannot name an event: 400, kept under an id of its own."""
    assert edge.reason(edge.post("/v1/track", {**TRACK, "messageId": message_id})) == "invalid_message_id"
    assert uuid.UUID(_one(edge).message_id)


def test_the_fingerprint_tells_sources_apart(edge: Running) -> None:
    """The same messageId of two sources is two events."""
    edge.post("/v1/track", TRACK)
    edge.post("/v1/track", TRACK, key=OTHER_KEY)
    first, second = edge.memory.records
    assert first.fingerprint != second.fingerprint
    assert (first.source, second.source) == ("web", "server")


def _stamp(edge: Running, **fields: object) -> str:
    edge.memory.records.clear()
    assert edge.post("/v1/track", {**TRACK, **fields}).status == 200
    return _one(edge).timestamp


def test_timestamps_of_sdks(edge: Running) -> None:
    """timestamp counts, else originalTimestamp, in ISO or seconds; out comes ISO with milliseconds and Z."""
    assert _stamp(edge, timestamp="2026-11-20T07:00:00+0000") == "2026-11-20T07:00:00.000Z"
    assert _stamp(edge, timestamp=1_600_000_000) == "2020-09-13T12:26:40.000Z"
    assert _stamp(edge, originalTimestamp="2026-11-20T07:00:00.1Z") == "2026-11-20T07:00:00.100Z"
    assert _stamp(edge, timestamp="2026-11-20T07:00:00Z", originalTimestamp="2001-01-01T00:00:00Z")[:4] == "2026"


@pytest.mark.parametrize("value", [None, "", "soon", {}, [], True, "0000-00-00", 1e300, 10**400])
def test_no_timestamp_means_server_time(edge: Running, value: object) -> None:
    """A missing or unreadable timestamp is replaced by the time of receipt, never refused."""
    before = int(time.time() * 1000)
    _stamp(edge, timestamp=value)
    record = _one(edge)
    assert before <= record.received_at <= time.time() * 1000
    assert record.timestamp[:10] == time.strftime("%Y-%m-%d", time.gmtime(record.received_at / 1000))


def test_clock_skew_is_corrected(edge: Running) -> None:
    """With sentAt, the time between event and sending is taken back from the time of receipt."""
    sent = {"sentAt": "2001-01-01T00:01:00Z", "timestamp": "2001-01-01T00:00:00Z"}
    stamp = _stamp(edge, **sent)
    record = _one(edge)
    assert stamp == iso(record.received_at - 60_000)


@pytest.mark.parametrize(
    ("fields", "selection"),
    [
        ({}, None),
        ({"integrations": {}}, None),
        ({"integrations": {"All": True}}, None),
        ({"integrations": {"All": False, "Webhooks": True}}, {"All": False, "Webhooks": True}),
        ({"integrations": {"Webhooks": False}}, {"Webhooks": False}),
        ({"integrations": {"All": False, "Webhooks": {"a": 1}}}, {"All": False, "Webhooks": True}),
        ({"context": {"integrations": {"All": False}}}, {"All": False}),
        ({"context": {"integrations": {"All": False}}, "integrations": {"All": True}}, None),
        ({"context": {"integrations": {"All": False}}, "integrations": {"X": True}}, {"All": False, "X": True}),
        ({"integrations": {"All": False, "Webhooks": None}}, {"All": False}),
        ({"integrations": ["All"], "context": "none"}, None),
        ({"integrations": {"All": False}, "context": 7}, {"All": False}),
        ({"integrations": {"All": False, "x": 10**400}}, {"All": False, "x": True}),
        ({"integrations": 7, "context": {"integrations": {"Webhooks": False}}}, {"Webhooks": False}),
    ],
)
def test_destination_selection(edge: Running, fields: dict[str, Any], selection: dict[str, bool] | None) -> None:
    """The event's own map goes over that of its context, options mean true; none is stored when nothing is off."""
    assert edge.post("/v1/track", {**TRACK, **fields}).status == 200
    assert _one(edge).selection == selection


def test_wrong_kinds_of_context_and_properties_are_no_fault(edge: Running) -> None:
    """What only advises or is free-form refuses no event."""
    odd = {"context": [], "integrations": "x", "properties": 7, "traits": "y", "sentAt": {}, "timestamp": [1]}
    assert edge.post("/v1/track", {**TRACK, **odd}).status == 200


def test_the_trace_is_kept(edge: Running) -> None:
    """A sound traceparent header is stored with the event, any other is not."""
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    edge.post("/v1/track", TRACK, traceparent=trace)
    edge.post("/v1/track", TRACK, traceparent=trace + "; x")
    assert [record.traceparent for record in edge.memory.records] == [trace, None]


def test_a_big_rejected_event_is_kept_in_part(edge: Running) -> None:
    """Of a rejected event past 4 KB the start is kept, as JSON that says how big it was."""
    body = sized(9_000, userId=None)
    edge.post("/v1/track", body)
    kept = json.loads(_one(edge).body)
    assert kept["bytes"] == 9_000
    assert body.decode().startswith(kept["start"])
    assert len(_one(edge).body) <= decode.REJECTED_BODY_BYTES_MAX


def test_a_refusal_does_not_wait_for_the_disk(edge: Running) -> None:
    """A bad call is answered while its record is still on the way to the disk."""
    edge.memory.hold = True
    try:
        assert edge.post("/v1/track", {}).status == 400
        assert len(edge.memory.held) == 1
    finally:
        edge.memory.hold = False
        edge.memory.held.clear()


def test_counters_tell_it_all(edge: Running) -> None:
    """Accepted events, refusals by code and requests by status are counted."""
    before = edge.edge.counters.snapshot()
    edge.post("/v1/track", TRACK)
    edge.post("/v1/group", TRACK)
    after = edge.edge.counters.snapshot()
    assert after["accepted"] == before.get("accepted", 0) + 1
    assert after["rejected.missing_group_id"] == before.get("rejected.missing_group_id", 0) + 1
    assert after["requests.400"] == before.get("requests.400", 0) + 1
