"""The set-up from nothing to delivered events, in a browser, with a real SDK sending."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, Route, expect

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.conftest import sign_in, wait_for_key
from tests.ui.test_screens import misfits, on_screens


@pytest.fixture
def hookline(tmp_path: Path) -> Iterator[Hookline]:
    """A service without connections."""
    with Hookline(tmp_path / "h", sources=()) as running:
        yield running


def asked(receiver: Receiver) -> set[str]:
    """Which of the set-up's URLs were asked; other services send to this receiver too."""
    return {request.path for request in receiver.requests} & {"/first", "/second"}


def is_signed(receiver: Receiver) -> bool:
    """Whether the event of the SDK came with a signature."""
    return any("x-signature" in each.headers and b"Signed Up" in each.body for each in receiver.requests)


def test_from_nothing_to_delivered_events(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """Source, event of the Python SDK, catalog, two URLs, secret, test, enabled: each step leads to the next."""
    sign_in(page, hookline)
    page.get_by_role("link", name="Set up in the browser").click()
    page.get_by_label("Name", exact=True).fill("Web shop")
    page.get_by_role("button", name="Create source").click()

    expect(page.get_by_text("Waiting for the first event…").last).to_be_visible()
    page.get_by_role("tab", name="Python", exact=True).click()
    program = page.locator("#snippet-web-shop-python").inner_text()
    wait_for_key(hookline, hookline.api("GET", "sources/web-shop").json["writeKeys"][0])
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    expect(page.locator(".arrival")).to_contain_text("Signed Up")
    expect(page.locator(".skip-step")).to_have_count(0)
    page.get_by_role("link", name="Choose where events go").click()
    page.get_by_role("link", name="Use Webhooks").click()

    page.get_by_label("Name", exact=True).fill("CRM")
    page.locator("#url-1").fill("ftp://wrong.example")
    page.locator("#headers-1").fill("X-Team: shop")
    page.get_by_role("button", name="Add another URL").click()
    page.locator("#url-2").fill(receiver.url("/second"))
    page.get_by_role("button", name="Save and continue").click()
    expect(page.locator("#url-1-error")).to_contain_text("http")
    page.locator("#url-1").fill(receiver.url("/first"))
    page.get_by_role("button", name="Save and continue").click()

    secret = page.locator("#shared-secret").input_value()
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_role("heading", name="Send a test event to CRM")).to_be_visible()
    page.goto("/setup?source=web-shop")  # somebody comes back another day
    page.get_by_role("button", name="Preview request").click()
    expect(page.locator("summary", has_text="/first")).to_be_visible()
    assert asked(receiver) == set()
    test = page.get_by_role("navigation", name="Steps").locator("li", has_text="Test")
    page.get_by_role("link", name="Continue").click()
    expect(test).to_have_text("Test skipped")
    page.go_back()
    receiver.reply_with(503)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".answer .mark.dead")).to_have_text(["■ server error", "■ server error"])
    expect(page.locator(".answer").first).to_contain_text("Hookline would retry it. The receiver failed")
    expect(page.get_by_text("▲ The test failed.")).to_be_visible()
    assert asked(receiver) == {"/first", "/second"}
    assert misfits(page) == []
    page.get_by_role("link", name="Continue").click()
    expect(test).to_have_class("failed")
    expect(page.get_by_text("Once it is enabled, every new event of Web shop is posted to 2 URLs.")).to_be_visible()
    expect(page.get_by_role("link", name="replay")).to_have_attribute("href", "/destinations/crm/replay")
    page.go_back()
    receiver.reply_with(200)
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".answer").first).to_contain_text("success 200")
    expect(page.get_by_text("● The test succeeded.")).to_be_visible()

    page.get_by_role("link", name="Continue").click()
    page.get_by_role("button", name="Enable").click()
    expect(page.get_by_role("heading", name="CRM now gets the events")).to_be_visible()
    expect(test).to_have_class("done")
    crm = hookline.api("GET", "destinations/crm").json
    assert (crm["enabled"], crm["sources"], len(crm["settings"]["webhooks"])) == (True, ["web-shop"], 2)
    assert crm["settings"]["webhooks"][0]["headers"] == {"X-Team": "shop"}
    assert secret.endswith(crm["settings"]["sharedSecret"][-4:])
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    wait_until(lambda: is_signed(receiver), what="a signed event")


