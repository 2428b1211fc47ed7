"""The tester and the preview for destinations whose events become requests of a mapping."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hookline.connections.model import SETTINGS_DEPTH_MAX
from tests.unit.control.running import Answer, Running, record
from tests.unit.features.destinations.tester.receiver import Receiver

OK = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}'
EVENT = {"type": "track", "event": "Order", "userId": "u 1", "messageId": "m1", "properties": {"total": 1.5}}
TOKEN = "token-that-nobody-may-see"


@pytest.fixture(scope="module")
def control(new_control: Callable[..., Running]) -> Running:
    """The one that all tests here share."""
    return new_control()


def destination(mapping: list[dict[str, Any]], **settings: Any) -> dict[str, Any]:
    """A destination of kind http."""
    settings = {"auth": {"type": "bearer", "token": TOKEN}, **settings}
    return {"id": "api", "name": "API", "kind": "http", "sources": ["site"], "settings": settings, "mapping": mapping}


def request(receiver: Receiver | str, **more: Any) -> dict[str, Any]:
    """A request to a receiver."""
    url = receiver if isinstance(receiver, str) else receiver.url
    return {"name": "send", "url": f"{url}/{{{{userId}}}}", "body": {"sum": {"@path": "$.properties.total"}}, **more}


def make(control: Running, *mapping: dict[str, Any], **settings: Any) -> None:
    """Save it."""
    answer = control.api("PUT", "/destinations/api", destination(list(mapping), **settings))
    assert answer.status < 300, answer.text


def tried(control: Running, **asked: Any) -> Answer:
    """Ask for a test."""
    return control.api("POST", "/destinations/api/test", {"event": EVENT, **asked})


def preview(control: Running, mapping: list[dict[str, Any]], settings: dict[str, Any], **asked: Any) -> Any:
    """Ask for a preview of what is not saved."""
    return control.api("POST", "/destinations/preview", {"destination": destination(mapping, **settings), **asked}).json


def test_what_is_shown_is_what_is_sent(control: Running) -> None:
    """Head and body are those of the request that arrives, the event's values encoded in the URL."""
    with Receiver(OK) as receiver:
        make(control, request(receiver))
        report = tried(control, reveal=True).json
        (shown,) = report["requests"]
        lines = [f"{shown['method']} {shown['target']} HTTP/1.1"]
        lines += [f"{each['name']}: {each['value']}" for each in shown["headers"]]
        assert receiver.requests == ["\r\n".join([*lines, "", shown["body"]]).encode()]
        assert (shown["name"], shown["url"]) == ("send", f"{receiver.url}/u%201")
        assert json.loads(shown["body"]) == {"sum": 1.5}
        assert {"name": "Authorization", "value": f"Bearer {TOKEN}"} in shown["headers"]


def test_no_secret_is_shown_wherever_a_mapping_puts_it(control: Running) -> None:
    """In the body in capitals, in the query, in a header and as authorization: nothing of it, nor its length."""
    secrets = {"key": "abcd-secret-key-9876"}
    with Receiver(OK) as receiver:
        make(
            control,
            request(
                f"{receiver.url}?key={{{{settings.secrets.key}}}}&u=",
                headers={"X-Api-Key": {"@path": "$.settings.secrets.key"}},
                body={"a": {"@case": {"operator": "upper", "value": {"@path": "$.settings.secrets.key"}}}},
            ),
            secrets=secrets,
        )
        answer = tried(control)
        assert answer.status == 200
        text = answer.text.lower()
        assert secrets["key"] not in text
        assert TOKEN not in text
        (shown,) = answer.json["requests"]
        assert shown["masked"] is True
        assert json.loads(shown["body"]) == {"a": "…"}
        (sent,) = receiver.requests
        assert b"ABCD-SECRET-KEY-9876" in sent
        assert {"name": "Content-Length", "value": str(shown["bodyBytes"])} in shown["headers"]
        assert shown["bodyBytes"] == len(shown["body"].encode()) != len(sent.partition(b"\r\n\r\n")[2])


SECRET = {"@path": "$.settings.secrets.key"}


def without(pattern: str, replacement: str = "") -> dict[str, Any]:
    """The stored secret with a part of it replaced, if it has that."""
    return {"@replace": {"pattern": pattern, "replacement": replacement, "value": SECRET}}


