"""The kind google_analytics_4 against a stand-in of the documented Measurement Protocol and its validation server."""

from __future__ import annotations

import re
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

KIND = "google_analytics_4"
WEB = {"streamId": "G-ABC123DEF4", "apiSecret": "secret-of-the-stream"}
APP = {**WEB, "streamId": "1:1234567890:android:321abc456def7890", "clientIdField": "context.device.id"}
CONTEXT = {
    "googleAnalytics": {"clientId": "123.456"},
    "sessionId": 1_795_521_000,
    "device": {"id": "0123456789abcdef0123456789abcdef"},
    "page": {"url": "https://shop.example.com/" + "p" * 2_000, "title": "Cart", "referrer": "https://example.com/"},
    "ip": "203.0.113.7",
    "traits": {"plan": "pro"},
}
PRODUCT = {"product_id": "p1", "sku": "s1", "name": "Mug", "price": 3.5, "quantity": 2, "brand": "Acme", "position": 1}
CALLS: dict[str, dict[str, Any]] = {
    "track": {
        "event": "Order Completed",
        "properties": {
            "order_id": "o1",
            "revenue": 7,
            "currency": "EUR",
            "tax": 1.2,
            "products": [PRODUCT, {"sku": "s2"}],
            "gift wrap": True,
            "ga_own": 1,
            "tags": ["a"],
            "note": "n" * 300,
            "9 lives": 9,
        },
    },
    "page": {"name": "Cart", "category": "Shop", "properties": {"items": 3, "lines": 2}},
    "screen": {"name": "Cart", "properties": {"items": 3, "lines": 2}},
    "group": {"groupId": "g1", "traits": {"name": "Acme"}},
    "identify": {"traits": {"email": "ada@example.com", "age": 36, "about": "a" * 100, "address": {"city": "Ulm"}}},
}
RESERVED_BEGINNINGS = ("_", "firebase_", "ga_", "google_", "gtag.")


def call(type: str, **fields: Any) -> dict[str, Any]:
    return {"type": type, "userId": "u1", "anonymousId": "a1", "context": CONTEXT, **CALLS[type], **fields}


def destination(**settings: Any) -> Any:
    return destination_of(KIND, {**WEB, **settings})


def google(sent: Sent) -> Answer:
    """Answer as the documentation says: anything but another address is 2xx; the validation server names mistakes."""
    if sent.method != "POST" or sent.host not in ("www.google-analytics.com", "region1.google-analytics.com"):
        return answer(404)
    if sent.path == "/mp/collect":
        return answer(204)
    if sent.path != "/debug/mp/collect":
        return answer(404)
    return answer(200, {"validationMessages": [{"description": each} for each in mistakes(sent)]})


def mistakes(sent: Sent) -> list[str]:
    """What of a request is not as documented."""
    found: list[str] = []
    body = sent.json
    is_app = "firebase_app_id" in sent.query
    if sent.headers["content-type"] != "application/json" or len(sent.body) > 130_000:
        found.append("content type, or beyond 130 kB")
    if set(sent.query) != {"api_secret", "firebase_app_id" if is_app else "measurement_id"}:
        found.append("query")
    if not isinstance(body.get("app_instance_id" if is_app else "client_id"), str):
        found.append("no client")
    known = {"client_id", "app_instance_id", "user_id", "timestamp_micros", "user_properties", "consent", "events"}
    found += sorted(body.keys() - known - {"validation_behavior", "ip_override"})
    if "user_id" in body and not (isinstance(body["user_id"], str) and len(body["user_id"]) <= 256):
        found.append("user_id")
    if not isinstance(body.get("timestamp_micros"), int) or body["timestamp_micros"] // 10**15 != 1:
        found.append("timestamp_micros")
    if set(body.get("consent", {}).values()) - {"GRANTED", "DENIED"}:
        found.append("consent")
    properties = body.get("user_properties", {})
    if len(properties) > 25:
        found.append("more than 25 user properties")
    for name, value in properties.items():
        if not is_name(name, 24) or set(value) != {"value"} or not is_value(value["value"], 36):
            found.append(f"user property {name}")
    if not 1 <= len(body["events"]) <= 25:
        found.append("events")
    for event in body["events"]:
        if not is_name(event.get("name", ""), 40) or event["name"] in ("session_start", "error", "first_visit"):
            found.append(f"event {event.get('name')}")
        found += param_mistakes(event["params"])
    return found


