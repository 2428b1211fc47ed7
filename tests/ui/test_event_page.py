"""The page of one event: why it is where it is, what was sent for it, and what can be done."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service.cli.conftest import command
from tests.service.harness import WRITE_KEY, Hookline, Receiver, new_id, webhook
from tests.ui.conftest import CONTRAST, sign_in, wait_for_key


@pytest.fixture(scope="module")
def shared_hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service whose signed destination tries again only after minutes."""
    folder, settings = tmp_path_factory.mktemp("event-page") / "h", {"deliver.retry_first": "5m"}
    signed = webhook("crm", shared_receiver.url(), secret="the-secret", name="CRM")
    with Hookline(folder, [signed], settings=settings) as running:
        yield running
    assert "Traceback (most recent call last)" not in running.log, running.log[-4000:]


def test_a_waiting_event_is_tried_at_once_and_replayed(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """The request and the answer are shown as they went; again now, it is delivered; a replay sends it once more."""
    receiver.reply_with(503, body=b'{"error": "<b>down</b>"}')
    message_id = hookline.track("Invoice", properties={"total": 7})
    hookline.wait_status(message_id, "crm", "retrying")
    sign_in(page, hookline)
    page.goto(f"/events/{message_id}")
    page.get_by_text("Request and answer").first.click()
    expect(page.locator(".as-sent")).to_contain_text("X-Signature: ")
    expect(page.locator(".answer")).to_contain_text('{"error": "<b>down</b>"}')
    assert page.evaluate(CONTRAST) == []
    receiver.reply_with(200)
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".line-of-time")).to_contain_text("success 200", use_inner_text=True)
    expect(page.locator(".as-sent")).to_contain_text("X-Signature: ")  # what was open stays open
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("button", name="Replay event").click()
    page.wait_for_url("**/replays/r*")
    expect(page.locator("main .mark").first).to_contain_text("done")
    assert [request.message_id for request in receiver.requests][-1] == message_id


def test_a_retry_that_came_first_is_said(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """A button that the page had not yet taken away is no mistake: what came of the event is said, and shown."""
    receiver.reply_with(503)
    message_id = hookline.track("Invoice")
    hookline.wait_status(message_id, "crm", "retrying")
    sign_in(page, hookline)
    page.goto(f"/events/{message_id}")
    page.route(
        f"**/events/{message_id}",
        lambda route: route.abort() if "x-parts" in route.request.headers else route.continue_(),
    )
    receiver.reply_with(200)
    hookline.api("POST", "destinations/crm/retry-now", {"messageId": message_id})
    hookline.wait_status(message_id, "crm", "delivered")
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator("[data-toast]")).to_contain_text("The event was delivered to crm at")
    expect(page.locator("[data-problem]").first).to_be_empty()
    page.unroute_all()
    expect(page.get_by_role("button", name="Retry now")).to_have_count(0)
    expect(page.locator(".line-of-time")).to_contain_text("success 200", use_inner_text=True)


def test_a_filtered_event_leads_to_the_filter_and_to_its_version(
    page: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """What the filter does is a sentence; the version of the connections that had it is a page."""
    drop = {"if": 'event = "Beat"', "do": "drop"}
    hookline.api("POST", "sources", {"id": "heart", "name": "Heart", "type": "server", "writeKeys": ["wk_heart"]})
    hookline.api("POST", "destinations", webhook("picky", receiver.url(), sources=["heart"], filters=[drop]))
    wait_for_key(hookline, "wk_heart")
    beat = {"userId": "u1", "event": "Beat", "messageId": (message_id := new_id())}
    assert hookline.post("/v1/track", beat, key="wk_heart").status == 200
    hookline.wait_status(message_id, "picky", "filtered")
    sign_in(page, hookline)
    page.goto(f"/events/{message_id}")
    told = page.locator(".line-of-time")
    expect(told).to_contain_text('Filter 1 drops events where event = "Beat"')
    expect(told.get_by_role("link", name="Show filters")).to_have_attribute("href", "/destinations/picky/filters")
    told.get_by_role("link", name="of the connections").click()
    expect(page.get_by_text('event = "Beat"').first).to_be_visible()


def test_what_was_understood_otherwise_is_said(page: Page, hookline: Hookline) -> None:
    """The warnings of the answer stand with the event: in the API, on its page and on the command line."""
    event = {"userId": "u", "event": "Odd", "messageId": "odd", "properties": "x", "timestamp": "soon"}
    warnings = hookline.post("/v1/track", event).json["warnings"]
    assert [(each["code"], each["field"]) for each in warnings] == [
        ("not_an_object", "properties"),
        ("unreadable_time", "timestamp"),
    ]
    hookline.wait_status("odd", "crm", "delivered")
    assert hookline.api("GET", "events/odd").json["warnings"] == warnings
    sign_in(page, hookline)
    page.goto("/events/odd")
    told = subprocess.run(command(hookline, "why", "odd"), capture_output=True, text=True, check=True).stdout
    for each in warnings:
        expect(page.get_by_text(each["message"])).to_be_visible()
        assert f"warning: {each['message']} ({each['code']})" in told


def test_it_can_be_copied_and_verified(page: Page, hookline: Hookline) -> None:
    """The JSON as a tree and as its bytes, a curl line that sends it, and code that checks its signature."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    message_id = hookline.track("It's", properties={"big": 12345678901234567890})
    hookline.wait_status(message_id, "crm", "delivered")
    sign_in(page, hookline)
    page.goto(f"/events/{message_id}")
    expect(page.locator("json-tree")).to_contain_text("big: 12345678901234567890")
    page.get_by_role("button", name="Copy as curl").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    line = page.evaluate("navigator.clipboard.readText()")
    assert f"-u {WRITE_KEY}:" in line
    assert "It'\"'\"'s" in line
    page.get_by_role("tab", name="Raw").click()
    expect(page.locator("#payload")).to_contain_text('"big": 12345678901234567890')
    page.get_by_text("X-Signature", exact=True).click()
    page.get_by_role("tab", name="Go").click()
    expect(page.get_by_role("tabpanel", name="Go")).to_contain_text("func isGenuine")
