"""PostHog: what it gets of each call, and what its answers mean. The stand-in is its API's documentation."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import pytest

from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import Sent as Parsed
from tests.unit.kinds.receiving import answer, deliver, destination_of
from tests.unit.kinds.stand_in import TIMESTAMP, Sent, StandIn, call, calls, guide_facts, guide_problems

BODY_BYTES_MAX = 20 * 1024 * 1024
NAME_CHARACTERS_MAX = 200
NEEDED = {
    "$identify": ["$set"],
    "$set": ["$set"],
    "$groupidentify": ["$group_type", "$group_key"],
    "$create_alias": ["alias"],
}
EVENTS = ("identify", "track", "page", "screen", "group", "alias")


def taken(sent: Sent) -> list[dict[str, Any]]:
    """Take a request as the capture endpoint does; return the events of its batch."""
    assert (sent.method, sent.headers["content-type"]) == ("POST", "application/json")
    assert sent.url.endswith("/batch/")
    assert len(sent.body) < BODY_BYTES_MAX
    body = sent.json
    assert body.keys() == {"api_key", "historical_migration", "batch"}
    assert body["api_key"].startswith("phc_")
    assert isinstance(body["historical_migration"], bool)
    for event in body["batch"]:
        assert event.keys() == {"event", "distinct_id", "timestamp", "uuid", "properties"}
        for name in ("event", "distinct_id"):
            assert isinstance(event[name], str)
            assert 0 < len(event[name]) <= NAME_CHARACTERS_MAX
        assert event["distinct_id"] not in ("null", "undefined", "anonymous", "guest", "0")
        assert str(uuid.UUID(event["uuid"])) == event["uuid"]
        datetime.fromisoformat(event["timestamp"])
        assert event["properties"].keys() >= set(NEEDED.get(event["event"], []))
    return list(body["batch"])


def there(**settings: Any) -> StandIn:
    return StandIn("posthog", apiKey="phc_key", **settings)


def of(type: str, stand_in: StandIn | None = None, **fields: Any) -> dict[str, Any]:
    """Return the only event that a call becomes."""
    (event,) = taken((stand_in or there()).one(call(type, **fields)))
    return event


def test_every_call_is_taken() -> None:
    """All calls together become requests that the API takes, under the names that it knows; a deletion needs a key."""
    sent = there().sends(*calls())
    names = {each.name: event["event"] for each in sent for event in taken(each)}
    assert names == {
        "identify": "$identify",
        "track": "Order Completed",
        "page": "$pageview",
        "screen": "$screen",
        "group": "$groupidentify",
        "alias": "$create_alias",
    }
    assert {each.url for each in sent} == {"https://us.i.posthog.com/batch/"}


def test_a_track_call() -> None:
    """Its properties and surroundings stand side by side; the caller's word wins."""
    context = {
        "ip": "192.0.2.7",
        "page": {"url": "https://example.com/a", "title": "A"},
        "campaign": {"source": "mail"},
        "userAgent": "UA",
        "groupId": "g1",
    }
    event = of("track", context=context, properties={"total": 1, "title": "own"})
    assert (event["distinct_id"], event["timestamp"]) == ("u1", TIMESTAMP)
    assert event["properties"] == {
        "$lib": "hookline",
        "$ip": "192.0.2.7",
        "$current_url": "https://example.com/a",
        "$raw_user_agent": "UA",
        "title": "own",
        "total": 1,
        "utm_source": "mail",
        "$process_person_profile": True,
        "$groups": {"company": "g1"},
    }


def test_who_it_is() -> None:
    """The anonymous id stands in for a missing user id, and makes a profile only if that is wanted."""
    anonymous = of("track", userId=None, anonymousId="a1")
    assert (anonymous["distinct_id"], anonymous["properties"]["$process_person_profile"]) == ("a1", False)
    assert anonymous["properties"]["$geoip_disable"] is True
    wanted = of("track", there(anonymousProfiles=True), userId=None, anonymousId="a1")
    assert wanted["properties"]["$process_person_profile"] is True


def test_people_groups_and_aliases() -> None:
    """Traits are set, and ids that are the same person or group are named where the API looks for them."""
    known = of("identify")["properties"]
    assert (known["$set"], known["$anon_distinct_id"]) == ({"email": "ada@example.com", "age": 36}, "a1")
    unknown = of("identify", userId=None)
    assert (unknown["event"], unknown["distinct_id"]) == ("$set", "a1")
    assert unknown["properties"]["$process_person_profile"] is True
    group = of("group", there(groupType="team"))["properties"]
    assert (group["$group_type"], group["$group_key"], group["$groups"]) == ("team", "g1", {"team": "g1"})
    assert group["$group_set"] == {"name": "Acme", "employees": 12}
    alias = of("alias")
    assert (alias["distinct_id"], alias["properties"]["alias"]) == ("u1", "a1")


