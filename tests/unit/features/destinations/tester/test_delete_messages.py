"""Delete messages in the tester: what a deletion request would send, and what is said where there is none to send."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from hookline.connections.model import Destination
from hookline.features.catalog.check import example_settings
from hookline.features.destinations.tester.chosen_event import accepted, sample_event
from hookline.features.destinations.tester.request_writer import RequestWriter
from hookline.kinds.catalog import kinds, own_ids
from hookline.kinds.settings import schema_of
from hookline.settings import Settings
from tests.unit.control.running import Answer, Running, destination
from tests.unit.features.destinations.tester.receiver import Receiver

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
NOW = "2026-11-20T07:00:00.000Z"
ALL = {"if": "true", "do": "drop"}


@pytest.fixture(scope="module")
def control(new_control: Callable[..., Running]) -> Running:
    """The one that all tests here share."""
    return new_control()


def tried(control: Running, id: str = "crm", **asked: Any) -> Answer:
    """Ask for a test."""
    return control.api("POST", f"/destinations/{id}/test", asked)


def api(url: str, condition: str) -> dict[str, Any]:
    """Return a destination with one request."""
    mapping = [{"name": "send", "method": "DELETE", "url": f"{url}/{{{{userId}}}}", "if": condition}]
    return {"id": "api", "name": "API", "kind": "http", "sources": ["site"], "settings": {}, "mapping": mapping}


def test_a_webhook_gets_the_three_fields(control: Running) -> None:
    """Past all filters, signed, with the body of a deletion request: type, userId, timestamp and nothing else."""
    with Receiver(OK) as receiver:
        settings = {"webhooks": [{"url": receiver.url}], "sharedSecret": "a shared secret of some length"}
        assert control.api("PUT", "/destinations/crm", destination(settings=settings, filters=[ALL])).status < 300
        report = tried(control, event={"type": "delete", "userId": "u 1", "timestamp": NOW}).json
        body = receiver.requests[0].partition(b"\r\n\r\n")[2]
        assert body == b'{"type":"delete","userId":"u 1","timestamp":"2026-11-20T07:00:00.000Z"}'
        assert b"\r\nX-Signature: " in receiver.requests[0]
        assert (report["type"], report["answers"][0]["means"]) == ("delete", "accepted")
        assert (report["routing"]["stoppedBy"], report["routing"]["editedBy"]) == (None, [])
        sample = json.loads(tried(control, sample="delete", dryRun=True).json["requests"][0]["body"])
        assert (list(sample), sample["userId"]) == (["type", "userId", "timestamp"], "test-user")
        assert len(receiver.requests) == 1


def test_a_mapping_with_a_request_for_it(control: Running) -> None:
    """The request of the mapping is made, and the editor's preview has the same."""
    with Receiver(OK) as receiver:
        made = api(receiver.url, 'type = "delete"')
        assert control.api("PUT", "/destinations/api", made).status < 300
        assert tried(control, "api", sample="delete").json["answers"][0]["means"] == "accepted"
        assert receiver.requests[0].startswith(b"DELETE /hook/test-user HTTP/1.1\r\n")
        preview = control.api("POST", "/destinations/preview", {"destination": made, "sample": "delete"}).json
        assert (preview["requests"][0]["target"], preview["stoppedBy"]) == ("/hook/test-user", None)


def test_a_mapping_without_one_says_so(control: Running) -> None:
    """Nothing is sent, and what to do in place of it is said, in the tester and in the preview."""
    with Receiver(OK) as receiver:
        made = api(receiver.url, 'type = "track"')
        assert control.api("PUT", "/destinations/api", made).status < 300
        report = tried(control, "api", sample="delete").json
        assert (report["requests"], report["answers"], receiver.requests) == ([], [], [])
        words = "this destination's mapping has no delete message, so nothing was sent. Delete the person"
        assert report["routing"]["reason"].startswith(words)
        preview = control.api("POST", "/destinations/preview", {"destination": made, "sample": "delete"}).json
        assert preview["stoppedBy"].startswith(words)


@pytest.mark.parametrize(
    ("event", "pointer", "words"),
    [
        ({"type": "delete"}, "/event/userId", "add a userId"),
        ({"type": "delete", "userId": 7}, "/event/userId", "as text"),
        ({"type": "delete", "userId": "u", "traits": {}}, "/event/traits", "remove this"),
        ({"type": "delete", "userId": "u", "messageId": {}}, "/event", "invalid_message_id"),
        ({"type": "delete", "userId": "u", "timestamp": 7}, "/event/timestamp", "Expected `str | null`"),
        ({"type": "erase", "userId": "u"}, "/event", "unknown_type"),
    ],
)
def test_what_is_no_delete_message(control: Running, event: dict[str, Any], pointer: str, words: str) -> None:
    """It is refused with what to change; an SDK's event of this type still is."""
    control.api("PUT", "/destinations/api", api("https://api.example", 'type = "delete"'))
    refused = tried(control, "api", event=event, dryRun=True)
    assert (refused.status, refused.json["code"]) == (422, "unusable_event")
    (error,) = refused.json["errors"]
    assert (error["pointer"], words in error["detail"]) == (pointer, True)


@pytest.mark.parametrize("kind", [id for id in own_ids() if kinds()[id].manifest.form == "requests" and id != "http"])
def test_the_kinds_that_come_with_it(kind: str) -> None:
    """With every setting entered, each kind that takes deletions makes a request of one, and the others make none."""
    schema = schema_of(kind)
    settings = example_settings({**schema, "required": list(schema["properties"])})
    settings |= {name: ["a"] for name, rule in schema["properties"].items() if name == "destinationIds"}
    fields = {"id": "a", "name": "A", "kind": kind, "sources": ["site"], "settings": settings}
    record = accepted(msgspec.Raw(sample_event("delete", NOW)), "site", 0)
    written = RequestWriter(Settings()).shown_only(msgspec.convert(fields, Destination), record)
    assert (bool(written.requests), written.problems) == ("delete" in kinds()[kind].manifest.calls, [])
