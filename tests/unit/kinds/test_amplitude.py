"""The kind amplitude against a stand-in of the documented Batch, Identify, Group Identify, mapping and privacy APIs."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from hookline.deliver.send.port import Answer
from hookline.kinds.answers import ACCEPTED
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import (
    RECEIVED_MS,
    Sent,
    answer,
    check_guide,
    check_kind,
    deliver,
    destination_of,
    made_of,
    only,
    problems,
    refusal,
)

KEY, SECRET = "key-of-the-project", "secret-of-the-project"
SETTINGS = {"apiKey": KEY, "secretKey": SECRET}
HOSTS = {
    "us": ("api2.amplitude.com", "api.amplitude.com", "amplitude.com"),
    "eu": ("api.eu.amplitude.com", "api.eu.amplitude.com", "analytics.eu.amplitude.com"),
}
CONTEXT = {
    "device": {"id": "device-1", "type": "ios", "model": "iPhone 9,1"},
    "os": {"name": "iOS", "version": "17"},
    "locale": "de-DE",
    "ip": "203.0.113.7",
    "sessionId": 1_795_521_000,
    "groupId": "group-1",
    "location": {"country": "Germany", "latitude": 48.4},
    "traits": {"plan": "pro"},
    "app": {"version": "2.1"},
}
CALLS: dict[str, dict[str, Any]] = {
    "track": {"event": "Order Completed", "properties": {"revenue": 12.5, "price": 3, "tags": ["a"]}},
    "page": {"name": "Cart", "category": "Shop", "properties": {"url": "https://shop.example.com/cart"}},
    "screen": {"name": "Cart", "properties": {"lines": 3}},
    "identify": {"traits": {"email": "ada@example.com", "age": 36}},
    "group": {"groupId": "group-1", "traits": {"name": "Acme"}},
    "alias": {"previousId": "user-0"},
    "delete": {},
}
EVENT_TYPES = {
    **dict.fromkeys(("user_id", "device_id", "event_type", "insert_id", "app_version", "platform", "os_name"), str),
    **dict.fromkeys(("os_version", "device_brand", "device_manufacturer", "device_model", "carrier", "country"), str),
    **dict.fromkeys(("region", "city", "language", "ip", "productId", "revenueType", "library"), str),
    **dict.fromkeys(("event_properties", "user_properties", "groups"), dict),
    **dict.fromkeys(("time", "session_id"), int),
    **dict.fromkeys(("revenue", "location_lat", "location_lng"), (int, float)),
}
INVALID_IDS = {"anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "", "{}", "0", "-1"}


def call(type: str, **fields: Any) -> dict[str, Any]:
    who = {"userId": "user-1"} if type in ("alias", "delete") else {"userId": "user-1", "anonymousId": "anonymous-1"}
    return {"type": type, **who, "context": CONTEXT, **CALLS[type], **fields}


def destination(**settings: Any) -> Any:
    return destination_of("amplitude", {**SETTINGS, **settings})


def amplitude(sent: Sent) -> Answer:
    """Answer as documented, by host and path."""
    assert sent.method == "POST"
    assert not sent.query
    events, aliases, privacy = next(hosts for hosts in HOSTS.values() if sent.host in hosts)
    if sent.host == privacy and sent.path == "/api/2/deletions/users":
        return of_deletion(sent)
    assert "authorization" not in sent.headers, "the secret key goes nowhere else"
    if sent.host == events and sent.path in ("/batch", "/2/httpapi"):
        return of_events(sent)
    if sent.headers["content-type"] != "application/x-www-form-urlencoded":
        return answer(400, b"missing_event")
    if sent.form["api_key"] != KEY:
        return answer(400, b"invalid_api_key")
    if sent.host == aliases and sent.path == "/usermap" and sent.form.keys() == {"api_key", "mapping"}:
        right = all(set(each) == {"user_id", "global_user_id"} for each in json.loads(sent.form["mapping"]))
        return answer(200, b"success") if right else answer(400, b"invalid mapping")
    if sent.host != events or sent.form.keys() != {"api_key", "identification"}:
        return answer(404)
    identification = json.loads(sent.form["identification"])
    if sent.path == "/identify":
        is_right = not wrong_fields(identification) and identification.keys() & {"user_id", "device_id"}
    else:
        is_right = sent.path == "/groupidentify" and set(identification) == {
            *("group_type", "group_value", "group_properties"),
        }
    return answer(200, b"success") if is_right else answer(400, b"missing_event")


def of_events(sent: Sent) -> Answer:
    upload = sent.json
    if sent.headers["content-type"] != "application/json" or set(upload) != {"api_key", "options", "events"}:
        return answer(400, {"code": 400, "error": "Invalid JSON request body"})
    if upload["api_key"] != KEY:
        return answer(400, {"code": 400, "error": f"Invalid API key: {upload['api_key']}"})
    events, least = upload["events"], upload["options"]["min_id_length"]
    if not 1 <= len(events) <= 2_000 or len(sent.body) > 1_048_576:
        return answer(413, {"code": 413, "error": "Payload too large"})
    invalid: dict[str, list[int]] = {}
    missing: dict[str, list[int]] = {}
    for index, event in enumerate(events):
        for name in wrong_fields(event):
            invalid.setdefault(name, []).append(index)
        if not event.get("event_type"):
            missing.setdefault("event_type", []).append(index)
        ids = [event[name] for name in ("user_id", "device_id") if len(event.get(name, "")) >= least]
        if not ids or INVALID_IDS & set(ids):
            missing.setdefault("user_id", []).append(index)
    if invalid or missing:
        words = {"error": "Invalid field values on some events", "events_with_invalid_fields": invalid}
        return answer(400, {"code": 400, **words, "events_with_missing_fields": missing})
    return answer(200, {"code": 200, "events_ingested": len(events), "payload_size_bytes": len(sent.body)})


def of_deletion(sent: Sent) -> Answer:
    credentials = base64.b64encode(f"{KEY}:{SECRET}".encode()).decode()
    if sent.headers.get("authorization") != f"Basic {credentials}":
        return answer(401)
    asked = sent.json
    right = asked["requester"] and 1 <= len(asked["user_ids"]) <= 100 and all(asked["user_ids"])
    return answer(200, [{"day": "2026-12-08", "status": "staging"}]) if right else answer(400, b"invalid request")


def wrong_fields(event: dict[str, Any]) -> list[str]:
    """The fields that are unknown, of another type, or longer than 1,024 characters."""
    wrong = [name for name, value in event.items() if not isinstance(value, EVENT_TYPES.get(name, ()))]
    wrong += [name for name, value in event.items() if isinstance(value, str) and len(value) > 1_024]
    if "time" in event and event["time"] // 10**12 != 1:
        wrong.append("time")
    return wrong


def test_the_kind_is_complete(tmp_path: Path) -> None:
    """Settings, guide and icon are there, and the check takes the guide's example."""
    check_kind("amplitude")
    assert check_guide("amplitude", tmp_path) == 1


