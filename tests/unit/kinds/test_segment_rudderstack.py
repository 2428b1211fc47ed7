"""Segment and RudderStack: every call arrives as it came. The stand-in is their APIs' documentation."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
import pytest

from hookline.connections.definitions.model import Audience
from hookline.people.definitions.definition import ready_of
from hookline.people.sync.sync import message
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import Sent as Parsed
from tests.unit.kinds.receiving import answer, deliver, destination_of
from tests.unit.kinds.stand_in import (
    CALLS,
    RECEIVED_MS,
    TIMESTAMP,
    Sent,
    StandIn,
    call,
    calls,
    guide_facts,
    guide_problems,
    sizes,
)

KILOBYTE = 1_024
KEY = "wk_of_the_other"
EVENTS = ("identify", "track", "page", "screen", "group", "alias")
NEEDED = {"track": ["event"], "group": ["groupId"], "alias": ["previousId", "userId"]}
OBJECTS = ("properties", "traits", "context", "integrations")


def segment(**settings: Any) -> StandIn:
    return StandIn("segment", writeKey=KEY, **settings)


def rudderstack(**settings: Any) -> StandIn:
    return StandIn("rudderstack", writeKey=KEY, dataPlaneUrl="https://plane.example.com/", **settings)


BOTH = pytest.mark.parametrize("there", [segment(), rudderstack()], ids=["segment", "rudderstack"])


def taken(sent: Sent, request_bytes_max: int = 500 * KILOBYTE) -> list[dict[str, Any]]:
    """Take a request as a batch endpoint does; return its calls."""
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/json")
    assert sent.url.endswith("/v1/batch")
    assert sent.credentials == (KEY, "")
    assert len(sent.body) <= request_bytes_max
    assert sent.json.keys() == {"batch"}
    for one in sent.json["batch"]:
        assert one["type"] in EVENTS
        assert 0 < len(one["messageId"]) < 100
        assert one.get("userId") or one.get("anonymousId")
        assert all(isinstance(one[name], str) and one[name] for name in NEEDED.get(one["type"], []))
        assert all(isinstance(one[name], dict) for name in OBJECTS if name in one)
        datetime.fromisoformat(one["timestamp"])
        assert "sentAt" not in one, "the time would be corrected a second time"
    return list(sent.json["batch"])


@BOTH
def test_every_call_arrives_as_it_came(there: StandIn) -> None:
    """All types are in one batch, in their order, and nothing of theirs is missing."""
    (sent,) = there.sends(*calls())
    for type, one in zip(EVENTS, taken(sent), strict=True):
        own = {name: value for name, value in one.items() if name != "originalTimestamp"}
        assert own == {"type": type, "messageId": f"m-{type}", "timestamp": TIMESTAMP, **CALLS[type]}


@BOTH
def test_context_and_integrations(there: StandIn) -> None:
    """What the caller and the batch say is merged, the caller's own word first; options stay whole."""
    envelope = {"context": {"app": {"name": "shop"}}, "integrations": {"All": False, "A": True}}
    own: dict[str, Any] = {"context": {"ip": "192.0.2.7"}, "integrations": {"A": {"clientId": "7"}}}
    (one,) = taken(there.one(call("track", envelope=envelope, **own)))
    assert one["context"] == {"app": {"name": "shop"}, "ip": "192.0.2.7"}
    assert one["integrations"] == {"All": False, "A": {"clientId": "7"}}
    (plain,) = taken(there.one(call("track")))
    assert "integrations" not in plain
    assert "context" not in plain


@BOTH
def test_a_membership_is_for_all_destinations_there(there: StandIn) -> None:
    """What routes it here is no choice of a caller, neither beside the context nor in it."""
    audience = {"id": "big", "name": "Big", "destinations": ["there"], "condition": {"event": "Order"}}
    ready = ready_of(msgspec.convert(audience, Audience), {}, {"there": there.destination.kind})
    (one,) = taken(there.one(message(ready, 1, 1, "u1", "true", RECEIVED_MS, RECEIVED_MS, ("there",))))
    assert "integrations" not in one
    assert one["context"] == {
        "personas": {"computation_class": "audience", "computation_key": "big", "computation_id": "big"}
    }
    assert one["traits"] == {"big": True}