@pytest.mark.parametrize(
    "asks",
    [
        pytest.param(lambda part: {"body": {"a": without(part)}}, id="length"),
        pytest.param(lambda part: {"headers": {"X-Probe": without(part, "\n")}}, id="whether it can be made"),
        pytest.param(
            lambda part: {"body": {"a": {"@if": {"blank": without(part), "then": 1, "else": 2}}}}, id="what it is"
        ),
    ],
)
def test_no_dry_run_depends_on_what_a_secret_holds(control: Running, asks: Callable[[str], dict[str, Any]]) -> None:
    """Whoever may write mappings could otherwise ask for a secret letter by letter: a guess that is right and one that
    is wrong look the same."""
    make(control, request("https://api.example"), auth={"type": "none"}, secrets={"key": "abcdefgh"})
    right, wrong = (
        tried(control, dryRun=True, mapping=[request("https://api.example", **asks(part))]).json
        for part in ("abcdefgh", "ijklmnop")
    )
    assert (right["requests"], right["problems"]) == (wrong["requests"], wrong["problems"])
    assert [each["masked"] for each in right["requests"]] == [True]


def test_a_batch_is_shown_as_a_batch_of_one(control: Running) -> None:
    """The event is in the object that goes out, as the only item."""
    batch = {"size": 10, "format": "object", "field": "events", "with": {"v": 1}}
    with Receiver(OK) as receiver:
        make(control, request(receiver, url=receiver.url, batch=batch))
        (shown,) = tried(control, dryRun=True).json["requests"]
        assert json.loads(shown["body"]) == {"v": 1, "events": [{"sum": 1.5}]}
        assert "X-Message-Id" not in {each["name"] for each in shown["headers"]}


def test_an_answer_means_what_the_request_says(control: Running) -> None:
    """A 200 that refuses is a refusal with the receiver's words; without rules it would be a success."""
    with Receiver(b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"error":"no way"}') as receiver:
        make(control, request(receiver))
        (answer,) = tried(control).json["answers"]
        assert (answer["outcome"], answer["means"]) == ("success", "accepted")
        make(control, request(receiver, success={"if": "body.ok = true"}))
        (answer,) = tried(control).json["answers"]
        assert (answer["outcome"], answer["means"], answer["httpStatus"]) == ("refused", "refused", 200)
        assert "no way" in answer["error"]
        make(control, request(receiver, success={"if": "body.ok = true", "retry": 'body.error = "no way"'}))
        assert tried(control).json["answers"][0]["means"] == "retried"


def test_what_an_event_lacks_is_named_and_the_others_are_shown(control: Running) -> None:
    """One request cannot be made, another can; the place is a pointer into the destination."""
    with Receiver(OK) as receiver:
        lacking = request(f"{receiver.url}/{{{{properties.coupon}}}}", name="coupon")
        make(control, lacking, request(receiver))
        report = tried(control).json
        assert [each["name"] for each in report["requests"]] == ["send"]
        (problem,) = report["problems"]
        assert problem["pointer"] == "/mapping/0/url"
        assert "properties.coupon" in problem["detail"]
        assert len(receiver.requests) == 1


def test_an_event_that_becomes_no_request(control: Running) -> None:
    """The tester says that the mapping has no request for it, and nothing is sent."""
    with Receiver(OK) as receiver:
        make(control, request(receiver, **{"if": 'type = "page"'}))
        report = tried(control).json
        assert (report["requests"], report["answers"]) == ([], [])
        assert report["routing"]["stoppedBy"] == "No request of the mapping matches this event"


def test_another_mapping_is_tried_before_it_is_saved(control: Running) -> None:
    """It is sent with the stored secrets to the hosts that have them, and to no other; its faults have pointers."""
    with Receiver(OK) as receiver, Receiver(OK) as other:
        make(control, request(receiver))
        report = tried(control, mapping=[request(receiver, body={"new": True})]).json
        assert json.loads(report["requests"][0]["body"]) == {"new": True}
        assert f"Bearer {TOKEN}".encode() in receiver.requests[0]
        moved = tried(control, mapping=[request(other)])
        assert (moved.status, moved.json["code"], other.requests) == (422, "nothing_to_keep", [])
        wrong = tried(control, mapping=[request(receiver, body={"a": {"@path": 1}})]).json
        assert wrong["errors"][0]["pointer"].startswith("/mapping/0/body/a")
        assert control.api("GET", "/destinations/api").json["mapping"][0]["body"] == request(receiver)["body"]


