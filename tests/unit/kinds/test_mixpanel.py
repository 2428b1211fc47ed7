"""The kind mixpanel against a stand-in of the documented import, profile, group and GDPR APIs."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hookline.connections.definitions.model import ComputedTrait
from hookline.deliver.send.port import Answer
from hookline.kinds.answers import ACCEPTED
from hookline.people.definitions.definition import ready_of
from hookline.people.sync.sync import message
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.conftest import make_rig as make_rig
from tests.unit.kinds.receiving import (
    RECEIVED_MS,
    Made,
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
from tests.unit.kinds.stand_in import StandIn

TOKEN, GDPR = "591b3354bb2bdd96f72f23bf56911673", "oauth-token"
ACCOUNT = {"serviceAccount": "hookline.a1.mp", "serviceSecret": "hush", "projectId": "1978118"}
HOSTS = {"us": ("api", "mixpanel.com"), "eu": ("api-eu", "eu.mixpanel.com"), "in": ("api-in", "in.mixpanel.com")}
DEVICE = "5f0adeff-6668-4427-8d02-57d803a2b841"
CONTEXT = {
    "os": {"name": "iOS", "version": "17"},
    "ip": "203.0.113.7",
    "groupId": "group-1",
    "page": {"url": "https://shop.example.com/cart"},
    "campaign": {"source": "news"},
}
CALLS: dict[str, dict[str, Any]] = {
    "track": {"event": "Order Completed", "properties": {"total": 12.5, "time": "noon", "utm_term": "mug"}},
    "page": {"name": "Cart", "category": "Shop", "properties": {"lines": 3}},
    "screen": {"name": "Cart", "properties": {"lines": 3}},
    "identify": {"traits": {"email": "ada@example.com", "firstName": "Ada", "age": 36, "createdAt": "2026-01-02"}},
    "group": {"groupId": "group-1", "traits": {"name": "Acme", "seats": 12}},
    "alias": {"previousId": "user-0"},
    "delete": {},
}
INVALID_IDS = {"anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "0", "-1", "true", "[]"}


def call(type: str, **fields: Any) -> dict[str, Any]:
    who = {"userId": "user-1"} if type in ("alias", "delete") else {"userId": "user-1", "anonymousId": DEVICE}
    return {"type": type, **who, "context": CONTEXT, **CALLS[type], **fields}


def destination(**settings: Any) -> Any:
    return destination_of("mixpanel", {"projectToken": TOKEN, **settings})


def mixpanel(sent: Sent) -> Answer:
    """Answer as documented, by host and path."""
    assert sent.method == "POST"
    assert sent.headers["content-type"] == "application/json"
    api, privacy = next(hosts for hosts in HOSTS.values() if sent.host in (f"{hosts[0]}.mixpanel.com", hosts[1]))
    if sent.host == privacy:
        return of_deletion(sent)
    assert sent.host == f"{api}.mixpanel.com"
    if sent.path == "/import":
        return of_import(sent)
    assert "authorization" not in sent.headers
    if sent.path not in ("/engage", "/groups") or sent.query.get("strict") != "1":
        return answer(404)
    if sent.path == "/engage" and sent.query.get("ip") != "0":
        return answer(400, {"error": "the place of this service would become that of the user", "status": 0})
    updates = sent.json
    wrong = [index for index, each in enumerate(updates) if not is_update(each, sent.path == "/groups")]
    if wrong or not 1 <= len(updates) <= 2_000:
        records = [{"index": index, "message": "invalid update"} for index in wrong]
        return answer(400, {"code": 400, "error": "some data points failed", "failed_records": records})
    return answer(200, {"error": None, "status": 1})


def of_import(sent: Sent) -> Answer:
    credentials = base64.b64decode(sent.headers["authorization"].removeprefix("Basic ")).decode()
    by_account = credentials == "hookline.a1.mp:hush" and sent.query.get("project_id") == "1978118"
    if not by_account and (credentials != f"{TOKEN}:" or "project_id" in sent.query):
        return answer(401, {"code": 401, "error": "Invalid credentials", "status": "Unauthorized"})
    if sent.query.get("strict") != "1" or len(sent.json) > 2_000 or len(sent.body) > 10_000_000:
        return answer(413, {"code": 413, "error": "request exceeds max limit"})
    records = [
        {"index": index, "insert_id": "x", "field": field, "message": f"'{field}' is invalid"}
        for index, event in enumerate(sent.json)
        for field in wrong_fields(event)
    ]
    if records:
        imported = len(sent.json) - len({each["index"] for each in records})
        body = {"code": 400, "error": "some data points in the request failed validation", "status": "Bad Request"}
        return answer(400, {**body, "num_records_imported": imported, "failed_records": records})
    return answer(200, {"code": 200, "num_records_imported": len(sent.json), "status": "OK"})


def wrong_fields(event: dict[str, Any]) -> list[str]:
    """What of an event the validation of strict=1 refuses."""
    properties = event["properties"]
    wrong = [] if set(event) == {"event", "properties"} and event["event"] else ["event"]
    if (
        not isinstance(properties.get("time"), int)
        or not RECEIVED_MS - 10**11 < properties["time"] <= RECEIVED_MS + 3_600_000
    ):
        wrong.append("properties.time")
    who = properties.get("distinct_id")
    if not isinstance(who, str) or who.lower() in INVALID_IDS:
        wrong.append("properties.distinct_id")
    if re.fullmatch(r"[A-Za-z0-9-]{1,36}", str(properties.get("$insert_id"))) is None:
        wrong.append("properties.$insert_id")
    if len(properties) >= 255 or any(isinstance(value, list) and len(value) >= 255 for value in properties.values()):
        wrong.append("properties")
    own = {"$identify": {"$identified_id", "$anon_id", "token"}, "$create_alias": {"alias", "token"}}
    return wrong + sorted(own.get(event["event"], set()) - properties.keys())


def is_update(update: dict[str, Any], of_group: bool) -> bool:
    names = {"$token", "$group_key", "$group_id"} if of_group else {"$token", "$distinct_id"}
    operations = update.keys() & {"$set", "$unset", "$union", "$delete"}
    known = names | operations | (set() if of_group else {"$ip", "$ignore_alias"})
    is_complete = names <= update.keys() <= known and len(operations) == 1 and update["$token"] == TOKEN
    union = update.get("$union", {"x": ["x"]})
    return is_complete and bool(union) and all(isinstance(each, list) and each for each in union.values())


def of_deletion(sent: Sent) -> Answer:
    if (sent.path, sent.query) != ("/api/app/data-deletions/v3.0/", {"token": TOKEN}):
        return answer(404)
    if sent.headers.get("authorization") != f"Bearer {GDPR}":
        return answer(401, {"error": "Unauthorized", "status": "error"})
    right = sent.json["compliance_type"] in ("GDPR", "CCPA") and 1 <= len(sent.json["distinct_ids"]) <= 1_999
    return answer(201 if right else 400, {"status": "ok", "results": {"task_id": "35bd8477"}})


def by_path(destination: Any, *calls: dict[str, Any]) -> dict[str, Made]:
    return {made.sent.path: made for made in made_of(destination, *calls)}


def properties_of(call: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """The properties of the event that a call becomes, after Mixpanel has taken it."""
    made = only(destination(**settings), call)
    assert mixpanel(made.sent).status == 200
    (event,) = made.sent.json
    return dict(event["properties"])


def test_the_kind_is_complete(tmp_path: Path) -> None:
    """Settings, guide and icon are there, and the check takes the guide's examples."""
    check_kind("mixpanel")
    assert check_guide("mixpanel", tmp_path) == 2