def test_pages_and_screens() -> None:
    """Both have their names, and a page its URL."""
    page, screen = of("page")["properties"], of("screen")["properties"]
    assert (page["$current_url"], page["name"], page["category"]) == ("https://example.com/p", "Pricing", "Docs")
    assert (screen["$screen_name"], screen["items"]) == ("Cart", 2)


def test_a_repeat_is_recognised() -> None:
    """The same messageId gives the same uuid, another one another."""
    first, again, other = of("track"), of("track"), of("track", message_id="m-2")
    assert first["uuid"] == again["uuid"] != other["uuid"]


def test_a_long_name_is_cut() -> None:
    """PostHog takes names of up to 200 characters."""
    assert len(of("track", event="x" * 300)["event"]) == NAME_CHARACTERS_MAX


def test_a_batch_is_bounded() -> None:
    """Full batches are split by number and by bytes."""
    sent = there(historicalMigration=True).sends(*(call("track", f"m{each}") for each in range(1_001)))
    assert [len(taken(each)) for each in sent] == [500, 500, 1]
    assert sent[0].json["historical_migration"] is True
    large = [call("track", f"m{each}", properties={"text": "x" * 30_000}) for each in range(200)]
    assert all(len(each.body) < 2_100_000 for each in there().sends(*large))


def test_a_deletion() -> None:
    """With a personal key the private API is asked to delete the person with their events."""
    sent = there(personalApiKey="phx_key", apiEndpoint="https://eu.posthog.com", projectId="42").one(call("delete"))
    assert (sent.method, sent.url) == ("POST", "https://eu.posthog.com/api/projects/42/persons/bulk_delete/")
    assert (sent.headers["authorization"], sent.headers["content-type"]) == ("Bearer phx_key", "application/json")
    assert sent.json == {"distinct_ids": ["u1"], "delete_events": True}
    assert not there().sends(call("delete"))
    assert not there(personalApiKey="").sends(call("delete"))


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        (200, {"status": 1}, "accepted"),
        (200, {"status": 1, "quota_limited": ["recordings"]}, "accepted"),
        (400, {"detail": "Invalid payload"}, "halved"),
        (413, b"too large", "halved"),
        (401, {"detail": "Project API key invalid"}, "blames 401"),
        (429, b"", "retry 429"),
        (503, b"", "retry 503"),
        (408, b"", "retry 408"),
    ],
)
def test_what_answers_mean(status: int, body: Any, means: str) -> None:
    """Only what another try may help is tried again; a wrong key is nobody's fault among the events."""
    outcomes = there().after(status, body, count=3)
    assert [each.startswith(means) for each in outcomes] == [True] * 3, outcomes


def test_a_throttled_sender_waits() -> None:
    """It waits for as long as it is asked to."""
    (outcome,) = there().after(429, b"", headers={"Retry-After": "17"})
    assert outcome.startswith("retry 429 after 17")


def test_settings_and_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schema has no mistake, the guide's example is a good configuration, and it says what was tried."""
    assert there().problems == []
    assert guide_problems("posthog", monkeypatch) == []
    assert "`$groupidentify`" in guide_facts("posthog")


def test_a_deliver_role_finds_the_event_at_fault(make_rig: MakeRig) -> None:
    """A batch that is refused for one event goes again in halves, until that one alone is a dead letter."""

    def capture(sent: Parsed) -> Any:
        has_wrong = any(each["event"] == "wrong" for each in sent.json["batch"])
        return answer(400, {"detail": "Invalid payload"}) if has_wrong else answer(200, {"status": 1})

    rig = make_rig()
    names = ["a", "b", "wrong", "d", "e"]
    tracks = [{"type": "track", "userId": "u1", "event": name} for name in names]
    network = deliver(rig, destination_of("posthog", {"apiKey": "phc_key"}), capture, tracks)
    statuses = [rig.status_at(f"message-{number}", "posthog") for number in range(5)]
    assert statuses == ["delivered", "delivered", "failed", "delivered", "delivered"]
    assert len(network.seen[0].json["batch"]) == 5