def test_the_first_event_is_sent_by_a_button(page: Page, hookline: Hookline) -> None:
    """Where collect does not answer the page says what to check; pressed again when it does, the event arrives."""
    hookline.api("POST", "sources", {"id": "shop", "name": "Shop", "type": "web"})
    sign_in(page, hookline)
    page.goto("/setup?source=shop&step=event")
    button = page.get_by_role("button", name="Send a test event")
    collect = hookline.role("collect")
    os.kill(collect, signal.SIGSTOP)
    button.click()
    expect(page.get_by_role("alert").filter(has_text="The collection API does not answer")).to_contain_text(
        "Check that"
    )
    for screen in on_screens(page):
        assert misfits(page) == [], screen
    os.kill(collect, signal.SIGCONT)
    with suppress(Error):  # what the first press sent may arrive now: the button goes, and the page moves on
        button.evaluate_all("there => there.forEach(each => each.click())")
    expect(page.locator(".arrival")).to_contain_text("Test Event")
    expect(button).to_have_count(0)
    event = hookline.api("GET", "events?source=shop").json["items"][0]
    assert (event["type"], event["event"]["event"]) == ("track", "Test Event")
    page.locator(".arrival a").click()
    connect = page.get_by_role("link", name="Connect a destination")
    expect(connect).to_have_attribute("href", "/setup?source=shop&step=catalog")
    page.goto("/events")
    page.locator("event-list .event-row").first.click()
    connect.click()
    expect(page.get_by_role("heading", name="Where should events go?")).to_be_visible()


@pytest.mark.parametrize("screen", [(1280, "light")])
def test_a_link_that_is_pressed_while_more_arrives_is_followed(page: Page, hookline: Hookline) -> None:
    """What is new waits until it is let go: a link replaced before that would not be followed."""
    hookline.api("POST", "sources", {"id": "shop", "name": "Shop", "type": "web"})
    wait_for_key(hookline, key := hookline.api("GET", "sources/shop").json["writeKeys"][0])
    sign_in(page, hookline)
    page.goto("/setup?source=shop&step=event")
    track = {"userId": "u1", "event": "First"}
    assert hookline.post("/v1/track", track, key=key).status == 200
    link = page.locator(".arrival a")
    expect(link).to_have_text("First")
    link.hover()
    page.mouse.down()
    assert hookline.post("/v1/track", track | {"event": "Second"}, key=key).status == 200
    page.wait_for_function(
        "fetch(location.href).then((answer) => answer.text()).then((text) => text.includes('Second'))"
    )
    with page.expect_response(lambda answer: "x-parts" in answer.request.headers):
        pass  # the page has seen it too
    expect(link).to_have_text("First")
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"/events/"))


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_it_is_taken_up_where_it_was_left(page: Page, hookline: Hookline) -> None:
    """Steps are skipped and gone back to; a step whose time has not come leads to the one that is next."""
    sign_in(page, hookline)
    page.goto("/setup?step=enable")
    expect(page.get_by_role("heading", name="Where do events come from?")).to_be_visible()
    hookline.api("POST", "sources", {"id": "app", "name": "App", "type": "mobile"})
    page.get_by_role("link", name="App").click()
    page.get_by_role("link", name="Skip: events can come later").click()
    expect(page.get_by_role("heading", name="Where should events go?")).to_be_visible()
    expect(page.locator(".stations li.skipped")).to_have_text("First event skipped")
    page.goto("/setup?source=app")
    expect(page.get_by_text("Waiting for the first event…").last).to_be_visible()
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Source").click()
    expect(page.get_by_role("heading", name="Where do events come from?")).to_be_visible()
    assert misfits(page) == []


