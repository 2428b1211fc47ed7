"""Which destinations an event reaches, and that ``why`` says so with a reason."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.collect.conftest import Site
from tests.service.harness import new_id, wait_until

SELECTIONS = [
    ({}, True),
    ({"All": True}, True),
    ({"All": False}, False),
    ({"All": False, "Webhooks": True}, True),
    ({"All": False, "webhooks": True}, False),
    ({"Webhooks": False}, False),
    ({"All": True, "Webhooks": False}, False),
    ({"webhooks": False}, True),
    ({"Webhooks": {"option": 1}}, True),
    ({"All": False, "Webhooks": {"option": 1}}, True),
]


@pytest.mark.parametrize(("selection", "forwarded"), SELECTIONS, ids=[str(s) for s, _ in SELECTIONS])
@pytest.mark.parametrize("place", ["event", "context"])
def test_integrations_select_the_destination(
    site: Site, selection: dict[str, Any], forwarded: bool, place: str
) -> None:
    """integrations of the event or of its context decide, by the exact published name; the status names the choice."""
    fields = {"integrations": selection} if place == "event" else {"context": {"integrations": selection}}
    message_id = site.hookline.track(**fields)
    part = site.hookline.wait_status(message_id, "plain", "delivered" if forwarded else "not_routed")
    assert bool(site.receiver.of(message_id)) is forwarded
    assert part["reason"] or forwarded


def test_batch_integrations_are_overridden_by_the_events_own(site: Site) -> None:
    """The envelope's integrations hold for the batch; an event's own win."""
    out, back = new_id(), new_id()
    items: list[dict[str, Any]] = [
        {"type": "track", "userId": "u", "event": "E", "messageId": out},
        {"type": "track", "userId": "u", "event": "E", "messageId": back, "integrations": {"All": True}},
    ]
    assert site.hookline.post("/v1/batch", {"batch": items, "integrations": {"All": False}}).status == 200
    site.hookline.wait_status(out, "plain", "not_routed")
    site.hookline.wait_status(back, "plain", "delivered")
    assert site.receiver.of(out) == []


def test_why_tells_the_whole_way_of_an_event(site: Site) -> None:
    """A delivered event: who sent it, when it was received, and each destination's attempt with URL and status."""
    message_id = site.hookline.track(event="Order", userId="u42")
    part = site.hookline.wait_status(message_id, "signed", "delivered")
    status = site.hookline.event(message_id)
    assert status is not None
    assert {key: status[key] for key in ("messageId", "source", "type", "userId", "duplicates")} == {
        "messageId": message_id,
        "source": "site",
        "type": "track",
        "userId": "u42",
        "duplicates": 0,
    }
    assert status["receivedAt"].endswith("Z")
    routed = {d["id"] for d in status["destinations"] if d["status"] != "not_routed"}  # others serve other sources
    assert routed == {"plain", "signed"}
    [attempt] = part["attempts"]
    assert (attempt["number"], attempt["outcome"], attempt["httpStatus"]) == (1, "success", 200)
    assert attempt["url"] == site.receiver.url("/signed")
    assert attempt["milliseconds"] >= 0


def test_why_of_an_unknown_event_is_404(site: Site) -> None:
    """An id nobody sent is a problem document with a code, not an empty success."""
    answer = site.hookline.api("GET", f"events/{new_id()}")
    assert answer.status == 404
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert answer.json["code"]


def test_rejected_items_are_kept_and_shown(site: Site) -> None:
    """The bad item of a batch is named in the answer, shown with its reason afterwards, and never forwarded."""
    good, bad = new_id(), new_id()
    items = [
        {"type": "track", "userId": "u", "event": "E", "messageId": good},
        {"type": "track", "userId": "u", "messageId": bad},
    ]
    answer = site.hookline.post("/v1/batch", {"batch": items})
    assert answer.status == 200
    assert answer.json["accepted"] == 1
    [rejected] = answer.json["rejected"]
    assert (rejected["index"], rejected["messageId"]) == (1, bad)
    site.at("plain", good)
    status = site.hookline.event(bad)
    assert status is not None
    assert rejected["code"] in str(status)
    listed = site.hookline.api("GET", "events?status=rejected").json["items"]
    assert bad in [item["messageId"] for item in listed]
    assert site.receiver.of(bad) == []


def test_a_rejected_single_call_is_shown_too(site: Site) -> None:
    """A single call answered 400 can be looked up with its reason."""
    message_id = new_id()
    answer = site.hookline.post("/v1/track", {"userId": "u", "messageId": message_id})
    assert answer.status == 400
    # It is kept for inspection only: the answer does not wait for the disk.
    wait_until(lambda: site.hookline.event(message_id) is not None)
    assert answer.json["code"] in str(site.hookline.event(message_id))
