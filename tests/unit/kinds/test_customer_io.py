"""Customer.io: what it gets of each call, and what its answers mean. The stand-in is its documentation."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import Sent as Parsed
from tests.unit.kinds.receiving import answer, deliver, destination_of
from tests.unit.kinds.stand_in import Sent, StandIn, call, calls, guide_facts, guide_problems, sizes

KILOBYTE = 1_024
AT_SECONDS = 1_795_521_600
PERSON_IDS = ("id", "email", "cio_id", "anonymous_id")
NAMED = ("event", "page", "screen")
OWN_FIELDS = {
    "identify": {"attributes", "timestamp", "cio_relationships"},
    "event": {"attributes", "timestamp", "name"},
    "page": {"attributes", "timestamp", "name"},
    "screen": {"attributes", "timestamp", "name"},
    "delete": set(),
    "suppress": set(),
}


def taken(sent: Sent) -> list[dict[str, Any]]:
    """Take a request as the batch endpoint does; return its changes."""
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/json")
    assert sent.url.endswith("/api/v2/batch")
    assert sent.credentials == ("site", "key")
    assert len(sent.body) < 500 * KILOBYTE
    assert sent.json.keys() == {"batch"}
    for change, size in zip(sent.json["batch"], sizes(sent.json["batch"]), strict=True):
        assert size <= 32 * KILOBYTE
        if change["action"] == "merge":
            assert change.keys() == {"type", "action", "primary", "secondary"}
            assert change["primary"].keys() == change["secondary"].keys() == {"id"}
            continue
        assert change.keys() <= {"type", "action", "identifiers"} | OWN_FIELDS[change["action"]]
        assert isinstance(change.get("timestamp", 0), int)
        assert isinstance(change.get("attributes", {}), dict)
        ids = change["identifiers"]
        if change["type"] == "object":
            assert ids.keys() == {"object_type_id", "object_id"}
            assert ids["object_type_id"].isdigit()
            assert all(each["identifiers"].keys() == {"id"} for each in change.get("cio_relationships", []))
        else:
            ((name, value),) = ids.items()
            assert name in PERSON_IDS
            assert isinstance(value, str)
            assert value
            assert name != "anonymous_id" or change["action"] in NAMED
        if change["action"] in NAMED:
            assert isinstance(change["name"], str)
            assert 0 < len(change["name"].encode()) <= 100
    return list(sent.json["batch"])


def there(**settings: Any) -> StandIn:
    return StandIn("customer_io", siteId="site", apiKey="key", **settings)


def of(type: str, stand_in: StandIn | None = None, **fields: Any) -> dict[str, Any]:
    """Return the only change that a call becomes."""
    (change,) = taken((stand_in or there()).one(call(type, **fields)))
    return change


def test_every_call_is_taken() -> None:
    """All calls together become requests that the API takes."""
    actions = {each.name: change["action"] for each in there().sends(*calls()) for change in taken(each)}
    assert actions == {
        "identify": "identify",
        "track": "event",
        "page": "page",
        "screen": "screen",
        "group": "identify",
        "alias": "merge",
        "delete": "delete",
    }


def test_where_changes_go() -> None:
    """The region decides the host, unless an endpoint is given."""
    assert there().one(call("track")).url == "https://track.customer.io/api/v2/batch"
    assert there(region="eu").one(call("track")).url == "https://track-eu.customer.io/api/v2/batch"
    assert (
        there(endpoint="https://proxy.example.com").one(call("track")).url.startswith("https://proxy.example.com/api")
    )


def test_people() -> None:
    """Traits become attributes; the anonymous id among them ties earlier events to the person."""
    change = of("identify", traits={"plan": "pro", "createdAt": "2026-11-24T12:00:00Z"})
    assert (change["type"], change["identifiers"], change["timestamp"]) == ("person", {"id": "u1"}, AT_SECONDS)
    own = {"plan": "pro", "createdAt": "2026-11-24T12:00:00Z", "created_at": AT_SECONDS, "anonymous_id": "a1"}
    assert change["attributes"] == own
    assert "created_at" not in of("identify")["attributes"]
    assert of("identify", userId=None)["identifiers"] == {"email": "ada@example.com"}
    assert not there().sends(call("identify", userId=None, traits={}))


def test_events_of_anonymous_people() -> None:
    """Their events carry the anonymous id, in the one place for an id."""
    change = of("track", userId=None, anonymousId="a1")
    assert (change["identifiers"], change["name"]) == ({"anonymous_id": "a1"}, "Order Completed")
    assert change["attributes"] == {"total": 99.5, "tags": ["new"]}


def test_pages_and_screens() -> None:
    """A page goes by its URL, else by its name; a screen by its name; neither goes without."""
    page = of("page")
    assert (page["name"], page["attributes"]["name"]) == ("https://example.com/p", "Pricing")
    context = {"page": {"url": "https://example.com/c"}}
    assert of("page", properties={}, context=context)["name"] == "https://example.com/c"
    assert of("page", properties={})["name"] == "Pricing"
    assert of("screen")["name"] == "Cart"
    assert not there().sends(call("page", properties={}, name=None), call("screen", name=None))


def test_groups_and_aliases() -> None:
    """A group is an object that the person belongs to, and an alias merges two people."""
    change = of("group", there(objectType="3"))
    assert change["identifiers"] == {"object_type_id": "3", "object_id": "g1"}
    assert change["attributes"] == {"name": "Acme", "employees": 12}
    assert change["cio_relationships"] == [{"identifiers": {"id": "u1"}}]
    assert "cio_relationships" not in of("group", userId=None, anonymousId="a1")
    alias = of("alias")
    assert (alias["primary"], alias["secondary"]) == ({"id": "u1"}, {"id": "a1"})


def test_deletions() -> None:
    """A deletion deletes the person, or suppresses them where that is chosen."""
    assert (of("delete")["action"], of("delete")["identifiers"]) == ("delete", {"id": "u1"})
    assert of("delete", there(deletion="suppress"))["action"] == "suppress"


def test_batches_keep_to_the_limits() -> None:
    """No request is larger than the API allows."""
    records = [call("track", f"m{each}", properties={"text": "x" * 31_000}) for each in range(60)]
    sent = there().sends(*records)
    assert sum(len(taken(each)) for each in sent) == 60
    assert len(there().sends(*(call("track", f"m{each}") for each in range(501)))) == 2


def test_what_a_batch_with_errors_means() -> None:
    """Of a 207 those that are named are refused, with the reason; the others are accepted and never sent again."""
    errors = [{"batch_index": 1, "reason": "invalid", "field": "name", "message": "name cannot be blank"}]
    outcomes = there().after(207, {"errors": errors}, count=3)
    assert outcomes == ["accepted", "refused 207: name cannot be blank", "accepted"]
    assert there().after(200, {}, count=3) == ["accepted"] * 3


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (400, {"errors": [{"reason": "parse_error", "field": "batch", "message": "malformed"}]}, "halved"),
        (413, b"", "halved"),
        (401, {"meta": {"error": "Unauthorized"}}, "blames 401"),
        (429, b"", "retry 429"),
        (502, b"", "retry 502"),
    ],
)
def test_what_answers_mean(status: int, body: Any, means: str) -> None:
    """A batch that is refused as a whole is halved; keys are nobody's fault among the events."""
    outcomes = there().after(status, body, count=2)
    assert [each.startswith(means) for each in outcomes] == [True] * 2, outcomes


def test_settings_and_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has no mistake, the guide's example is a good configuration, and it says what was tried."""
    assert there().problems == []
    assert guide_problems("customer_io", monkeypatch) == []
    assert "207" in guide_facts("customer_io")


def test_a_deliver_role_keeps_what_was_accepted(make_rig: MakeRig) -> None:
    """Of a batch with a name that is too long, that one is a dead letter at once, and no other is sent again."""

    def batch(sent: Parsed) -> Any:
        names = [each["name"] for each in sent.json["batch"]]
        errors = [
            {"batch_index": index, "reason": "invalid", "field": "name", "message": "too long"}
            for index, name in enumerate(names)
            if len(name) > 100
        ]
        return answer(207, {"errors": errors}) if errors else answer(200, {})

    rig = make_rig()
    tracks = [{"type": "track", "userId": "u1", "event": "x" * (200 if number == 1 else 3)} for number in range(4)]
    network = deliver(rig, destination_of("customer_io", {"siteId": "site", "apiKey": "key"}), batch, tracks)
    statuses = [rig.status_at(f"message-{number}", "customer_io") for number in range(4)]
    assert statuses == ["delivered", "failed", "delivered", "delivered"]
    assert [len(each.json["batch"]) for each in network.seen] == [4]