def test_a_name_typed_before_the_scripts_ran_suggests_its_id(page: Page, hookline: Hookline) -> None:
    """On a slow line the field is there first; whoever types then must not be stopped by an empty id."""
    sign_in(page, hookline)
    held: list[Route] = []
    page.route("**/fields.js*", lambda route: held.append(route))
    page.goto("/setup", wait_until="commit")
    page.get_by_label("Name", exact=True).fill("Mobile app")
    assert page.locator("[data-slug-of]").input_value() == ""
    for route in held:
        route.continue_()
    expect(page.locator("[data-slug-of]")).to_have_value("mobile-app")


def test_urls_of_somebody_else_are_not_saved_over(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """Whoever goes back to the URLs in the set-up does not undo what was changed elsewhere meanwhile."""
    hookline.api("POST", "sources", {"id": "shop", "name": "Shop", "type": "web"})
    made = webhook("crm", receiver.url("/mine"), sources=["shop"], enabled=False)
    assert hookline.api("PUT", "destinations/crm", made).status == 201
    sign_in(page, hookline)
    page.goto("/setup?source=shop&destination=crm&step=urls")
    theirs = [{"url": receiver.url("/theirs"), "headers": {}}]
    assert hookline.api("PATCH", "destinations/crm", {"settings": {"webhooks": theirs}}).status == 200
    page.get_by_label("Name", exact=True).fill("My CRM")
    page.get_by_role("button", name="Save and continue").click()
    expect(page.get_by_text("Somebody else has changed this")).to_be_visible()
    crm = hookline.api("GET", "destinations/crm").json
    assert (crm["name"], crm["settings"]["webhooks"]) == (made["name"], theirs)


@pytest.mark.parametrize("path", ["/setup?source=shop&destination=crm&step=secret", "/destinations/crm/settings"])
def test_a_secret_of_somebody_else_is_not_saved_over(
    page: Page, hookline: Hookline, receiver: Receiver, path: str
) -> None:
    """Whoever gave it to the receiver would find every request refused."""
    hookline.api("POST", "sources", {"id": "shop", "name": "Shop", "type": "web"})
    made = webhook("crm", receiver.url("/crm"), sources=["shop"], enabled=False)
    assert hookline.api("PUT", "destinations/crm", made).status < 300
    sign_in(page, hookline)
    page.goto(path)
    if "settings" in path:
        page.locator("[data-dialog=sign-sharedSecret]").click()
        page.get_by_label("Shared secret").fill("the-secret-of-mine")
    theirs = {"settings": {"sharedSecret": "their-secret-1234"}}
    assert hookline.api("PATCH", "destinations/crm", theirs).status == 200
    page.get_by_role("button", name="Sign" if "settings" in path else "Save and continue", exact=True).click()
    expect(page.get_by_text("Somebody else has changed this")).to_be_visible()
    assert hookline.api("GET", "destinations/crm").json["settings"]["sharedSecret"].endswith("1234")


def test_the_secret_that_is_copied_is_the_one_that_is_saved(page: Page, hookline: Hookline, receiver: Receiver) -> None:
    """Somebody may write another one than is suggested: the receiver would refuse every request."""
    hookline.api("POST", "sources", {"id": "shop", "name": "Shop", "type": "web"})
    made = webhook("crm", receiver.url("/crm"), sources=["shop"], enabled=False)
    assert hookline.api("PUT", "destinations/crm", made).status < 300
    sign_in(page, hookline)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/setup?source=shop&destination=crm&step=secret")
    page.get_by_label("Shared secret").fill("the-secret-of-mine")
    page.get_by_role("button", name="Copy secret").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "the-secret-of-mine"
