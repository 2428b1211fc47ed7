"""SDKs from the registries, only their host changed: what they are told arrives, all of it, once, and when it was said.

scripts/test-needs.sh installs them into ``build``. Between an SDK and the service lies a tap, so that the tests see
what it posted; ``programs/calls.json`` is what each program says with it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from hookline.events.timestamps import TRANSIT_MS_MAX
from tests.service.sdks.every_sdk import SDKS
from tests.service.sdks.field import BEHIND, SECRET, Field, Run
from tests.service.sdks.said import NOT_ROUTED, SAID, body_of, differences, milliseconds, said_by
from tests.service.sdks.sdk import SDK

BEHIND_MS = BEHIND.total_seconds() * 1000 - 1000
"""Some SDKs write the time of sending in whole seconds."""


@pytest.fixture(params=SDKS, ids=lambda sdk: sdk.id)
def run(request: pytest.FixtureRequest, field: Field) -> Run:
    """What came of one SDK's program."""
    return field.run(request.param)


def test_every_call_arrives_once(run: Run) -> None:
    """Each call was posted once and answered 200; a receiver got each under the messageId that the SDK gave it."""
    answers = [answer for connection in run.connections for answer in connection.answers]
    preflights = {204} if run.visit else set()
    assert {answer.status for answer in answers} - preflights == {200}
    assert set(run.events) == set(said_by(run.sdk))
    assert run.posted == len(run.events)
    assert {name: request.message_id for name, request in run.received.items()} == {
        name: event["messageId"] for name, event in run.events.items() if name != NOT_ROUTED
    }
    assert {status["duplicates"] for status in run.statuses.values()} == {0}


def test_what_was_said_arrives(run: Run) -> None:
    """User, names, properties, traits, context, integrations: all as said but for what the SDK has no place for."""
    not_as_said = {
        f"{name.split(' ')[0]} {path}": kind
        for name in run.received
        for path, kind in run.differences(name).items()
        if kind != "added"
    }
    assert not_as_said == dict.fromkeys(run.sdk.lacks, "missing")


def test_what_was_posted_arrives(run: Run) -> None:
    """The SDK's own additions, as its context, arrive too; the service adds the time, and a browser's address."""
    for name, request in run.received.items():
        has_address = run.visit is None or "ip" in run.events[name]["context"]
        added = {"timestamp": "added"} if has_address else {"timestamp": "added", "context.ip": "added"}
        assert differences(body_of(run.events[name]), request.json) == added
        assert has_address or request.json["context"]["ip"] == "127.0.0.1"


def test_the_library_says_who_it_is(run: Run) -> None:
    """context.library has the SDK's name and version in every body, also where a batch has it once for all."""
    libraries = [request.json["context"]["library"] for request in run.received.values()]
    assert {(library["name"], library["version"]) for library in libraries} == {run.sdk.library}


def test_times_are_kept_and_the_clock_is_corrected(run: Run) -> None:
    """The time that was said, moved by as much as the SDK's clock is behind; without one, the SDK's own, or of receipt.

    Nothing is moved by what is transit only (Go's and Java's clocks are right), nor by an event's own ``sentAt`` that
    is its time.
    """
    posted_events = [event for post in run.posts for event in post.json.get("batch", [post.json])]
    with_own_sent_at = {event["messageId"] for event in posted_events if event.get("sentAt")}
    unit = {"milliseconds": 1, "seconds": 1000}[run.sdk.times]
    for name, request in run.received.items():
        event = run.events[name]
        received, sent = milliseconds(run.statuses[name]["receivedAt"]), milliseconds(event["sentAt"])
        given = event.get("timestamp") or event.get("originalTimestamp")
        if given is None:
            assert milliseconds(request.json["timestamp"]) == received
            continue
        posted, behind = milliseconds(given), received - sent
        says_nothing = sent == posted and event["messageId"] in with_own_sent_at
        moved = behind if abs(behind) > TRANSIT_MS_MAX and not says_nothing else 0
        assert milliseconds(request.json["timestamp"]) == posted + moved
        assert behind > BEHIND_MS or run.sdk.has_true_clock
        if "timestamp" in SAID[name]:
            assert posted == milliseconds(SAID[name]["timestamp"]) // unit * unit


def test_integrations_choose_the_destinations(run: Run) -> None:
    """All false keeps a call back; named besides, webhooks get it."""
    statuses = {name: status["destinations"][0]["status"] for name, status in run.statuses.items()}
    assert {name for name, status in statuses.items() if status != "delivered"} == {NOT_ROUTED}


def test_requests_are_signed(run: Run) -> None:
    """X-Signature is the HMAC-SHA1 of the bytes that were sent."""
    for request in run.received.values():
        assert request.headers["x-signature"] == hmac.new(SECRET.encode(), request.body, hashlib.sha1).hexdigest()


def test_the_write_key_is_where_sdks_put_it(run: Run) -> None:
    """Every post names its source by HTTP Basic, in its body or in its query."""
    key = f"wk_{run.sdk.id}"
    for post in run.posts:
        basic = base64.b64decode(post.headers.get("authorization", "").removeprefix("Basic ")).decode()
        assert key in (basic.rstrip(":"), post.json.get("writeKey"), post.path.rpartition("writeKey=")[2])


@pytest.mark.parametrize("sdk", [sdk for sdk in SDKS if sdk.page], ids=lambda sdk: sdk.id)
def test_browsers_talk_to_nobody_else(field: Field, sdk: SDK) -> None:
    """From loading the page to leaving it a simulated while later, the browser asked only the site and Hookline."""
    visit = field.run(sdk).visit
    assert visit is not None
    assert visit.hosts == set()
    assert visit.problems == []
