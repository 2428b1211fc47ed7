"""Attempts over the API: the list, each as it was sent with what was answered, and trying again at once."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from hookline.connections.model import Webhook
from hookline.deliver.send.port import Failure
from hookline.outcomes.outcome import Outcome
from tests.unit.control.running import Running
from tests.unit.deliver.rig import Rig, destination, source

SECRET = "a shared secret of some length"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A deliver role whose events wait at crm, which has a credential."""
    (tmp_path / "run").mkdir()
    made = Rig(tmp_path)
    crm = destination("crm", secret=SECRET)
    webhook = Webhook(url="https://crm.example.com/0", headers={"Authorization": "Bearer very-secret-token"})
    crm = replace(crm, settings=replace(crm.settings, webhooks=(webhook,)))
    made.change(source(), crm)
    made.start()
    yield made
    made.close()


def refuse(rig: Rig) -> None:
    """The receiver says no, with a head and a text."""
    request = rig.network.waiting.pop(0)
    failure = Failure(Outcome.REFUSED, 422, "<b>no</b>", None, "HTTP/1.1 422 No\r\nX-Why: reasons\r\nServer: own")
    rig.role.engine.answered(request.token, request.target, 422, 5, failure)


def attempts(control: Running, query: str = "") -> list[dict[str, Any]]:
    """The list."""
    items: list[dict[str, Any]] = control.api("GET", f"/destinations/crm/attempts{query}").json["items"]
    return items


def test_the_list_and_what_was_sent(rig: Rig) -> None:
    """Each attempt names its event; its request is rendered again byte for byte, credentials masked."""
    rig.append("m1", "m2")
    rig.turn()
    refuse(rig)
    rig.answer_all(200)
    rig.checkpoint()
    sent = [request.data for request in rig.network.sent]
    with Running(rig.folder) as control:
        listed = attempts(control)
        assert {(each["messageId"], each["outcome"], each["number"]) for each in listed} == {
            ("m1", "refused", 1),
            ("m2", "success", 1),
        }
        assert [each["messageId"] for each in attempts(control, "?httpStatus=422")] == ["m1"]
        assert attempts(control, "?url=https://crm.example.com/other") == []
        for each, data in zip(sorted(listed, key=lambda each: str(each["messageId"])), sent, strict=True):
            detail = control.api("GET", f"/destinations/crm/attempts/{each['id']}").json
            request = detail["request"]
            lines = [f"{line['name']}: {line['value']}" for line in request["headers"]]
            shown = "\r\n".join(["POST /0 HTTP/1.1", *lines, "", request["body"]]).encode()
            assert shown == data.replace(b"Bearer very-secret-token", "…oken".encode())
            (signature,) = request["signatures"]
            assert signature["value"] == hmac.new(SECRET.encode(), request["body"].encode(), hashlib.sha1).hexdigest()
            answer = detail["answer"]
            if each["outcome"] == "success":
                assert answer is None
            else:
                assert (answer["httpStatus"], answer["body"]) == (422, "<b>no</b>")
                assert answer["headers"] == [{"name": "X-Why", "value": "reasons"}, {"name": "Server", "value": "own"}]


def test_the_attempt_at_an_event_that_was_erased_names_none(rig: Rig) -> None:
    """What stands in the event's place now is no text of anybody."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    assert rig.appender.erase(0, [0]) == 1
    with Running(rig.folder) as control:
        (attempt,) = attempts(control)
        assert [attempt[name] for name in ("messageId", "source", "type", "event")] == [None] * 4
        detail = control.api("GET", f"/destinations/crm/attempts/{attempt['id']}").json
        assert (detail["request"], detail["note"]) == (None, "the event is no longer stored")


def test_it_is_rendered_with_the_settings_of_then(rig: Rig) -> None:
    """A change of secret and URL later does not change what is shown of what was sent before."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    rig.clock.seconds += 60
    rig.change(destination("crm", urls=2, secret="another secret altogether"))
    sent = rig.network.sent[0].data
    with Running(rig.folder) as control:
        (listed,) = attempts(control)
        request = control.api("GET", f"/destinations/crm/attempts/{listed['id']}").json["request"]
        assert (request["url"], listed["url"]) == ("https://crm.example.com/0", "https://crm.example.com/0")
        assert request["signatures"][0]["value"].encode() in sent


