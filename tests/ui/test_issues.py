"""Issues on their pages: from the list to the cause, and until everything has arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.service.harness import Hookline, Receiver, Reply, Request, new_id, wait_until, webhook
from tests.ui.conftest import WAIT_MS, sign_in
from tests.ui.test_screens import look, misfits, on_screens


@pytest.fixture
def hookline(tmp_path: Path, receiver: Receiver) -> Iterator[Hookline]:
    """A service of the test's own: its list shows its issues alone."""
    with Hookline(tmp_path / "h", [webhook("crm", receiver.url())]) as running:
        yield running


def refuse(request: Request) -> Reply:
    """Repeat what differs from event to event."""
    said = f"Order {new_id()} of {request.message_id} has no total"
    return Reply(422, json.dumps({"message": said}).encode())


def fail(hookline: Hookline, receiver: Receiver, events: int) -> dict[str, Any]:
    """Have events refused, and return their issue."""
    receiver.respond = refuse
    for _ in range(events):
        hookline.track("Order Completed")

    def counted() -> dict[str, Any] | None:
        items: list[dict[str, Any]] = hookline.api("GET", "issues").json["items"]
        return items[0] if items and items[0]["events"] == events else None

    found = wait_until(counted, what="the issue")
    assert found is not None
    return found


def test_from_the_list_to_everything_delivered(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """The rail counts, the list names cause and number, the page says what to do and retries all of it by a button
    that says how many; on a desk and on a phone."""
    sign_in(page, hookline)
    page.goto("/issues")
    expect(page.get_by_role("heading", name="No open issues")).to_be_visible()
    fail(hookline, receiver, 5)
    row = page.locator("table.issues tbody tr")
    expect(row).to_contain_text("Refusing (422): Order … of … has no total")
    expect(row).to_contain_text("5")
    for screen in on_screens(page):
        assert misfits(page) == [], screen
    row.get_by_role("link").click()
    expect(page.locator(".rail [aria-current]")).to_contain_text("1 open")
    expect(page.get_by_text("Once this is repaired, retry 5 dead letters.")).to_be_visible()
    expect(page.locator("[data-part=sample]")).to_contain_text("has no total")
    assert look(page, "issue", pictures=False) == []
    here = page.url
    page.goto(f"/dead-letters/{hookline.api('GET', 'dead-letters').json['items'][0]['id']}")
    page.get_by_role("link", name="Refusing (422): Order … of … has no total").click()
    expect(page).to_have_url(here)
    receiver.reply_with(200)
    page.get_by_role("button", name="Retry 5 dead letters").click()
    dialog = page.get_by_role("dialog", name="Retry 5 dead letters")
    expect(dialog).to_contain_text("A replay sends 5 dead letters again")
    dialog.get_by_role("button", name="Retry").click()
    wait_until(lambda: hookline.api("GET", "dead-letters").json["items"] == [], what="all are delivered")
    expect(page.get_by_role("button", name="Retry 5 dead letters")).to_have_count(0)
    expect(page.locator(".facts").first).to_contain_text("none")
    expect(page.locator("[data-part=next]")).not_to_contain_text("dead letter")


def test_note_ignore_and_open_again(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """What people say of an issue is shown to teammates; ignored it leaves the open ones, the overview and the rail."""
    issue = fail(hookline, receiver, 2)
    sign_in(page, hookline)
    expect(page.locator("#issues")).to_contain_text("Refusing (422)")
    page.goto("/destinations/crm")
    page.get_by_role("link", name="1 open issue").click()
    page.locator("table.issues").get_by_role("link").click()
    page.get_by_role("button", name="Add note").click()
    page.get_by_role("textbox", name="Note").fill("Ann <b>asks</b> the CRM team")
    page.get_by_role("button", name="Save note").click()
    expect(page.locator(".issue-note")).to_contain_text("Ann <b>asks</b> the CRM team")
    page.get_by_role("button", name="Ignore").click()
    page.get_by_role("dialog").get_by_role("button", name="Ignore").click()
    expect(page.get_by_text("○ ignored")).to_be_visible()
    expect(page.locator(".rail .tally")).to_have_text("")
    page.goto("/issues")
    expect(page.get_by_role("heading", name="No open issues")).to_be_visible()
    expect(page.locator(".rail .tally")).to_have_text("")
    page.get_by_role("link", name="Ignored 1").click()
    assert "state=ignored" in page.url
    page.locator("table.issues").get_by_role("link").click()
    page.get_by_role("button", name="Open again").click()
    page.get_by_role("dialog").get_by_role("button", name="Open again").click()
    expect(page.get_by_text("▲ open")).to_be_visible()
    assert hookline.api("GET", f"issues/{issue['id']}").json["state"] == "open"


def test_a_viewer_sees_no_buttons(browser: Browser, hookline: Hookline, receiver: Receiver, origin: str) -> None:
    """Whoever may only look finds the cause and nothing to press."""
    issue = fail(hookline, receiver, 1)
    invited = hookline.api("POST", "users", {"name": "vera", "role": "viewer"}).json
    context = browser.new_context(base_url=origin)
    theirs = context.new_page()
    theirs.set_default_timeout(WAIT_MS)
    theirs.goto(invited["link"])
    theirs.get_by_label("Password").fill("correct horse battery")
    theirs.get_by_role("button", name="Join").click()
    theirs.locator("#light[data-state=good]").wait_for()
    theirs.goto(f"/issues/{issue['id']}")
    expect(theirs.get_by_role("heading", name="What to do next")).to_be_visible()
    for name in ("Retry", "Ignore", "Add note"):
        expect(theirs.get_by_role("button", name=name)).to_be_hidden()
    context.close()
