"""OpenSearch: its documents, and what the answers of ``_bulk`` mean. The stand-in is its documentation."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import Sent as Parsed
from tests.unit.kinds.receiving import answer as answered
from tests.unit.kinds.receiving import deliver, destination_of
from tests.unit.kinds.stand_in import TIMESTAMP, Sent, StandIn, call, calls, guide_facts, guide_problems

INDEX = re.compile(r"[a-z0-9][a-z0-9._-]{0,254}")
ID_BYTES_MAX = 512
EVENTS = ("identify", "track", "page", "screen", "group", "alias")
Pair = tuple[str, dict[str, Any], dict[str, Any]]


def taken(sent: Sent) -> list[Pair]:
    """Take a request as ``_bulk`` does; return action, target and document of each item."""
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/x-ndjson")
    assert sent.url.partition("?")[0].endswith("/_bulk")
    lines = sent.lines
    assert len(lines) == 2 * len(sent.events)
    found: list[Pair] = []
    for action, document in zip(lines[::2], lines[1::2], strict=True):
        ((name, target),) = action.items()
        assert name in ("create", "index")
        assert target.keys() == {"_index", "_id"}
        assert INDEX.fullmatch(target["_index"])
        assert 0 < len(target["_id"].encode()) <= ID_BYTES_MAX
        assert isinstance(document["@timestamp"], str)
        assert not any(key.startswith("_") for key in document)
        found.append((name, target, document))
    return found


def there(**settings: Any) -> StandIn:
    given = {"url": "https://search.example.com:9200", "index": "events", "deleteFrom": "events"}
    return StandIn("opensearch", **(given | settings))


def answer(*statuses: int) -> dict[str, Any]:
    """Return what ``_bulk`` answers with for items of such statuses."""
    items = []
    for status in statuses:
        failed = {"error": {"type": "some_exception", "reason": f"reason of {status}"}} if status >= 300 else {}
        items.append({"create": {"status": status, **failed}})
    return {"errors": any(status >= 300 for status in statuses), "items": items}


def test_every_call_is_a_document() -> None:
    """All types go in one request, as they came, in their order."""
    (_, sent) = there().sends(*calls())
    assert [document["type"] for _, _, document in taken(sent)] == list(EVENTS)
    (action, target, document) = taken(there().one(call("track", context={"ip": "192.0.2.7"})))[0]
    assert (action, target) == ("create", {"_index": "events", "_id": sha256(b"site:m-1").hexdigest()})
    assert document == {
        "@timestamp": TIMESTAMP,
        "timestamp": TIMESTAMP,
        "receivedAt": "2026-11-24T12:00:05.250Z",
        "type": "track",
        "event": "Order Completed",
        "source": "site",
        "messageId": "m-1",
        "userId": "u1",
        "properties": {"total": 99.5, "tags": ["new"]},
        "context": {"ip": "192.0.2.7"},
    }


def test_a_message_id_is_one_of_its_source() -> None:
    """Another source may have the same; the same event has the same id again, however long its messageId is."""
    shop = msgspec.structs.replace(call("track"), source="shop")
    long = call("track", "ä" * 512)
    ids = [taken(there().one(each))[0][1]["_id"] for each in (call("track"), shop, long, call("track"), shop, long)]
    assert len(set(ids[:3])) == 3
    assert ids[3:] == ids[:3]


def test_names_of_indices() -> None:
    """A name may have type, source, date and month of the event, and nothing else of it."""
    sent = there(index="events-{{type}}-{{source}}-{{date}}-{{month}}").one(call("track"))
    assert taken(sent)[0][1]["_index"] == "events-track-site-2026-11-24-2026-11"
    assert taken(there(operation="index").one(call("track")))[0][0] == "index"


@pytest.mark.parametrize(
    "index", ["Events", "_events", "events-{{userId}}", "events-{{", "a b", "-x", "{{settings.auth}}"]
)
def test_names_that_no_index_has(index: str) -> None:
    """They are refused by the check."""
    with pytest.raises(AssertionError, match="invalid_settings"):
        there(index=index)


def test_authorization() -> None:
    """None, a user, or an API key."""
    assert "authorization" not in there().one(call("track")).headers
    assert there(auth={"type": "basic", "username": "u", "password": "p"}).one(call("track")).credentials == ("u", "p")
    with pytest.raises(AssertionError, match="apikey needs token"):
        there(auth={"type": "apikey"})
    for type in ("track", "delete"):
        keyed = there(auth={"type": "apikey", "token": "a2V5"}).one(call(type))
        assert keyed.headers["authorization"] == "ApiKey a2V5"


def test_a_deletion() -> None:
    """The person's documents are deleted by the exact user id, in the indices that were named."""
    sent = there(url="https://s.example.com/base/", deleteFrom="events-*,old", userIdField="userId").one(call("delete"))
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/json")
    path, _, query = sent.url.partition("?")
    assert path == "https://s.example.com/base/events-%2A%2Cold/_delete_by_query"
    assert "conflicts=proceed" in query
    assert sent.json == {"query": {"term": {"userId": "u1"}}}