@pytest.mark.parametrize("region", HOSTS)
@pytest.mark.parametrize("type", CALLS)
def test_every_call_is_as_documented(region: str, type: str) -> None:
    """Each type of call goes to the APIs that it is for, in the region of the project, and is accepted."""
    made = made_of(destination(region=region), call(type))
    assert len(made) == (2 if type == "group" else 1)
    for each in made:
        assert each.judged(amplitude(each.sent)) == [ACCEPTED]


def test_a_track_call() -> None:
    """The event with its ids, time in milliseconds, session, group, device and revenue; a price is no revenue."""
    (event,) = only(destination(), call("track")).sent.json["events"]
    assert event == {
        "event_type": "Order Completed",
        "user_id": "user-1",
        "device_id": "device-1",
        "time": RECEIVED_MS,
        "insert_id": "message-0",
        "session_id": 1_795_521_000_000,
        "groups": {"company": "group-1"},
        "event_properties": CALLS["track"]["properties"],
        "user_properties": {"plan": "pro"},
        "revenue": 12.5,
        "app_version": "2.1",
        "platform": "ios",
        "os_name": "iOS",
        "os_version": "17",
        "device_model": "iPhone 9,1",
        "country": "Germany",
        "language": "de-DE",
        "ip": "203.0.113.7",
        "location_lat": 48.4,
        "library": "hookline",
    }


def test_pages_and_screens_have_names_of_choice() -> None:
    """What a page call is called may hold fields of the event, which are properties too."""
    page = only(destination(pageEvent="Viewed {{name}}"), call("page")).sent.json["events"][0]
    assert page["event_type"] == "Viewed Cart"
    assert page["event_properties"] == {"name": "Cart", "category": "Shop", **CALLS["page"]["properties"]}
    assert only(destination(), call("screen")).sent.json["events"][0]["event_type"] == "Screen Viewed"
    assert "the receiver needs this" in refusal(destination(pageEvent="{{name}}"), call("page", name=None))


def test_groups() -> None:
    """The user joins the group of the type that the settings name; the group gets its properties if there are any."""
    joined, group = (each.sent for each in made_of(destination(groupType="team"), call("group")))
    told = json.loads(joined.form["identification"])
    assert told["groups"] == told["user_properties"] == {"team": "group-1"}
    assert json.loads(group.form["identification"]) == {
        "group_type": "team",
        "group_value": "group-1",
        "group_properties": {"name": "Acme"},
    }
    assert len(made_of(destination(), call("group", traits={}))) == 1


def test_aliases_and_deletions() -> None:
    """The old id leads to the new one; users are deleted a hundred at a time, and only with the secret key."""
    alias = only(destination(), call("alias")).sent
    assert json.loads(alias.form["mapping"]) == [{"user_id": "user-0", "global_user_id": "user-1"}]
    deletion = only(destination(), *[call("delete", userId=f"user-{number}") for number in range(100)]).sent
    assert deletion.json["user_ids"][:2] == ["user-0", "user-1"]
    assert amplitude(deletion).status == 200
    assert made_of(destination_of("amplitude", {"apiKey": KEY}), call("delete")) == []