@pytest.mark.parametrize("settings", [{}, {"region": "eu", **ACCOUNT}, {"region": "in", "identity": "original"}])
@pytest.mark.parametrize("type", CALLS)
def test_every_call_is_as_documented(settings: dict[str, Any], type: str) -> None:
    """Each type of call goes to the APIs that it is for, in the region of the project, and is accepted."""
    made = made_of(destination(gdprToken=GDPR, **settings), call(type))
    original = settings.get("identity") == "original"
    expected = {"identify": 2 if original else 1, "alias": 1 if original else 0, "group": 2, "delete": 2}
    assert len(made) == expected.get(type, 1)
    api, privacy = HOSTS[settings.get("region", "us")]
    for each in made:
        assert each.sent.host in (f"{api}.mixpanel.com", privacy)
        assert each.judged(mixpanel(each.sent)) == [ACCEPTED]


def test_a_track_call() -> None:
    """Ids, time in milliseconds, group and context are Mixpanel's; of a property with such a name Mixpanel's stays."""
    properties = properties_of(call("track"))
    insert_id = properties.pop("$insert_id")
    assert len(insert_id) == 36
    assert properties == {
        "total": 12.5,
        "utm_term": "mug",
        "time": RECEIVED_MS,
        "distinct_id": "user-1",
        "$user_id": "user-1",
        "$device_id": DEVICE,
        "company": "group-1",
        "$os": "iOS",
        "$os_version": "17",
        "ip": "203.0.113.7",
        "$current_url": "https://shop.example.com/cart",
        "utm_source": "news",
        "mp_lib": "hookline",
    }
    assert properties_of(call("track", messageId="message-0"))["$insert_id"] == insert_id
    assert properties_of(call("track", messageId="other"))["$insert_id"] != insert_id