def test_what_a_bulk_answer_means() -> None:
    """Each document has its own status; one that is there has arrived, and only what may pass is tried again."""
    outcomes = there().after(200, answer(201, 409, 400, 429, 503, 200), count=6)
    assert outcomes == [
        "accepted",
        "accepted",
        "refused 400: reason of 400",
        "retry 429: reason of 429",
        "retry 503: reason of 503",
        "accepted",
    ]


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (400, {"error": {"type": "illegal_argument_exception", "reason": "malformed"}, "status": 400}, "halved"),
        (413, b"", "halved"),
        (401, b"Unauthorized", "blames 401"),
        (403, {"error": {"type": "security_exception"}, "status": 403}, "blames 403"),
        (429, {"error": {"type": "circuit_breaking_exception"}, "status": 429}, "retry 429"),
        (503, b"", "retry 503"),
        (200, b"<html>please log in</html>", "retry 200"),
        (200, b"", "retry 200"),
        (200, b'{"errors":false,"items":[{"cre', "retry 200"),
        (200, {"tagline": "The OpenSearch Project: https://opensearch.org/"}, "retry 200"),
    ],
)
def test_what_answers_to_the_whole_mean(status: int, body: Any, means: str) -> None:
    """A refused request is halved; a user without rights is nobody's fault among the events; 200 without a word of
    documents is no success."""
    outcomes = there().after(status, body, count=2)
    assert [each.startswith(means) for each in outcomes] == [True] * 2, outcomes


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (200, {"deleted": 2, "version_conflicts": 0, "failures": []}, "accepted"),
        (200, {"deleted": 1, "version_conflicts": 1, "failures": []}, "retry 200"),
        (200, {"deleted": 0, "version_conflicts": 0, "failures": [{"status": 503}]}, "retry 200"),
        (409, {"version_conflicts": 1}, "retry 409"),
        (400, b"", "refused 400"),
    ],
)
def test_what_answers_to_a_deletion_mean(status: int, body: Any, means: str) -> None:
    """Nothing may be left behind."""
    (outcome,) = there().after(status, body, name="delete")
    assert outcome.startswith(means), outcome


def test_batches_are_bounded() -> None:
    """By number, and by bytes."""
    sent = there().sends(*(call("track", f"m{each}") for each in range(1_001)))
    assert [len(taken(each)) for each in sent] == [1_000, 1]
    large = [call("track", f"m{each}", properties={"text": "x" * 30_000}) for each in range(200)]
    assert all(len(each.body) < 5_100_000 for each in there().sends(*large))


def test_settings_and_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has no mistake, the guide's examples are good configurations, and it says what was tried."""
    assert there().problems == []
    assert guide_problems("opensearch", monkeypatch) == []
    assert "OpenSearch 2.19.1" in guide_facts("opensearch")


def test_a_deliver_role_sends_again_what_there_was_no_room_for(make_rig: MakeRig) -> None:
    """Of one request, a document is taken, one is refused, and one is tried again alone until there is room."""
    documents: set[str] = set()
    busy = ["message-2"]

    def bulk(sent: Parsed) -> Any:
        ids = [json.loads(line)["messageId"] for line in sent.body.splitlines()[1::2]]
        statuses = []
        for each in ids:
            is_busy = each in busy and not busy.remove(each)  # type: ignore[func-returns-value]
            statuses.append(429 if is_busy else 400 if each == "message-1" else 409 if each in documents else 201)
            documents.update({each} if statuses[-1] == 201 else ())
        return answered(200, answer(*statuses))

    rig = make_rig()
    settings = {"url": "https://search.example.com", "index": "events", "deleteFrom": "events"}
    tracks = [{"type": "track", "userId": "u1", "event": "Order"} for _ in range(3)]
    network = deliver(rig, destination_of("opensearch", settings), bulk, tracks)
    statuses = [rig.status_at(f"message-{number}", "opensearch") for number in range(3)]
    assert statuses == ["delivered", "failed", "delivered"]
    assert [len(each.body.splitlines()) for each in network.seen] == [6, 2]
