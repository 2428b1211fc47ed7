"""What is accepted and understood otherwise than it was sent is said in the answer, and counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hookline.collect.http.answers import WARNINGS_MAX
from hookline.events.warnings import warning, warnings_of
from tests.unit.collect.wire import TRACK, Answer, Running

ITEM = {**TRACK, "type": "track", "timestamp": "2026-11-20T07:00:00.000Z"}

ODD: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"properties": "x"}, [("not_an_object", "properties")]),
    ({"properties": ["x"]}, [("not_an_object", "properties")]),
    ({"traits": 7}, [("not_an_object", "traits")]),
    ({"context": "web"}, [("not_an_object", "context")]),
    ({"integrations": True}, [("not_an_object", "integrations")]),
    ({"context": {"integrations": "none"}}, [("not_an_object", "context.integrations")]),
    ({"timestamp": "soon"}, [("unreadable_time", "timestamp")]),
    ({"timestamp": {}}, [("unreadable_time", "timestamp")]),
    ({"timestamp": True}, [("unreadable_time", "timestamp")]),
    ({"timestamp": None, "originalTimestamp": "x"}, [("unreadable_time", "originalTimestamp")]),
    ({"timestamp": "", "originalTimestamp": 1e300}, [("unreadable_time", "originalTimestamp")]),
    ({"sentAt": "now"}, [("unreadable_time", "sentAt")]),
    ({"properties": "x", "timestamp": "x"}, [("not_an_object", "properties"), ("unreadable_time", "timestamp")]),
]
SOUND: list[dict[str, Any]] = [
    {},
    {"properties": None, "traits": None, "context": None, "integrations": None, "timestamp": None, "sentAt": ""},
    {"properties": [], "traits": [], "context": [], "integrations": []},
    {"properties": {"a": 1}, "traits": {}, "context": {"integrations": {"All": True}}},
    {"timestamp": "2026-11-20T08:00:00+01:00", "sentAt": 1_795_158_000},
    {"timestamp": "2026-11-20T08:00:00Z", "originalTimestamp": "not looked at"},
]


def _said(answer: Answer) -> list[tuple[str, str]]:
    assert answer.json["success"] is True
    return [(each["code"], each["field"]) for each in answer.json.get("warnings", [])]


@pytest.mark.parametrize(("fields", "expected"), ODD)
def test_a_call_that_is_understood_otherwise_gets_a_warning(
    edge: Running, fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """200 as before, and beside the messageId each field that is not used, with a sentence; `why` finds the same."""
    answer = edge.post("/v1/track", {**ITEM, **fields})
    assert (answer.status, _said(answer)) == (200, expected)
    (record,) = edge.memory.records
    assert record.rejection is None
    assert warnings_of(record.body) == [warning(code, field) for code, field in expected]


@pytest.mark.parametrize("number", [b"1e400", b"9" * 5_000])
def test_a_number_that_nothing_holds_is_one_warning_of_several(edge: Running, number: bytes) -> None:
    """The other fields are looked at all the same, in a single call and in a batch."""
    event = json.dumps({**ITEM, "properties": "x", "timestamp": 0}).encode().replace(b": 0", b": " + number)
    expected = [("not_an_object", "properties"), ("unreadable_time", "timestamp")]
    assert _said(edge.post("/v1/track", event)) == expected
    assert _said(edge.post("/v1/batch", b'{"batch":[%b]}' % event)) == expected


@pytest.mark.parametrize("fields", SOUND)
def test_sound_calls_get_none(edge: Running, fields: dict[str, Any]) -> None:
    """Nor does what stands for nothing: null, and the empty list that PHP writes for an empty array."""
    assert edge.post("/v1/track", {**ITEM, **fields}).json == {"success": True, "messageId": "m1"}
    assert "warnings" not in edge.post("/v1/batch", {"batch": [{**ITEM, **fields}]}).json


def test_a_batch_names_the_events(edge: Running) -> None:
    """By index and messageId, in their order; a rejected one has its rejection alone, usual and unusual ones alike."""
    events = [{**ITEM, **fields, "messageId": f"m{index}"} for index, (fields, _) in enumerate(ODD)]
    events += [ITEM, {**ITEM, "event": None, "properties": "x"}, {**ITEM, "userId": 7, "timestamp": "x"}]
    answer = edge.post("/v1/batch", {"batch": events})
    expected = [(index, f"m{index}", *each) for index, (_, said) in enumerate(ODD) for each in said]
    expected.append((len(ODD) + 2, "m1", "unreadable_time", "timestamp"))
    listed = answer.json["warnings"]
    assert [(each["index"], each["messageId"], each["code"], each["field"]) for each in listed] == expected
    assert [each["index"] for each in answer.json["rejected"]] == [len(ODD) + 1]
    assert len(edge.memory.records) == len(events)


@pytest.mark.parametrize(
    ("envelope", "expected"),
    [
        ({"context": "web"}, [("not_an_object", "context")]),
        ({"integrations": 7, "context": []}, [("not_an_object", "integrations")]),
        ({"sentAt": "now"}, [("unreadable_time", "sentAt")]),
        ({"sentAt": {}}, [("unreadable_time", "sentAt")]),
        ({"sentAt": None, "context": None, "integrations": {}}, []),
    ],
)
def test_the_envelope_is_looked_at_too(
    edge: Running, envelope: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    """Once for all its events, without an index."""
    answer = edge.post("/v1/batch", {"batch": [ITEM, ITEM], **envelope})
    assert _said(answer) == expected
    assert all("index" not in each for each in answer.json.get("warnings", []))


def test_a_batch_that_is_null_is_an_empty_one(edge: Running) -> None:
    """200, as Segment answers it, and said; an empty array needs no word."""
    answer = edge.post("/v1/batch", {"batch": None})
    assert (answer.status, answer.json["accepted"], _said(answer)) == (200, 0, [("empty_batch", "batch")])
    assert edge.post("/v1/batch", {"batch": []}).json == {"success": True, "accepted": 0, "rejected": []}
    assert edge.post("/v1/batch", {"batch": None}, key="nobody").status == 401


def test_an_answer_lists_so_many_and_says_that_there_are_more(edge: Running) -> None:
    """However many events of a batch are odd, the answer stays small."""
    odd = {**ITEM, "properties": "x"}
    whole = edge.post("/v1/batch", {"batch": [odd] * WARNINGS_MAX}).json
    assert (len(whole["warnings"]), "moreWarnings" in whole) == (WARNINGS_MAX, False)
    cut = edge.post("/v1/batch", {"batch": [odd] * 2_500}).json
    assert (len(cut["warnings"]), cut["moreWarnings"], cut["accepted"]) == (WARNINGS_MAX, True, 2_500)


def test_warnings_are_counted(edge: Running) -> None:
    """By code, where an operator would look."""
    before = edge.edge.counters.warnings["not_an_object"]
    edge.post("/v1/track", {**ITEM, "properties": "x"})
    edge.post("/v1/batch", {"batch": [{**ITEM, "properties": "x"}]})
    assert edge.edge.counters.warnings["not_an_object"] == before + 2