def test_who_an_event_is_from() -> None:
    """An anonymous user has the form that the project's way of merging asks for; no address means no place."""
    anonymous = call("track", userId=None, context={})
    properties = properties_of(anonymous)
    assert (properties["distinct_id"], properties["ip"]) == (f"$device:{DEVICE}", 0)
    assert properties_of(anonymous, identity="original")["distinct_id"] == DEVICE


def test_pages_have_names_of_choice() -> None:
    """What a page call is called may hold fields of the event, which are properties too."""
    event = only(destination(pageEvent="Viewed {{name}}"), call("page")).sent.json[0]
    assert event["event"] == "Viewed Cart"
    assert event["properties"].items() >= {"name": "Cart", "category": "Shop", "lines": 3}.items()
    assert "the receiver needs this" in refusal(destination(pageEvent="{{name}}"), call("page", name=None))


def test_profiles() -> None:
    """Traits that Mixpanel knows have its names, and are not there twice."""
    (update,) = only(destination(), call("identify")).sent.json
    assert update == {
        "$token": TOKEN,
        "$distinct_id": "user-1",
        "$ip": "203.0.113.7",
        "$set": {"$email": "ada@example.com", "$first_name": "Ada", "$created": "2026-01-02T00:00:00.000Z", "age": 36},
    }
    assert made_of(destination(), call("identify", traits={})) == []


@pytest.mark.parametrize(
    ("value", "operation"),
    [
        ("12.5", {"$set": {"average_order": 12.5}}),
        ("0", {"$set": {"average_order": 0}}),
        ("[]", {"$set": {"average_order": []}}),
        ("null", {"$unset": ["average_order"]}),
    ],
)
def test_a_computed_trait_without_a_value_leaves_the_profile(value: str, operation: dict[str, Any]) -> None:
    """Otherwise the number from before would stay."""
    trait = {"id": "average_order", "name": "Average Order", "event": "Order", "destinations": ["mixpanel"]}
    average = msgspec.convert({**trait, "aggregate": "average", "property": "properties.total"}, ComputedTrait)
    ready = ready_of(average, {}, {"mixpanel": "mixpanel"})
    there = StandIn("mixpanel", projectToken=TOKEN)
    sent = there.one(message(ready, 1, 1, "user-1", value, RECEIVED_MS, RECEIVED_MS, ("mixpanel",)))
    assert sent.url == "https://api.mixpanel.com/engage?strict=1&verbose=1&ip=0"
    assert sent.json == [{"$token": TOKEN, "$distinct_id": "user-1", **operation}]
    assert is_update(sent.json[0], of_group=False)


def test_groups() -> None:
    """The group has a profile of its own, and is added to those of the user."""
    made = by_path(destination(groupKey="team"), call("group"))
    assert made["/groups"].sent.json == [
        {"$token": TOKEN, "$group_key": "team", "$group_id": "group-1", "$set": {"$name": "Acme", "seats": 12}}
    ]
    assert made["/engage"].sent.json[0]["$union"] == {"team": ["group-1"]}
    assert properties_of(call("track"), groupKey="team")["team"] == "group-1"


def test_identities_of_original_projects() -> None:
    """Both ids are merged when both are known, and an alias leads to the new one."""
    original = destination(identity="original")
    merged = by_path(original, call("identify"))["/import"].sent.json[0]
    assert merged["event"] == "$identify"
    assert merged["properties"].items() >= {"$identified_id": "user-1", "$anon_id": DEVICE, "token": TOKEN}.items()
    assert set(by_path(original, call("identify", anonymousId=None))) == {"/engage"}
    alias = only(original, call("alias")).sent.json[0]
    assert (alias["event"], alias["properties"]["distinct_id"], alias["properties"]["alias"]) == (
        *("$create_alias", "user-0", "user-1"),
    )


