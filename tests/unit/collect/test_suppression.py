"""Suppressed people: answered like everybody, stored like nobody, counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hookline.collect.intake import STEP_EVENTS
from hookline.journal.record import Record
from hookline.privacy.id_digest import load
from hookline.privacy.suppressions import Suppressed
from tests.unit.collect.wire import OTHER_KEY, TRACK, Running


@pytest.fixture
def suppressing(edge: Running, tmp_path: Path) -> Iterator[Running]:
    """An edge that stores nothing of u9, of 9, of a9 of either kind, and of the anonymous f9, which was found."""
    digests = load(tmp_path)
    edge.edge.counters.suppressed.clear()
    hashes = [*map(digests.of, ("u9", "a9", "9")), digests.of_anonymous("f9")]
    edge.call(edge.edge.suppress, Suppressed(hashes, digests))
    yield edge
    edge.call(edge.edge.suppress, None)


NAMED: list[dict[str, Any]] = [
    {"userId": "u9"},
    {"userId": 9},
    {"userId": None, "anonymousId": "a9"},
    {"userId": None, "anonymousId": "f9"},
    {"userId": "", "anonymousId": 9},
]


@pytest.mark.parametrize("ids", NAMED)
def test_a_call_is_answered_and_not_stored(suppressing: Running, ids: dict[str, Any]) -> None:
    """By its user id, and without one by its anonymous id: 200 with its messageId, no record, one counted."""
    answer = suppressing.post("/v1/track", {**TRACK, **ids})
    assert (answer.status, answer.json) == (200, {"success": True, "messageId": "m1"})
    assert suppressing.memory.records == []
    assert dict(suppressing.edge.counters.suppressed) == {"web": 1}


@pytest.mark.parametrize("ids", [{"userId": "f9"}, {"userId": "u1", "anonymousId": "a9"}])
def test_an_event_of_another_user_is_stored(suppressing: Running, ids: dict[str, Any]) -> None:
    """A user who has the id that was somebody's anonymous one, and one who shares a device, or a constant of the
    client, with somebody."""
    assert suppressing.post("/v1/track", {**TRACK, **ids}).status == 200
    assert len(suppressing.memory.records) == 1
    assert dict(suppressing.edge.counters.suppressed) == {}


@pytest.mark.parametrize("previous_id", ["u9", 9, "f9"])
def test_an_alias_of_a_suppressed_person_is_not_stored(suppressing: Running, previous_id: str | int) -> None:
    """Who somebody was before is an id of a person too, of either kind."""
    assert suppressing.post("/v1/alias", {"userId": "u1", "previousId": previous_id}).status == 200
    assert suppressing.memory.records == []


def test_a_pixel_of_a_suppressed_person_is_a_picture(suppressing: Running) -> None:
    """And not stored either."""
    answer = suppressing.get("/v1/pixel/track?writeKey=wk_web&userId=u9&event=Open")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/gif")
    assert suppressing.memory.records == []


def test_of_a_batch_the_others_are_stored(suppressing: Running) -> None:
    """The answer counts all good ones as accepted, in the places they were sent in; an item that breaks a rule is
    refused as ever, and of a suppressed person not even kept for inspection."""
    items = [
        {**TRACK, "type": "track", "messageId": "kept", "timestamp": "2026-01-01T00:00:00Z"},
        {**TRACK, "type": "track", "messageId": "gone", "userId": "u9", "timestamp": "2026-01-01T00:00:00Z"},
        {"type": "track", "messageId": "bad", "userId": "u1"},
        {"type": "track", "messageId": "bad and gone", "userId": "u9"},
        {"type": {}, "messageId": "unreadable and gone", "userId": "u9"},
        {**TRACK, "type": "track", "messageId": "gone too", "userId": None, "anonymousId": "a9"},
    ]
    answer = suppressing.post("/v1/batch", {"batch": items}).json
    assert (answer["success"], answer["accepted"]) == (True, 3)
    assert [item["index"] for item in answer["rejected"]] == [2, 3, 4]
    assert [record.message_id for record in suppressing.memory.records] == ["kept", "bad"]
    assert dict(suppressing.edge.counters.suppressed) == {"web": 2}


EVENT = {**TRACK, "type": "track", "userId": "u9"}
NESTED = {**EVENT, "properties": json.loads("[" * 200 + "]" * 200)}


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/v1/batch", {"batch": [EVENT] * 2_501}, "too_many_events"),
        ("/v1/batch", {"batch": [EVENT, NESTED]}, "nesting_too_deep"),
        ("/v1/batch", {"batch": [EVENT] * 2_400, "context": {"name": "u9" * 2_000}}, "stores_too_much"),
        ("/v1/batch", json.dumps({"batch": [EVENT]}).encode()[:-1], "invalid_json"),
        ("/v1/track", NESTED, "nesting_too_deep"),
    ],
)
def test_of_a_request_that_is_refused_as_a_whole_only_its_size_is_kept(
    suppressing: Running, path: str, body: object, code: str
) -> None:
    """Whom it names is not looked at, so it may be somebody suppressed; without any, its start is kept."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert suppressing.reason(suppressing.post(path, data)) == code
    assert json.loads(suppressing.memory.records.pop().body) == {"bytes": len(data)}
    suppressing.call(suppressing.edge.suppress, None)
    suppressing.post(path, data)
    assert b"u9" in suppressing.memory.records.pop().body


def test_a_batch_of_suppressed_people_alone_is_answered(suppressing: Running) -> None:
    """With nothing to store there is nothing to wait for."""
    answer = suppressing.post("/v1/batch", {"batch": [{**TRACK, "type": "track", "userId": "u9"}]})
    assert answer.json["accepted"] == 1
    assert suppressing.memory.records == []


def test_whoever_is_suppressed_while_a_batch_is_taken_in_steps_is_not_stored_any_more(
    start: Callable[..., Running], tmp_path: Path
) -> None:
    """The list counts from the next step on, not from the next request."""
    edge, digests = start(), load(tmp_path)
    assert edge.post("/v1/track", TRACK, OTHER_KEY).status == 200
    edge.memory.records.clear()
    append_soon = edge.memory.append_soon

    def suppress_then(records: list[Record], done: Callable[[BaseException | None], None]) -> None:
        append_soon(records, done)
        edge.edge.suppress(Suppressed([digests.of("u9")], digests))

    edge.memory.append_soon = suppress_then  # type: ignore[method-assign]
    items = [{**TRACK, "type": "track", "messageId": f"b{index}", "userId": "u9"} for index in range(1_000)]
    assert edge.post("/v1/batch", {"batch": items}).json["accepted"] == 1_000
    assert len(edge.memory.records) == STEP_EVENTS
    assert dict(edge.edge.counters.suppressed) == {"web": 1_000 - STEP_EVENTS}


def test_others_are_stored_as_ever(suppressing: Running) -> None:
    """Asked twice, because the second time the answer is remembered."""
    for _ in range(2):
        assert suppressing.post("/v1/track", TRACK).status == 200
    assert [record.user_key for record in suppressing.memory.records] == ["u1", "u1"]
    assert not suppressing.edge.counters.suppressed