def test_a_changed_mapping_never_moves_a_secret(control: Running) -> None:
    """Whoever may edit cannot have the stored token sent to a host of their own by changing the URL alone."""
    with Receiver(OK) as receiver, Receiver(OK) as other:
        make(control, request(receiver))
        moved = control.api("PATCH", "/destinations/api", {"mapping": [request(other)]})
        assert (moved.status, moved.json["code"]) == (422, "nothing_to_keep")
        assert "another host" in moved.json["detail"]
        again = {"mapping": [request(other)], "settings": {"auth": {"token": "a new one"}}}
        assert control.api("PATCH", "/destinations/api", again).status == 200
        same = control.api("PATCH", "/destinations/api", {"name": "New", "mapping": [request(other, method="PUT")]})
        assert (same.status, same.json["settings"]["auth"]["token"]) == (200, "…")


def test_preview_of_what_is_not_saved(control: Running) -> None:
    """The exact request of a sample, of an event given, or else of the newest stored one, and the secret nowhere."""
    url = "https://api.example/v1"
    report = preview(control, [request(url)], {}, event=EVENT)
    (shown,) = report["requests"]
    assert (report["problems"], shown["url"], shown["target"]) == ([], "https://api.example/v1/u%201", "/v1/u%201")
    assert {"name": "Authorization", "value": "Bearer …"} in shown["headers"]
    assert TOKEN not in json.dumps(report)
    assert preview(control, [request(url)], {}, sample="page")["event"]["type"] == "page"
    assert preview(control, [request(url)], {})["event"]["isStored"] is False
    control.append(record("stored", "Seen", userId="u9"))
    report = preview(control, [request(url)], {})
    assert (report["event"]["name"], report["event"]["isStored"]) == ("Seen", True)
    assert report["requests"][0]["target"] == "/v1/u9"


WITH_NOTHING = {"v": {"@template": {"@path": "properties.x"}}}
AROUND_NOTHING = {"size": 10, "format": "object", "field": "events", "with": WITH_NOTHING}
"""A batch whose envelope asks for what settings alone do not give."""


@pytest.mark.parametrize(
    ("mapping", "pointer"),
    [
        ([{"name": "a", "url": "ftp://x.example/"}], "/mapping/0/url"),
        ([{"name": "a", "url": "https://x.example/", "body": {"b": {"@template": 1}}}], "/mapping/0/body/b/@template"),
        ([{"name": "a", "url": "https://x.example/", "if": "type ="}], "/mapping/0/if"),
        ([{"name": "a", "url": "https://x.example/", "method": "HEAD"}], "/mapping/0/method"),
        ([{"name": "a", "url": "https://x.example/{{properties.nothing}}"}], "/mapping/0/url"),
        (
            [{"name": "a", "url": "https://x.example/", "body": {}, "batch": AROUND_NOTHING}],
            "/mapping/0/batch/with/v/@template",
        ),
        ([], "/mapping"),
    ],
)
def test_preview_names_the_place_of_what_is_wrong(
    control: Running, mapping: list[dict[str, Any]], pointer: str
) -> None:
    """In what is written, and in what an event lacks."""
    report = preview(control, mapping, {}, event=EVENT)
    assert [each["pointer"] for each in report["problems"]] == [pointer]
    assert report["requests"] == []


@pytest.mark.parametrize("sources", [5, "site", {"site": 1}, [5], None])
def test_preview_of_sources_that_are_none(control: Running, sources: object) -> None:
    """A form is previewed while it is written: what is no list of ids is a problem with its place."""
    answer = control.api("POST", "/destinations/preview", {"destination": {"sources": sources}, "sample": "track"})
    assert answer.status == 200
    assert answer.json["problems"][0]["pointer"].startswith("/sources")