def test_deletions() -> None:
    """The profile is deleted, and with a token of the GDPR API the user's events too, many in one request."""
    assert set(by_path(destination(), call("delete"))) == {"/engage"}
    many = [call("delete", userId=f"user-{number}") for number in range(1_000)]
    made = by_path(destination(gdprToken=GDPR, complianceType="CCPA"), *many)
    job = made["/api/app/data-deletions/v3.0/"].sent
    assert (job.json["compliance_type"], len(job.json["distinct_ids"])) == ("CCPA", 1_000)
    assert {mixpanel(each.sent).status for each in made.values()} == {200, 201}


def test_a_full_batch_with_many_properties() -> None:
    """A thousand events are one request; of 400 properties as many go as Mixpanel takes."""
    many = {f"property {number}": number for number in range(400)}
    made = only(
        destination(), *[call("track", messageId=f"m{number}") for number in range(999)], call("track", properties=many)
    )
    assert mixpanel(made.sent).status == 200
    assert len(made.sent.json) == 1_000


def test_the_events_that_an_answer_names_are_refused() -> None:
    """A wrong event is a dead letter with Mixpanel's words; the others of its batch are stored."""
    made = only(
        destination(), call("track"), call("track", userId="null"), call("track", properties={"list": [0] * 300})
    )
    reply = mixpanel(made.sent)
    assert reply.status == 400
    good, nobody, long = made.judged(reply)
    assert good == ACCEPTED
    assert (nobody.retry, nobody.of_event, nobody.error) == (False, True, "'properties.distinct_id' is invalid")
    assert (long.retry, long.of_event, long.error) == (False, True, "'properties' is invalid")


@pytest.mark.parametrize(
    ("status", "body", "retry", "of_event"),
    [
        (401, {"code": 401, "error": "Invalid credentials"}, False, False),
        (413, {"code": 413, "error": "request exceeds max limit of 2097152 bytes"}, False, False),
        (429, {"code": 429, "error": "Project exceeded rate limits."}, True, False),
        (502, b"", True, False),
    ],
)
def test_answers_about_the_whole_batch(status: int, body: Any, retry: bool, of_event: bool) -> None:
    """Credentials are no event's fault, and what may pass is tried again."""
    verdicts = only(destination(), call("track"), call("track")).judged(answer(status, body))
    assert {(each.accepted, each.retry, each.of_event) for each in verdicts} == {(False, retry, of_event)}


@pytest.mark.parametrize(
    ("body", "accepted"), [(b"1", True), (b"0", False), ({"status": 1, "error": None}, True), ({"status": 0}, False)]
)
def test_profiles_are_refused_with_200(body: Any, accepted: bool) -> None:
    """An update that Mixpanel refuses with the status 200 is no success."""
    (verdict,) = only(destination(), call("identify")).judged(answer(200, body))
    assert (verdict.accepted, verdict.of_event) == (accepted, not accepted)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"projectToken": "no token"}, "projectToken"),
        ({"region": "de"}, "region"),
        ({"projectId": "my project"}, "projectId"),
        ({"identity": "legacy"}, "identity"),
    ],
)
def test_settings_that_cannot_work(settings: dict[str, Any], path: str) -> None:
    """The check names the setting that is at fault."""
    assert [where for where, _ in problems("mixpanel", {"projectToken": TOKEN, **settings})] == [f"d.settings.{path}"]


def test_a_deliver_role_sends_batches(make_rig: MakeRig) -> None:
    """Of five events in one batch one is wrong: it is a dead letter, and nothing is sent twice; profiles go too."""
    rig = make_rig()
    calls = [call("track", userId="null" if number == 2 else "user-1") for number in range(5)]
    network = deliver(rig, destination(), mixpanel, [*calls, call("identify"), call("group")])
    statuses = [rig.status_at(f"message-{number}", "mixpanel") for number in range(7)]
    assert statuses == ["delivered", "delivered", "failed", "delivered", "delivered", "delivered", "delivered"]
    imports = [sent for sent in network.seen if sent.path == "/import"]
    assert sum(len(sent.json) for sent in imports) == 5