def test_a_full_batch() -> None:
    """A thousand events are one request, within Amplitude's limits."""
    made = only(destination(), *[call("track", messageId=f"m{number}") for number in range(1_000)])
    assert amplitude(made.sent).status == 200
    assert len({event["insert_id"] for event in made.sent.json["events"]}) == 1_000


def test_the_events_that_an_answer_names_are_refused() -> None:
    """An event with a wrong field is a dead letter that says which; the others of its batch are sent again."""
    calls = [
        call("track"),
        call("track", properties={"revenue": "much"}),
        call("track", userId="u", context={}, anonymousId=None),
    ]
    made = only(destination(), *calls)
    reply = amplitude(made.sent)
    assert reply.status == 400
    good, wrong, nobody = made.judged(reply)
    assert (good.accepted, good.retry) == (False, True)
    assert (wrong.retry, wrong.of_event, wrong.error) == (False, True, "events_with_invalid_fields: revenue")
    assert (nobody.retry, nobody.of_event, nobody.error) == (False, True, "events_with_missing_fields: user_id")
    assert all(each.accepted for each in only(destination(), calls[0]).judged(answer(200, {"code": 200})))


def test_ids_may_be_shorter() -> None:
    """Where the settings allow short ids, Amplitude is told so."""
    made = only(destination(minIdLength=1), call("track", userId="u", context={}, anonymousId=None))
    assert amplitude(made.sent).status == 200


def test_other_lists_of_an_answer() -> None:
    """Silenced events are dead letters; events of throttled users wait, and neither stops the others."""
    made = only(destination(), call("track"), call("track"))
    silenced, other = made.judged(answer(400, {"code": 400, "error": "x", "silenced_events": [0]}))
    assert (silenced.retry, silenced.error, other.retry) == (False, "silenced_events", True)
    body = {"code": 429, "error": "Too many requests for some devices and users", "throttled_events": [1]}
    other, throttled = made.judged(answer(429, {**body, "throttled_users": {"user-1": 31}}))
    assert (throttled.retry, throttled.of_event, other.retry, other.of_event) == (True, False, True, True)


@pytest.mark.parametrize(
    ("status", "body", "retry", "of_event"),
    [
        (400, {"code": 400, "error": "Invalid API key: x"}, True, False),
        (400, {"code": 400, "error": "Request missing required field", "missing_field": "api_key"}, True, False),
        (429, {"code": 429, "error": "Too many requests", "throttled_events": []}, True, False),
        (413, {"code": 413, "error": "Payload too large"}, False, False),
        (503, {"code": 503}, True, False),
    ],
)
def test_answers_about_the_whole_batch(status: int, body: Any, retry: bool, of_event: bool) -> None:
    """A wrong key is no event's fault although the status is 400; a batch that is too large is halved."""
    made = only(destination(), call("track"), call("track"))
    verdicts = made.judged(answer(status, body))
    assert {(each.accepted, each.retry, each.of_event) for each in verdicts} == {(False, retry, of_event)}


@pytest.mark.parametrize(
    ("status", "text", "retry"),
    [(400, b"invalid_api_key", True), (400, b"missing_event", False), (429, b"", True), (500, b"", True)],
)
def test_answers_to_identify_calls(status: int, text: bytes, retry: bool) -> None:
    """The same holds where answers are plain text."""
    (verdict,) = only(destination(), call("identify")).judged(answer(status, text))
    assert (verdict.accepted, verdict.retry) == (False, retry)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"apiKey": "short"}, "apiKey"),
        ({"region": "de"}, "region"),
        ({"minIdLength": 0}, "minIdLength"),
        ({"api": "v1"}, "api"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], path: str) -> None:
    """The check names the setting that is at fault."""
    assert [where for where, _ in problems("amplitude", {**SETTINGS, **settings})] == [f"d.settings.{path}"]


def test_a_deliver_role_sends_batches(make_rig: MakeRig) -> None:
    """Of five events in one batch one is wrong: it is a dead letter, and the four are sent again and delivered."""
    rig = make_rig()
    calls = [call("track", properties={"revenue": "much" if number == 2 else number}) for number in range(5)]
    network = deliver(rig, destination(), amplitude, [*calls, call("identify"), call("group")])
    statuses = [rig.status_at(f"message-{number}", "amplitude") for number in range(7)]
    assert statuses == ["delivered", "delivered", "failed", "delivered", "delivered", "delivered", "delivered"]
    batches = [sent for sent in network.seen if sent.path == "/batch"]
    assert (len(batches[0].json["events"]), amplitude(batches[0]).status) == (5, 400)
    assert {amplitude(sent).status for sent in batches[1:]} == {200}