def test_preview_of_a_webhook_without_signature(control: Running) -> None:
    """A webhook can be previewed too; its signature is not shown."""
    settings = {"webhooks": [{"url": "https://a.example/"}], "sharedSecret": "some secret of mine"}
    asked = {"destination": {"kind": "webhook", "sources": [], "settings": settings}, "event": EVENT}
    (shown,) = control.api("POST", "/destinations/preview", asked).json["requests"]
    assert {"name": "X-Signature", "value": "…"} in shown["headers"]
    assert json.loads(shown["body"])["event"] == "Order"


def test_a_token_is_fetched_for_a_test_and_shown_to_nobody(control: Running) -> None:
    """With client credentials the request that arrives carries the token; without one the answer says why."""
    token = b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"access_token":"fetched-token-9876543"}'
    refused = b"HTTP/1.1 401 No\r\nContent-Length: 7\r\n\r\nunknown"
    client = {"type": "oauth2", "clientId": "me", "clientSecret": "a client secret"}
    with Receiver(OK) as receiver, Receiver(token) as giving, Receiver(refused) as refusing:
        make(control, request(receiver), auth={**client, "tokenUrl": giving.url})
        answer = tried(control)
        assert b"Authorization: Bearer fetched-token-9876543\r\n" in receiver.requests[0]
        assert {"name": "Authorization", "value": "Bearer …"} in answer.json["requests"][0]["headers"]
        assert "fetched-token" not in answer.text
        make(control, request(receiver), auth={**client, "tokenUrl": refusing.url})
        (answer_of_none,) = tried(control).json["answers"]
        assert (answer_of_none["outcome"], answer_of_none["means"]) == ("connection_failed", "retried")
        assert "unknown" in answer_of_none["error"]
        assert len(receiver.requests) == 1


def test_a_header_with_a_stored_secret(control: Running) -> None:
    """What is said of the header is done, first in the mapping, then in the settings; the preview has it masked."""
    with Receiver(OK) as receiver:
        make(control, request(receiver))
        mapping = [request(receiver, headers={"X-Key": {"@template": "Key {{settings.secrets.apiKey}}"}})]
        said = control.api("PATCH", "/destinations/api", {"mapping": mapping})
        assert (said.status, said.json["errors"][0]["pointer"]) == (422, "/mapping/0/headers/X-Key")
        assert "enter it there first" in said.json["errors"][0]["detail"]
        secrets = {"settings": {"secrets": {"apiKey": "a-key-nobody-sees"}}, "mapping": mapping}
        assert control.api("PATCH", "/destinations/api", secrets).status == 200
        shown = control.api("GET", "/destinations/api").json
        report = control.api("POST", "/destinations/preview", {"destination": shown, "event": EVENT}).json
        assert report["problems"] == []
        assert {"name": "X-Key", "value": "Key …"} in report["requests"][0]["headers"]
        assert tried(control).json["answers"][0]["means"] == "accepted"
        assert b"X-Key: Key a-key-nobody-sees\r\n" in receiver.requests[0]


@pytest.mark.parametrize("kind", ["http", "webhook", "amplitude"])
def test_settings_that_are_nested_too_deeply_are_refused(control: Running, kind: str) -> None:
    """Previewed, checked or saved: each answers what is wrong, as for other settings, and does not run out of stack."""
    deep = json.loads('{"a":[' * 400 + "]}" * 400)
    given = {**destination([request("https://api.example")], variables=deep), "id": "deep", "kind": kind}
    shown = control.api("POST", "/destinations/preview", {"destination": given, "sample": "track"})
    made = control.api("POST", "/destinations", given)
    assert (shown.status, shown.json["code"], shown.json["errors"][0]["pointer"]) == (
        (422, "invalid_object", "/destination/settings")
    )
    assert made.status == 422
    assert kind == "webhook" or made.json["errors"][0]["pointer"] == "/settings"
    assert control.api("POST", "/destinations/check-connection", {"destination": given}).status in (409, 422)


def test_settings_may_be_nested_as_deeply_as_a_mapping(control: Running) -> None:
    """What is at the bound is looked at as ever; it says which setting is wrong."""
    deep = json.loads("[" * (SETTINGS_DEPTH_MAX - 2) + "]" * (SETTINGS_DEPTH_MAX - 2))
    found = preview(control, [request("https://api.example")], {"variables": {"x": deep}}, sample="track")
    assert found["problems"][0]["pointer"].startswith("/settings/variables")
