"""A batch: each event stands or falls by itself, the envelope reaches all of them, and the whole is bounded."""

from __future__ import annotations

import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from hookline.collect import batch, decode
from hookline.collect.batch import LARGE_BODY_BYTES, read_batch
from hookline.events.timestamps import iso
from tests.unit.collect.wire import TRACK, Answer, Running, sized, zipped

EVENT = {**TRACK, "type": "track"}


def _batch(edge: Running, events: list[Any], **envelope: object) -> Answer:
    return edge.post("/v1/batch", {"batch": events, **envelope})


def test_good_events_pass_and_bad_ones_are_named(edge: Running) -> None:
    """In a mixed batch the good are accepted, each bad one is told with its place and reason, and both are kept."""
    events = [EVENT, {**EVENT, "event": "", "messageId": "m2"}, {**EVENT, "messageId": "m3"}, {"type": "group"}]
    answer = _batch(edge, events)
    assert (answer.status, answer.json["success"], answer.json["accepted"]) == (200, True, 2)
    first, second = answer.json["rejected"]
    assert (first["index"], first["messageId"], first["code"]) == (1, "m2", "missing_event")
    assert (second["index"], second["code"]) == (3, "missing_user_id")
    assert first["message"]
    reasons = [record.rejection and record.rejection.code for record in edge.memory.records]
    assert reasons == [None, "missing_event", None, "missing_user_id"]


def test_a_batch_of_nothing_but_bad_events_is_200(edge: Running) -> None:
    """The client is not made to send again what can never pass."""
    answer = _batch(edge, [{"type": "track"}] * 3)
    assert (answer.status, answer.json["accepted"], len(answer.json["rejected"])) == (200, 0, 3)


def test_a_source_is_heard_by_its_good_events(edge: Running) -> None:
    """What is refused does not count: a source whose every event is bad is as good as silent."""
    edge.edge.counters.heard.clear()
    _batch(edge, [{"type": "track"}])
    assert edge.edge.counters.heard == set()
    _batch(edge, [EVENT])
    assert edge.edge.counters.heard == {edge.memory.records[-1].source}


def test_an_empty_batch_is_200(edge: Running) -> None:
    """No events, nothing stored, no error."""
    assert _batch(edge, []).json == {"success": True, "accepted": 0, "rejected": []}
    assert edge.memory.records == []


@pytest.mark.parametrize(
    ("event", "code"),
    [
        ({"userId": "u1"}, "missing_type"),
        ({"userId": "u1", "type": None}, "missing_type"),
        ({"userId": "u1", "type": "Track"}, "unknown_type"),
        ({"userId": "u1", "type": "delete"}, "unknown_type"),
        ({"userId": "u1", "type": 7}, "unknown_type"),
        ({"userId": "u1", "type": ["track"]}, "unknown_type"),
        ({"userId": {}, "type": "page"}, "invalid_field"),
        ({"userId": "u1", "type": "page", "messageId": "m" * 513}, "invalid_message_id"),
        (7, "invalid_item"),
        ("x", "invalid_item"),
        (None, "invalid_item"),
        ([], "invalid_item"),
    ],
)
def test_bad_items(edge: Running, event: object, code: str) -> None:
    """Each kind of bad item is rejected alone with its code and kept as JSON."""
    answer = _batch(edge, [EVENT, event])
    assert answer.json["accepted"] == 1
    assert [(item["index"], item["code"]) for item in answer.json["rejected"]] == [(1, code)]
    assert json.loads(edge.memory.records[1].body) == event


def test_events_keep_their_bytes(edge: Running) -> None:
    """Each event is stored as the slice of the batch that it was, spaces, escapes and numbers included."""
    first = rb'{ "type":"track", "userId":1, "event":"caf\u00e9", "properties":{"n":1.50} }'
    second = '{"type":"page","anonymousId":"ü","x":[1e2]}'.encode()
    assert edge.post("/v1/b", b'{"batch" : [ ' + first + b" , " + second + b"\n]}").json["accepted"] == 2
    assert [record.body for record in edge.memory.records] == [first, second]


def test_the_envelope_reaches_every_event(edge: Running) -> None:
    """Context and integrations of the batch are kept with each event, verbatim."""
    body = b'{"batch":[%b,%b],"context":{ "ip":"1.2.3.4","n":1.0 },"integrations":{"All":true}}'
    event = json.dumps(EVENT).encode()
    edge.post("/v1/b", body % (event, event))
    envelope = b'{"context":{ "ip":"1.2.3.4","n":1.0 },"integrations":{"All":true}}'
    assert [record.envelope for record in edge.memory.records] == [envelope, envelope]