def param_mistakes(params: dict[str, Any]) -> list[str]:
    longest = {"page_location": 1_000, "page_referrer": 420, "page_title": 300}
    found = ["more than 25 parameters"] if len(params) > 25 else []
    for name, value in params.items():
        if name == "items":
            items = [inner for item in value for inner in item.values()]
            found += [] if value and all(value) and all(is_value(each, 100) for each in items) else ["items"]
        elif not is_name(name, 40) or not is_value(value, longest.get(name, 100)):
            found.append(f"parameter {name}")
    return found


def is_name(name: str, characters_max: int) -> bool:
    right = re.fullmatch(r"[^\W\d_]\w*", name) is not None and len(name) <= characters_max
    return right and not name.startswith(RESERVED_BEGINNINGS)


def is_value(value: Any, characters_max: int) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= characters_max
    return isinstance(value, int | float) and not isinstance(value, bool)


def event_of(type: str, settings: dict[str, Any] = WEB, **fields: Any) -> dict[str, Any]:
    """The one event that a call becomes, after the stand-in found nothing wrong with it."""
    made = only(destination_of(KIND, settings), call(type, **fields))
    assert mistakes(made.sent) == []
    (event,) = made.sent.json["events"]
    return dict(event)


def test_the_kind_is_complete(tmp_path: Path) -> None:
    """Settings, guide and icon are there, and the check takes the guide's example."""
    check_kind(KIND)
    assert check_guide(KIND, tmp_path) == 1


@pytest.mark.parametrize("settings", [WEB, APP], ids=["web", "app"])
@pytest.mark.parametrize("type", CALLS)
def test_every_call_is_as_documented(settings: dict[str, Any], type: str) -> None:
    """Both kinds of stream get every type of call with their own ids, and the stand-in finds nothing wrong."""
    made = only(destination_of(KIND, settings), call(type))
    assert mistakes(made.sent) == []
    assert made.judged(google(made.sent)) == [ACCEPTED]
    body = made.sent.json
    assert made.sent.query["api_secret"] == WEB["apiSecret"]
    if settings is WEB:
        assert (made.sent.query["measurement_id"], body["client_id"]) == ("G-ABC123DEF4", "123.456")
        assert "app_instance_id" not in body
    else:
        assert made.sent.query["firebase_app_id"] == APP["streamId"]
        assert (body["app_instance_id"], "client_id" in body) == (CONTEXT["device"]["id"], False)  # type: ignore[index]
    assert (body["user_id"], body["timestamp_micros"]) == ("u1", RECEIVED_MS * 1_000)
    assert body["events"][0]["params"]["session_id"] == "1795521000"


def test_an_order_is_a_purchase() -> None:
    """Google's names for what commerce events say; the rest of the properties are parameters of their own."""
    event = event_of("track")
    assert event["name"] == "purchase"
    assert event["params"] == {
        "session_id": "1795521000",
        "engagement_time_msec": 1,
        "currency": "EUR",
        "value": 7,
        "transaction_id": "o1",
        "tax": 1.2,
        "gift_wrap": "true",
        "note": "n" * 100,
        "lives": 9,
        "items": [
            {"item_id": "p1", "item_name": "Mug", "item_brand": "Acme", "price": 3.5, "quantity": 2, "index": 1},
            {"item_id": "s2"},
        ],
    }


@pytest.mark.parametrize(
    ("event", "name"),
    [
        ("Order Refunded", "refund"),
        ("Product Added", "add_to_cart"),
        ("Products Searched", "search"),
        ("Demo Requested", "generate_lead"),
        ("Signed Up", "joined"),
        ("Trial – started (v2.1)", "trial_started_v2_1"),
        ("Überraschung", "überraschung"),
        ("x" * 60, "x" * 40),
    ],
)
def test_names_of_events(event: str, name: str) -> None:
    """Own names win over those of commerce events; every other name is written as Google allows."""
    own = {"Demo Requested": "generate_lead", "Signed Up": "joined"}
    assert event_of("track", {**WEB, "eventNames": own}, event=event)["name"] == name


def test_one_product_is_an_item() -> None:
    """Events about a single product carry it in their own properties."""
    event = event_of("track", event="Product Viewed", properties=PRODUCT)
    assert (event["name"], event["params"]["items"][0]["item_id"], event["params"]["value"]) == ("view_item", "p1", 3.5)


def test_a_page_says_where() -> None:
    """The address comes from the page's context, cut at Google's limit."""
    params = event_of("page")["params"]
    assert len(params["page_location"]) == 1_000
    assert (params["page_title"], params["page_name"], params["page_category"]) == ("Cart", "Cart", "Shop")


def test_traits_are_user_properties() -> None:
    """Texts are cut, numbers stay numbers, objects are left out; a group's traits are not the user's."""
    body = only(destination(), call("identify")).sent.json
    assert body["user_properties"] == {
        "plan": {"value": "pro"},
        "email": {"value": "ada@example.com"},
        "age": {"value": 36},
        "about": {"value": "a" * 36},
    }
    assert "user_properties" not in only(destination(), call("group")).sent.json