def test_a_change_holds_for_what_is_sent_from_then_on(rig: Rig) -> None:
    """Also where attempts before and after it are of one minute, each is listed with the URL that it was sent to."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    rig.clock.seconds += 2
    moved = destination("crm")
    rig.change(
        replace(moved, settings=replace(moved.settings, webhooks=(Webhook(url="https://new.example.com/hook"),)))
    )
    rig.follow()
    rig.clock.seconds += 2
    rig.append("m2")
    rig.turn()
    rig.answer_all(200)
    rig.checkpoint()
    with Running(rig.folder) as control:
        sent_to = {each["messageId"]: each["url"] for each in attempts(control)}
        assert sent_to == {"m1": "https://crm.example.com/0", "m2": "https://new.example.com/hook"}
        assert [each["messageId"] for each in attempts(control, "?url=https://crm.example.com/0")] == ["m1"]


def test_why_leads_to_the_attempt(rig: Rig) -> None:
    """The id in an event's status is the one of the list, for failures and successes."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(503)
    rig.checkpoint()
    rig.come_to_rest()
    with Running(rig.folder) as control:
        (status,) = control.api("GET", "/events/m1").json["destinations"]
        assert [each["id"] for each in reversed(status["attempts"])] == [each["id"] for each in attempts(control)]


def test_retry_now(rig: Rig) -> None:
    """An event that would wait is sent at once, counts as the next attempt, and what does not wait is said."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(503)
    rig.checkpoint()
    rig.pass_time(0.0)
    assert rig.network.waiting == []
    with Running(rig.folder) as control:
        answer = control.api("POST", "/destinations/crm/retry-now", {"messageId": "m1"})
        assert (answer.status, answer.json["asked"]) == (202, 1)
        rig.follow()
        rig.checkpoint()
        rig.pass_time(0.0)
        assert [request.delivery.attempt for request in rig.network.waiting] == [2]
        rig.answer_all(200)
        rig.checkpoint()
        again = control.api("POST", "/destinations/crm/retry-now", {"messageId": "m1"})
        assert (again.status, again.json["code"]) == (409, "not_retrying")
        at = attempts(control)[0]["at"]
        assert again.json["detail"] == f"The event was delivered to crm at {at}. Nothing is left to retry."
        assert control.api("POST", "/destinations/crm/retry-now", {"messageId": "m9"}).status == 409


def test_retry_now_outlives_deliver(rig: Rig) -> None:
    """The wish waits for deliver, and is carried out once."""
    rig.append("m1")
    rig.turn()
    rig.answer_all(503)
    rig.checkpoint()
    with Running(rig.folder) as control:
        control.api("POST", "/destinations/crm/retry-now", {"messageId": "m1"})
    for expected in (1, 0):
        rig.restart()
        rig.follow()
        rig.checkpoint()
        rig.pass_time(0.0)
        assert len(rig.network.waiting) == expected
        rig.answer_all(503)
        rig.checkpoint()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/destinations/nobody/attempts", 404),
        ("/destinations/crm/attempts/1-1-1-0-0", 404),
        ("/destinations/crm/attempts/x", 404),
        ("/destinations/crm/attempts?after=x", 400),
        ("/destinations/crm/attempts?from=yesterday", 400),
        ("/destinations/crm/attempts?outcome=bad", 400),
        ("/destinations/crm/attempts?httpStatus=99", 400),
    ],
)
def test_what_is_refused(asked: Running, path: str, status: int) -> None:
    """Attempts that are not there, and parameters that cannot be used."""
    if asked.api("GET", "/destinations/crm").status == 404:
        asked.api("PUT", "/destinations/crm", NO_SOURCE)
    assert asked.api("GET", path).status == status


NO_SOURCE = {"id": "crm", "name": "CRM", "settings": {"webhooks": [{"url": "https://crm.example.com/hook"}]}}


def test_an_attempt_whose_secrets_were_removed(rig: Rig) -> None:
    """It is shown with its body; credentials and signatures are masked, and the note says why."""
    rig.append("m1")
    rig.turn()
    refuse(rig)
    rig.checkpoint()
    with Running(rig.folder) as control:
        (listed,) = attempts(control)
        new = {"webhooks": [{"url": "https://crm.example.com/0"}], "sharedSecret": "another-shared-secret"}
        assert control.api("PATCH", "/destinations/crm", {"settings": new}).status == 200
        assert control.api("POST", "/destinations/crm/remove-old-secrets", {}).json["removed"]
        detail = control.api("GET", f"/destinations/crm/attempts/{listed['id']}").json
        headers = {each["name"]: each["value"] for each in detail["request"]["headers"]}
        assert (headers["Authorization"], headers["X-Signature"]) == ("…", "…")
        assert (detail["request"]["signatures"], "no longer kept" in detail["note"]) == ([], True)
        assert "m1" in headers["X-Message-Id"]