@pytest.mark.parametrize(
    "envelope", [{}, {"context": {}}, {"context": None, "integrations": {}}, {"context": 7, "integrations": "x"}]
)
def test_an_empty_envelope_is_not_kept(edge: Running, envelope: dict[str, object]) -> None:
    """An envelope that adds nothing, or nothing usable, costs no bytes."""
    _batch(edge, [EVENT], **envelope)
    assert edge.memory.records[0].envelope is None


@pytest.mark.parametrize(
    ("event", "envelope", "selection"),
    [
        ({}, {"integrations": {"All": False}}, {"All": False}),
        ({"integrations": {"All": True}}, {"integrations": {"All": False}}, None),
        ({"context": {"integrations": {"All": True}}}, {"integrations": {"All": False}}, None),
        ({"integrations": {"X": True}}, {"integrations": {"All": False}}, {"All": False, "X": True}),
        ({}, {"context": {"integrations": {"X": False}}}, {"X": False}),
        ({}, {"context": {"integrations": {"X": False}}, "integrations": {"X": True}}, None),
    ],
)
def test_the_event_goes_before_the_envelope(
    edge: Running, event: dict[str, Any], envelope: dict[str, Any], selection: dict[str, bool] | None
) -> None:
    """The nearer selection map wins, name by name."""
    _batch(edge, [{**EVENT, **event}], **envelope)
    assert edge.memory.records[0].selection == selection


@pytest.mark.parametrize("place", ["envelope", "event"])
def test_of_very_many_selected_names_the_first_count(edge: Running, place: str) -> None:
    """Each takes memory for each event of a batch. ``All`` always counts, and no kind has so long a name."""
    named = {"x" * 101: False, **{f"n{number}": number > 0 for number in range(500)}, "All": False}
    _batch(edge, [{**EVENT, **({"integrations": named} if place == "event" else {})}] * 2, integrations=named)
    expected = {"All": False, **{f"n{number}": number > 0 for number in range(100)}}
    assert [record.selection for record in edge.memory.records] == [expected] * 2


def test_sent_at_of_the_envelope(edge: Running) -> None:
    """Skew is corrected by the event's own sentAt, else by the batch's, also where an event is as old as that."""
    stamp = {"timestamp": "2001-01-01T00:00:00Z"}
    own = {**EVENT, **stamp, "sentAt": "2001-01-01T00:00:10Z"}
    last = {**EVENT, "timestamp": "2001-01-01T00:01:00Z"}
    _batch(edge, [{**EVENT, **stamp}, own, last], sentAt=last["timestamp"])
    first, second, third = edge.memory.records
    assert first.timestamp == iso(first.received_at - 60_000)
    assert second.timestamp == iso(second.received_at - 10_000)
    assert third.timestamp == iso(third.received_at)


@pytest.mark.parametrize(("sent_at", "late_ms"), [(60, 60_000), ("60", 60_000), ({}, None), ("x", None)])
def test_odd_sent_at_of_the_envelope(edge: Running, sent_at: object, late_ms: int | None) -> None:
    """Seconds since the epoch are read as such; what cannot be read corrects nothing."""
    _batch(edge, [{**EVENT, "timestamp": "1970-01-01T00:00:00Z"}], sentAt=sent_at)
    record = edge.memory.records[0]
    assert record.timestamp == iso(record.received_at - late_ms if late_ms is not None else 0)


def test_event_count_boundary(edge: Running) -> None:
    """2,500 events are taken, 2,501 are 413, and of those none is delivered."""
    small = {"type": "page", "userId": "u"}
    assert _batch(edge, [small] * 2_499).json["accepted"] == 2_499
    assert _batch(edge, [small] * 2_500).json["accepted"] == 2_500
    edge.memory.records.clear()
    answer = _batch(edge, [small] * 2_501)
    assert (answer.status, edge.reason(answer)) == (413, "too_many_events")


