"""The event tester: exact requests, real answers with their timings, nothing hidden and nothing given away."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hookline.bench.service import free_port
from tests.service.deliver.certificates import Authority
from tests.unit.control.running import Answer, Running, destination, record, source
from tests.unit.features.destinations.tester.receiver import Receiver

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Own: yes\r\n\r\nhi"
SECRET = "a shared secret of some length"
EVENT = {"type": "track", "event": "Order", "userId": "u1", "properties": {"total": 1.50, "card": "4111"}}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of receivers here."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def control(new_control: Callable[..., Running], authority: Authority) -> Running:
    """One that trusts the authority; each test replaces its destination."""
    return new_control(ca_file=str(authority.file))


@pytest.fixture(scope="module")
def impatient(new_control: Callable[..., Running]) -> Running:
    """One that gives a receiver three seconds."""
    return new_control(timeout=3.0)


def make(control: Running, *urls: str, **fields: Any) -> None:
    """A destination with these URLs, the first of which has a credential."""
    settings = {"webhooks": [{"url": url} for url in urls], "sharedSecret": SECRET}
    settings["webhooks"][0]["headers"] = {"Authorization": "Bearer very-secret-token", "X-Team": "crm"}  # type: ignore[index]
    assert control.api("PUT", "/destinations/crm", destination(settings=settings, **fields)).status < 300


def tried(control: Running, **asked: Any) -> Answer:
    """Ask for a test of crm."""
    return control.api("POST", "/destinations/crm/test", asked)


def answered(control: Running, answer: bytes | None) -> tuple[str, str, bool]:
    """Try a receiver that answers so; return outcome, body and whether it is cut."""
    with Receiver(answer) as receiver:
        make(control, receiver.url)
        (found,) = tried(control).json["answers"]
    return found["outcome"], found["body"], found["bodyCut"]


def test_what_is_shown_is_what_is_sent(control: Running) -> None:
    """Headers in their order and the body, byte for byte; the signature is over the content that is named."""
    with Receiver(OK) as receiver:
        make(control, receiver.url)
        report = tried(control, event={**EVENT, "messageId": "m 1"}, reveal=True).json
        (request,) = report["requests"]
        lines = [f"{request['method']} {request['target']} HTTP/1.1"]
        lines += [f"{each['name']}: {each['value']}" for each in request["headers"]]
        assert receiver.requests == ["\r\n".join([*lines, "", request["body"]]).encode()]
        (signature,) = request["signatures"]
        expected = hmac.new(SECRET.encode(), signature["signedContent"].encode(), hashlib.sha1).hexdigest()
        assert signature["value"] == expected
        assert (signature["header"], json.loads(request["body"])["properties"]["total"]) == ("X-Signature", 1.5)


def test_the_answer_with_timings(control: Running) -> None:
    """Status, headers and body of a success too, and where the time went."""
    with Receiver(OK) as receiver:
        make(control, receiver.url, enabled=False)
        (answer,) = tried(control, sample="identify").json["answers"]
        assert (answer["outcome"], answer["httpStatus"], answer["body"], answer["bodyCut"]) == (
            "success",
            200,
            "hi",
            False,
        )
        assert {"name": "X-Own", "value": "yes"} in answer["headers"]
        timings = answer["milliseconds"]
        assert timings["tls"] is None
        assert all(timings[part] >= 0 for part in ("dns", "connect", "wait", "total"))
        assert timings["total"] >= timings["wait"]


def test_credentials_are_masked(control: Running) -> None:
    """By default nothing that is a credential is in the answer; a dry run sends nothing."""
    with Receiver(OK) as receiver:
        make(control, receiver.url)
        answer = tried(control, dryRun=True)
        assert b"very-secret" not in answer.body
        assert SECRET.encode() not in answer.body
        headers = {each["name"]: each["value"] for each in answer.json["requests"][0]["headers"]}
        assert (headers["Authorization"], headers["X-Team"]) == ("…oken", "crm")
        assert (answer.json["answers"], answer.json["requests"][0]["masked"]) == (None, True)
        assert receiver.requests == []


def test_what_a_receiver_sends_back_is_masked(control: Running) -> None:
    """A receiver that answers with the request it got gives its credentials away to nobody who may not see them."""
    head = b"HTTP/1.1 401 Who\r\nContent-Length: 37\r\nX-Got: very-secret-token\r\n\r\n"
    with Receiver(head + b"Bearer very-secret-token, very-secret") as receiver:
        make(control, receiver.url)
        masked = tried(control)
        assert b"very-secret" not in masked.body
        assert masked.json["answers"][0]["body"] == "…oken, …"
        assert b"very-secret" in tried(control, reveal=True).body


def test_every_url_is_asked(control: Running, authority: Authority) -> None:
    """Each URL has its own answer: accepted over TLS, refused with a text, not reachable, certificate refused."""
    gone = b"HTTP/1.1 410 Gone\r\nContent-Length: 11\r\n\r\n<b>gone</b>"
    closed = f"http://127.0.0.1:{free_port()}/"
    with (
        Receiver(OK, authority.server()) as good,
        Receiver(gone) as bad,
        Receiver(OK, authority.server(self_signed=True)) as unknown,
    ):
        make(control, good.url, bad.url, closed, unknown.url)
        answers = tried(control).json["answers"]
    assert [(each["outcome"], each["httpStatus"]) for each in answers] == [
        ("success", 200),
        ("refused", 410),
        ("connection_failed", None),
        ("tls_refused", None),
    ]
    assert answers[0]["milliseconds"]["tls"] > 0
    assert (answers[1]["body"], answers[1]["error"]) == ("<b>gone</b>", None)
    assert answers[2]["error"]
    assert "certificate" in answers[3]["error"]
    assert answers[0]["nextStep"] is None
    assert "Enter the new URL in the destination's settings." in answers[1]["nextStep"]
    assert answers[3]["nextStep"].startswith("Hookline does not trust the receiver's certificate")


@pytest.mark.parametrize(
    ("answer", "outcome", "body"),
    [
        (b"no HTTP at all\r\n\r\n", "bad_response", ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "success", "abc"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "server_error", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000, "success", "x" * 65_536),
    ],
)
def test_strange_answers(control: Running, answer: bytes, outcome: str, body: str) -> None:
    """The sender's rules for answers hold here too, and nothing of an answer is without a bound."""
    assert answered(control, answer) == (outcome, body, len(body) == 65_536)