def test_the_most_that_google_takes() -> None:
    """Of a hundred properties and traits, 25 go; Google's own come first."""
    many = {f"property {number}": number for number in range(100)}
    made = only(destination(), call("track", properties={**many, "currency": "EUR"}, context={"traits": many}))
    assert mistakes(made.sent) == []
    params = made.sent.json["events"][0]["params"]
    assert (len(params), params["currency"], len(made.sent.json["user_properties"])) == (25, "EUR", 25)


def test_what_google_would_drop_without_a_word() -> None:
    """A reserved name, a name without a letter, and an app without its instance are dead letters that say so."""
    assert "'session_start' is a name that the receiver reserves" in refusal(
        destination(), call("track", event="Session Start")
    )
    assert "the receiver needs this" in refusal(destination(), call("track", event="!!!"))
    assert "the receiver needs this" in refusal(destination_of(KIND, APP), call("track", context={}))


def test_who_an_event_is_from() -> None:
    """Without a client id of Google's, the anonymous id stands for the browser, else the user."""
    bare = call("track", context={})
    assert only(destination(), bare).sent.json["client_id"] == "a1"
    assert only(destination(), {**bare, "anonymousId": None}).sent.json["client_id"] == "u1"


def test_region_consent_and_address() -> None:
    """The region decides the host; consent and IP address are sent only where the settings say so."""
    plain = only(destination(), call("track")).sent
    assert (plain.host, plain.json.keys() & {"consent", "ip_override"}) == ("www.google-analytics.com", set())
    sent = only(destination(region="eu", adConsent="DENIED", sendIp="yes"), call("track")).sent
    assert (sent.host, sent.json["ip_override"]) == ("region1.google-analytics.com", "203.0.113.7")
    assert sent.json["consent"] == {"ad_user_data": "DENIED", "ad_personalization": "DENIED"}


def test_what_is_not_sent() -> None:
    """Google has no call for an alias, and another API for deletions."""
    assert made_of(destination(), {"type": "alias", "userId": "u1", "previousId": "a1"}) == []
    assert made_of(destination(), {"type": "delete", "userId": "u1"}) == []


def test_the_validation_server_refuses_events() -> None:
    """Where events are only checked, one with a mistake is refused with Google's words, and others are fine."""
    checked = destination(path="debug/mp/collect")
    made = only(checked, call("track"))
    assert made.sent.json["validation_behavior"] == "ENFORCE_RECOMMENDATIONS"
    assert made.judged(google(made.sent)) == [ACCEPTED]
    words = {
        "validationMessages": [
            {"description": "Event at index: [0] has invalid name", "validationCode": "NAME_INVALID"}
        ]
    }
    (verdict,) = made.judged(answer(200, words))
    assert (verdict.accepted, verdict.retry, verdict.of_event) == (False, False, True)
    assert "NAME_INVALID" in verdict.error


@pytest.mark.parametrize(("status", "retry"), [(500, True), (503, True), (429, True), (404, False)])
def test_other_answers(status: int, retry: bool) -> None:
    """What may pass is tried again."""
    (verdict,) = only(destination(), call("track")).judged(answer(status))
    assert (verdict.accepted, verdict.retry, verdict.of_event) == (False, retry, False)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"streamId": "UA-123456-1"}, "streamId"),
        ({"apiSecret": "short"}, "apiSecret"),
        ({"region": "us"}, "region"),
        ({"eventNames": {"A": "9a"}}, "eventNames.A"),
        ({"clientIdField": "settings.apiSecret"}, "clientIdField"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], path: str) -> None:
    """The check names the setting that is at fault; no field leads to the secret."""
    assert [where for where, _ in problems(KIND, {**WEB, **settings})] == [f"d.settings.{path}"]


def test_a_deliver_role_sends_to_the_validation_server(make_rig: MakeRig) -> None:
    """Good events are delivered, one with a reserved name never leaves, one that Google refuses is a dead letter."""
    rig = make_rig()
    calls = [call("track"), call("track", event="Error"), call("track", event="Refused")]
    checked = destination(path="debug/mp/collect")
    refused = answer(200, {"validationMessages": [{"description": "no"}]})
    network = deliver(rig, checked, lambda sent: refused if b"refused" in sent.body else google(sent), calls)
    assert [sent.json["events"][0]["name"] for sent in network.seen] == ["purchase", "refused"]
    assert [rig.status_at(f"message-{number}", KIND) for number in range(3)] == ["delivered", "failed", "failed"]