def test_a_list_that_is_written_again_and_again_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one counts. A kilobyte of gzip holds tens of thousands, and nobody knows yet whose they are."""
    taken_apart: list[bytes] = []
    decode = batch._items().decode
    monkeypatch.setattr(
        batch, "_items", lambda: SimpleNamespace(decode=lambda raw: taken_apart.append(raw) or decode(raw))
    )
    body = b"{" + b'"batch":[],' * (LARGE_BODY_BYTES // 10) + b'"batch":[{"a":1}]}'
    assert read_batch(body)[0].batch == [msgspec.Raw(b'{"a":1}')]
    assert len(taken_apart) == 1


@pytest.mark.parametrize("padding", [0, LARGE_BODY_BYTES])
def test_events_are_counted_in_large_bodies_too(edge: Running, padding: int) -> None:
    """A body in which the events are counted as they are read has the same limit, and the same envelope."""
    small = {"type": "page", "userId": "u"}
    envelope = {"context": {"locale": "de"}, "padding": "x" * padding}
    assert _batch(edge, [small] * 2_500, **envelope).json["accepted"] == 2_500
    assert {record.envelope for record in edge.memory.records} == {b'{"context":{"locale": "de"}}'}
    assert _batch(edge, [small] * 2_501, **envelope).code == "too_many_events"
    assert _batch(edge, [], **envelope).json["accepted"] == 0
    assert edge.post("/v1/batch", {"batch": {}, **envelope}).code == "invalid_body"


def test_a_flood_of_tiny_items_is_not_taken_apart() -> None:
    """A few hundred bytes of gzip hold hundreds of thousands of items: what they would take is never taken."""
    body = b'{"batch":[' + b"0," * 250_000 + b"0]}"
    tracemalloc.start()
    with pytest.raises(decode.BadBody, match="too_many_events"):
        read_batch(body)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < len(body)


def test_event_bytes_boundary(edge: Running) -> None:
    """An event of 32,768 bytes passes, one more is rejected alone."""
    limit = decode.EVENT_BYTES_MAX
    sizes = [sized(size, type="track") for size in (limit - 1, limit, limit + 1)]
    answer = edge.post("/v1/batch", b'{"batch":[' + b",".join(sizes) + b"]}")
    assert answer.json["accepted"] == 2
    assert [(item["index"], item["code"]) for item in answer.json["rejected"]] == [(2, "event_too_large")]
    assert json.loads(edge.memory.records[2].body)["bytes"] == limit + 1


def test_the_envelope_counts_towards_each_event(edge: Running) -> None:
    """An event that fits alone is rejected when the envelope takes it past the limit."""
    context = {"pad": "x" * 2_000}
    envelope_bytes = len(b'{"context":') + len(json.dumps(context)) + 1
    room = decode.EVENT_BYTES_MAX - envelope_bytes
    fits, over = sized(room, type="track"), sized(room + 1, type="track")
    body = b'{"batch":[%b,%b],"context":%b}' % (fits, over, json.dumps(context).encode())
    answer = edge.post("/v1/batch", body)
    assert [item["index"] for item in answer.json["rejected"]] == [1]


def test_what_one_request_stores_is_bounded(edge: Running) -> None:
    """A few hundred bytes on the wire store at most 2 MB, the envelope merged into each event; one byte more is 413."""
    item, count = b'{"type":"page","userId":"u"}', 2_000
    envelope_bytes = decode.STORED_BYTES_MAX // count - len(item)
    pad = envelope_bytes - len(b'{"context":{"pad":""}}')
    rest = decode.STORED_BYTES_MAX - count * (len(item) + envelope_bytes)
    items = b",".join([item] * (count - 1))
    fits, over = (b'{"type":"page","userId":"u%b"}' % (b"u" * (rest + more)) for more in (0, 1))
    body = b'{"batch":[%b,%b],"context":{"pad":"' + b"x" * pad + b'"}}'
    assert edge.post("/v1/batch", zipped(body % (items, fits)), Content_Encoding="gzip").json["accepted"] == count
    edge.memory.records.clear()
    answer = edge.post("/v1/batch", zipped(body % (items, over)), Content_Encoding="gzip")
    assert (answer.status, edge.reason(answer)) == (413, "stores_too_much")


def test_many_brackets_are_judged_quickly(edge: Running) -> None:
    """500 KB of brackets, in strings and out of them, are judged within the bound of a request."""
    flat = b'{"type":"page","userId":"u","x":"' + b"[{" * 10_000 + b'","y":[' + b"{}," * 2_000 + b"[]]}"
    body = b'{"batch":[' + b",".join([flat] * 18) + b"]}"
    assert edge.post("/v1/batch", body).json["accepted"] == 18
