"""Notifications: made, tested, changed and deleted on their pages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver, Reply
from tests.ui.conftest import CONTRAST
from tests.ui.test_hostile_content import assert_inert
from tests.ui.test_screens import sticks_out

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
WEBHOOK_URL = re.compile("^Webhook URL")
HOSTILE = '<img src=x onerror="window.ran=1"> “quoted”'


def test_a_notification_from_the_first_to_the_last_click(
    overview: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """The empty list teaches; the form shows what means something, says what is missing, and a test what came of it."""
    overview.goto("/settings/notifications")
    expect(overview.get_by_text("No notification yet")).to_be_visible()
    expect(overview.locator("[data-mail-missing]")).to_contain_text("smtp.url")
    overview.get_by_role("link", name="New notification").first.click()
    overview.get_by_role("textbox", name="Name").fill(HOSTILE)
    expect(overview.get_by_label("Events within an hour")).to_be_hidden()
    expect(overview.get_by_role("group", name="Destinations")).to_be_hidden()
    overview.get_by_role("button", name="Create").click()
    expect(overview.get_by_text("Choose at least one.")).to_be_visible()
    expect(overview.get_by_text("Give at least one address or URL.")).to_be_visible()
    overview.get_by_label("Events are not delivered").check()
    overview.get_by_label("The disk is nearly full").check()
    overview.get_by_role("group", name="Destinations").get_by_label("crm").check()
    overview.get_by_label("Events within an hour").fill("20")
    overview.get_by_label(WEBHOOK_URL).fill("nowhere")
    overview.get_by_label("Webhook secret").fill("a-long-secret")
    overview.get_by_role("button", name="Create").click()
    expect(overview.get_by_text("write a full URL that begins with http:// or https://")).to_be_visible()
    overview.get_by_label(WEBHOOK_URL).fill(receiver.url("/alerts"))
    overview.get_by_role("button", name="Create").click()
    expect(overview.get_by_role("heading", level=1)).to_have_text(HOSTILE)
    expect(overview.locator(".facts")).to_contain_text("from 20 events an hour")
    expect(overview.locator(".facts")).to_contain_text("secret …cret")

    overview.get_by_role("button", name="Send a test").click()
    expect(overview.locator(".trial")).to_contain_text("● sent webhook")
    assert receiver.requests[-1].json["what"] == "test"
    expect(overview.get_by_role("row").filter(has_text="Test of the notification")).to_contain_text("● sent")
    receiver.respond = lambda request: Reply(404)
    overview.get_by_role("button", name="Send a test").click()
    expect(overview.locator(".trial")).to_contain_text("■ failed webhook")
    expect(overview.locator(".trial")).to_contain_text("refused 404")
    assert_inert(overview)

    overview.get_by_role("link", name="Edit").click()
    expect(overview.get_by_label("Time zone")).to_be_hidden()
    overview.get_by_label("Hold messages back at night").check()
    expect(overview.get_by_label("Time zone")).not_to_have_value("")
    overview.get_by_label("Time zone").fill("Europe/Berlin")
    overview.get_by_label("Critical").check()
    overview.get_by_label("Events are not delivered").uncheck()
    overview.get_by_role("button", name="Save").click()
    expect(overview.locator(".facts")).to_contain_text("22:00 to 07:00, Europe/Berlin, except critical")
    (rule,) = hookline.api("GET", "notifications").json["items"]
    assert (rule["when"], rule["destinations"], rule["threshold"]) == (["disk_low"], [], None)
    assert rule["to"] == [{"webhook": {"url": receiver.url("/alerts"), "secret": "…cret"}}]

    overview.goto("/settings/notifications")
    expect(overview.get_by_role("row").filter(has_text=HOSTILE)).to_contain_text("The disk is nearly full")
    overview.get_by_role("link", name=HOSTILE).click()
    overview.get_by_role("button", name="Delete notification").click()
    overview.get_by_role("button", name="Delete", exact=True).click()
    expect(overview.get_by_text("No notification yet")).to_be_visible()


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_a_viewer_sees_no_live_buttons(page: Page, hookline: Hookline) -> None:
    """The rule and its messages, and nothing that would be refused; secrets are masked."""
    slack = {"slack": {"url": "https://hooks.slack.com/services/T0/very-secret"}}
    hookline.api(
        "PUT", "notifications/looked-at", {"id": "looked-at", "name": "Looked at", "when": ["disk_low"], "to": slack}
    )
    invited = hookline.api("POST", "users", {"name": "nora", "role": "viewer"}).json
    page.goto(invited["link"])
    page.get_by_label("Password").fill("three words in a row")
    page.get_by_role("button", name="Join").click()
    page.locator("#light[data-state=good]").wait_for()
    page.goto("/settings/notifications")
    expect(page.get_by_role("link", name="New notification")).to_have_count(0)
    page.get_by_role("link", name="Looked at").click()
    expect(page.get_by_text("…cret")).to_be_visible()
    for name in ("Send a test", "Delete notification"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
    expect(page.get_by_role("link", name="Edit")).to_have_count(0)
    assert "very-secret" not in page.content()
    assert page.evaluate(CONTRAST) == []
    assert not sticks_out(page)
    hookline.api("DELETE", "notifications/looked-at")


def test_a_notice_has_local_times_and_a_button(overview: Page, hookline: Hookline) -> None:
    """Pages write no ISO times and name no API call: they show the reader's time, and where the next step is taken."""
    hookline.api("POST", "destinations/crm/pause", {"reason": HOSTILE})
    try:
        notice = overview.locator("#notices li").filter(has_text="Destination crm is paused")
        expect(notice.locator("time[data-clock]")).not_to_contain_text("Z")
        assert not ISO.search(notice.inner_text())
        overview.goto("/notices")
        notice = overview.locator(".notice").filter(has_text="Destination crm is paused")
        expect(notice.locator("strong time[data-clock]")).to_have_attribute("datetime", ISO)
        assert not ISO.search(notice.inner_text())
        assert_inert(overview)
        notice.get_by_role("link", name="Open the destination").click()
        expect(overview).to_have_url(re.compile("/destinations/crm$"))
    finally:
        hookline.api("POST", "destinations/crm/resume")
