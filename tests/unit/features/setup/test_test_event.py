"""Sending a first event from the set-up: what keeps it from being sent, and what collect answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from hookline.settings import Collect
from tests.service.receiver import Receiver
from tests.service.waiting import wait_until
from tests.unit.control.running import Running, record
from tests.unit.features.accounts.test_access import sign_in

SOURCE = {"id": "shop", "name": "Shop", "type": "web", "writeKeys": ["wk_shop"]}


@contextmanager
def control_of(folder: Path, url: str) -> Iterator[Running]:
    """Control whose clients send to this address, with a source."""
    with Running(folder, collect=Collect(public_url=url)) as running:
        assert running.api("POST", "/sources", SOURCE).status == 201
        yield running


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """What answers where clients send to."""
    with Receiver() as running:
        yield running


def test_it_is_sent_as_a_client_would(tmp_path: Path, receiver: Receiver) -> None:
    """One track call of nobody, with the write key, to the address that clients have, its path included."""
    with control_of(tmp_path, receiver.url("/events")) as control:
        sent = control.api("POST", "/sources/shop/test-event")
    assert sent.status == 200
    (request,) = receiver.requests
    assert (request.path, request.headers["authorization"]) == ("/events/v1/track", "Basic d2tfc2hvcDo=")
    event = {"messageId": sent.json["messageId"], "anonymousId": "hookline-test", "event": "Test Event"}
    assert request.json == event


def test_the_first_event_is_one_that_somebody_sent(tmp_path: Path) -> None:
    """No delete message, which Hookline sends under the source, nor one that was erased."""
    sent = record("m1", "Signed Up", source="shop")
    deletion = msgspec.structs.replace(record("m2", source="shop"), type="delete", origin="deletion")
    erased = msgspec.structs.replace(record("m3", source="shop"), erased=True)
    with control_of(tmp_path, "https://events.example.com") as control:
        control.append(sent, deletion, erased)
        cookie, link = sign_in(control), '<a href="/events/m1?source=shop">'
        # A page looks for it no longer than a moment.
        wait_until(
            lambda: link in control.call("GET", "/setup?source=shop&step=event", headers=cookie, token=False).text
        )


def test_a_refusal_says_who_refused(tmp_path: Path, receiver: Receiver) -> None:
    """Collect's own words, or that what answers there is no collection API."""
    with control_of(tmp_path, receiver.url("")) as control:
        receiver.reply_with(503, body=b'{"success": false, "message": "the disk is full"}')
        full = control.api("POST", "/sources/shop/test-event").json
        receiver.reply_with(404, body=b"<html>")
        foreign = control.api("POST", "/sources/shop/test-event").json
    assert (full["code"], foreign["code"]) == ("collect_refused", "collect_refused")
    assert full["detail"].endswith("refused the event (503): the disk is full")
    assert "is not a Hookline collection API" in foreign["detail"]


def test_where_nobody_answers_it_says_what_to_check(tmp_path: Path) -> None:
    """The address, and where it comes from."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # and nobody listens
        with control_of(tmp_path, f"http://127.0.0.1:{bound.getsockname()[1]}") as control:
            answer = control.api("POST", "/sources/shop/test-event")
    assert (answer.status, answer.json["code"]) == (409, "collect_unreachable")
    assert "collect.public_url" in answer.json["detail"]


@pytest.mark.parametrize(
    ("change", "code"), [({"enabled": False}, "source_disabled"), ({"writeKeys": []}, "no_write_key")]
)
def test_a_source_that_cannot_send_says_so(
    tmp_path: Path, receiver: Receiver, change: dict[str, object], code: str
) -> None:
    """Nothing is sent."""
    with control_of(tmp_path, receiver.url("")) as control:
        assert control.api("PATCH", "/sources/shop", change).status == 200
        assert control.api("POST", "/sources/shop/test-event").json["code"] == code
        assert control.api("POST", "/sources/other/test-event").json["code"] == "not_found"
    assert receiver.requests == []