def test_where_calls_go() -> None:
    """The region decides the host, unless an endpoint is given; RudderStack has a URL of its own."""
    assert segment().one(call("track")).url == "https://api.segment.io/v1/batch"
    assert segment(region="eu").one(call("track")).url == "https://events.eu1.segmentapis.com/v1/batch"
    assert segment(endpoint="https://e.example.com/v1").one(call("track")).url == "https://e.example.com/v1/batch"
    assert rudderstack().one(call("track")).url == "https://plane.example.com/v1/batch"
    assert taken(rudderstack().one(call("track")))[0]["originalTimestamp"] == TIMESTAMP


@pytest.mark.parametrize(("there", "most"), [(segment(), 500 * KILOBYTE), (rudderstack(), 4 * KILOBYTE * KILOBYTE)])
def test_batches_keep_to_the_limits(there: StandIn, most: int) -> None:
    """No request is larger than the API allows, and calls of up to 32 KB get through."""
    records = [call("track", f"m{each}", properties={"text": "x" * 31_000}) for each in range(60)]
    sent = there.sends(*records)
    found = [one for each in sent for one in taken(each, most)]
    assert (len(found), max(sizes(found)) < 32 * KILOBYTE, len(sent) > 1) == (60, True, True)


def test_deletions() -> None:
    """A deletion is a regulation where a token for it is there, and nothing at all where it is not."""
    sent = segment(publicApiToken="sgp_token", region="eu", regulation="SUPPRESS_WITH_DELETE").one(call("delete"))
    assert (sent.method, sent.url) == ("POST", "https://eu1.api.segmentapis.com/regulations")
    assert sent.headers["authorization"] == "Bearer sgp_token"
    assert sent.json == {"regulationType": "SUPPRESS_WITH_DELETE", "subjectType": "USER_ID", "subjectIds": ["u1"]}
    sent = rudderstack(accessToken="token", destinationIds=["d1"]).one(call("delete"))
    assert (sent.method, sent.url) == ("POST", "https://api.rudderstack.com/v2/regulations")
    assert sent.headers["authorization"] == "Bearer token"
    expected = {"regulationType": "suppress_with_delete", "destinationIds": ["d1"], "users": [{"userId": "u1"}]}
    assert sent.json == expected
    for there in (segment(), segment(publicApiToken=""), rudderstack(), rudderstack(accessToken="token")):
        assert not there.sends(call("delete"))


@BOTH
@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (200, {"success": True}, "accepted"),
        (200, b"OK", "accepted"),
        (400, {"success": False, "message": "malformed JSON"}, "halved"),
        (413, b"Request size exceeds max limit", "halved"),
        (401, b"Failed to read writeKey from header", "blames 401"),
        (404, b"Source is disabled", "blames 404"),
        (429, b"Max Events Limit reached", "retry 429"),
        (500, b"", "retry 500"),
    ],
)
def test_what_answers_mean(there: StandIn, status: int, body: Any, means: str) -> None:
    """A refused batch is halved until the call at fault is found; keys and sources are nobody's fault among them."""
    outcomes = there.after(status, body, count=2)
    assert [each.startswith(means) for each in outcomes] == [True] * 2, outcomes


def test_a_throttled_sender_waits() -> None:
    """Segment says for how many seconds, in either header."""
    for name in ("Retry-After", "X-RateLimit-Reset"):
        (outcome,) = segment().after(429, b"", headers={name: "9"})
        assert outcome.startswith("retry 429 after 9")


@BOTH
def test_settings_and_guide(there: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has no mistake, the guide's example is a good configuration, and it says what was tried."""
    kind = there.destination.kind
    assert there.problems == []
    assert guide_problems(kind, monkeypatch) == []
    assert "32 KB" in guide_facts(kind)


@BOTH
def test_a_deliver_role_forwards_integrations(there: StandIn, make_rig: MakeRig) -> None:
    """All calls go in one batch, in their order and with what the caller chose, and none is kept away by that."""

    def batch(sent: Parsed) -> Any:
        return answer(200, {"success": True})

    rig = make_rig()
    kind = there.destination.kind
    settings = {"writeKey": KEY, **({"dataPlaneUrl": "https://plane.example.com"} if kind == "rudderstack" else {})}
    made = [{"type": type, **CALLS[type], "integrations": {"Other": False}} for type in EVENTS]
    network = deliver(rig, destination_of(kind, settings), batch, made)
    assert {rig.status_at(f"message-{number}", kind) for number in range(len(EVENTS))} == {"delivered"}
    (sent,) = network.seen
    assert [(one["type"], one["integrations"]) for one in sent.json["batch"]] == [
        (type, {"Other": False}) for type in EVENTS
    ]