@pytest.mark.parametrize(
    ("answer", "outcome", "body"),
    [
        (None, "timed_out", ""),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "success", "half"),
    ],
)
def test_answers_that_do_not_end(impatient: Running, answer: bytes | None, outcome: str, body: str) -> None:
    """A test ends with deliver's time limit, with what has come until then."""
    assert answered(impatient, answer) == (outcome, body, False)


def test_addresses_inside_are_refused(tmp_path: Path) -> None:
    """Nothing is sent to an address that deliver would not send to."""
    with Receiver(OK) as receiver, Running(tmp_path / "data") as control:
        control.api("POST", "/sources", source())
        make(control, receiver.url)
        (answer,) = tried(control).json["answers"]
        assert (answer["outcome"], answer["httpStatus"], receiver.requests) == ("blocked_address", None, [])
        assert "deliver.allow_networks" in answer["error"]


def test_a_stored_event(control: Running) -> None:
    """It is sent as it was stored; one that is not there, or was refused, is said."""
    control.append(record("stored", "Signed Up"), record("bad", rejected="no event"))
    make(control, "https://crm.example.com/hook")
    body = tried(control, messageId="stored", dryRun=True).json["requests"][0]["body"]
    assert json.loads(body)["event"] == "Signed Up"
    for missing in ("nothing", "bad"):
        assert tried(control, messageId=missing, dryRun=True).json["code"] == "unknown_event"
    assert tried(control, messageId="stored", source="other", dryRun=True).json["code"] == "unknown_event"


def test_filters_are_told_and_do_not_hold_a_test_up(control: Running) -> None:
    """It says which filter would keep the event, and which takes something out; what is shown is without that."""
    filters = [
        {"if": "true", "do": "dropProperties", "properties": ["properties.card"]},
        {"if": 'event = "Heartbeat"', "do": "drop"},
    ]
    make(control, "https://crm.example.com/hook", filters=filters)
    edited = tried(control, event=EVENT, dryRun=True).json
    assert (edited["routing"]["sent"], len(edited["routing"]["editedBy"])) == (True, 1)
    assert "4111" not in edited["requests"][0]["body"]
    dropped = tried(control, event={**EVENT, "event": "Heartbeat"}, dryRun=True).json["routing"]
    assert (dropped["sent"], dropped["stoppedBy"]) == (False, 'Filter 2 drops events where event = "Heartbeat"')
    excluded = tried(control, event={**EVENT, "integrations": {"All": False}}, dryRun=True).json["routing"]
    assert excluded["reason"] == "integrations_all_false"
    assert tried(control, source="web", dryRun=True).json["routing"]["reason"] == "source_not_connected"


@pytest.mark.parametrize("sample", ["identify", "track", "page", "screen", "group", "alias"])
def test_every_sample_is_an_event(control: Running, sample: str) -> None:
    """There is a sample of each type, good enough for the collection edge."""
    make(control, "https://crm.example.com/hook")
    report = tried(control, sample=sample, dryRun=True).json
    assert (report["type"], json.loads(report["requests"][0]["body"])["type"]) == (sample, sample)


@pytest.mark.parametrize(
    ("asked", "status", "code"),
    [
        ({"event": {"type": "track", "userId": "u1"}}, 422, "unusable_event"),
        ({"event": [1]}, 422, "unusable_event"),
        ({"event": EVENT, "sample": "track"}, 422, "invalid_object"),
        ({"sample": "erase"}, 422, "invalid_object"),
        ({"unknown": 1}, 422, "invalid_object"),
    ],
)
def test_what_is_refused(control: Running, asked: dict[str, Any], status: int, code: str) -> None:
    """An event that would not be accepted, and a body that asks for two things or for none there is."""
    make(control, "https://crm.example.com/hook")
    answer = tried(control, **asked)
    assert (answer.status, answer.json["code"]) == (status, code)


def test_deep_json_missing_secrets_and_no_destination(control: Running) -> None:
    """Nesting and encoding are checked as at the edge; what deliver could not sign is not signed here either."""
    mangled = b'{"event": {"type":"track","event":"x","userId":"\xff"}}'
    deep = (
        b'{"event": {"type":"track","event":"x","userId":"u","properties":' + b'{"a":' * 200 + b"1" + b"}" * 201 + b"}"
    )
    make(control, "https://crm.example.com/hook")
    assert control.call("POST", "/api/v1/destinations/crm/test", deep).json["code"] == "unusable_event"
    assert control.call("POST", "/api/v1/destinations/crm/test", mangled).json["code"] == "unusable_event"
    control.api("PATCH", "/destinations/crm", {"settings": {"sharedSecret": "env:HOOKLINE_SECRET_NOT_SET_HERE"}})
    answer = tried(control, dryRun=True)
    assert (answer.status, answer.json["code"]) == (409, "destination_unusable")
    assert control.api("POST", "/destinations/nobody/test", {}).status == 404
