"""Sources in a browser: made, given keys, renamed and deleted, by mouse and by keyboard."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, wait_until
from tests.ui.conftest import CONTRAST, wait_for_key


def test_a_source_from_its_making_to_its_end(overview: Page, hookline: Hookline) -> None:
    """A wrong field is told at the field; keys overlap; what destroys asks for the name; the API did all of it."""
    page = overview
    page.goto("/sources")
    page.get_by_role("button", name="New source").click()
    page.get_by_label("Name", exact=True).fill("Site")
    expect(page.get_by_label("Id", exact=True)).to_have_value("site")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#field-id-error")).to_contain_text("taken")
    expect(page.get_by_label("Id", exact=True)).to_be_focused()
    page.get_by_label("Id", exact=True).fill("blog")
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(f"http://127.0.0.1:{hookline.control_port}/sources/blog")

    page.locator(".tab-links").get_by_role("link", name="Keys").click()
    page.get_by_role("button", name="New key").click()
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("td code")).to_have_count(2)
    old, new = page.locator("td code").all_inner_texts()
    for key in (old, new):
        wait_for_key(hookline, key)
        assert hookline.post("/v1/track", {"userId": "u", "event": "e"}, key=key).status == 200
    page.locator("tr", has_text=old).get_by_role("button", name="Revoke").click()
    revoke = page.locator("dialog[open]").get_by_role("button", name="Revoke")
    expect(revoke).to_be_disabled()
    page.locator("dialog[open]").get_by_label("Type blog to continue").fill("blog")
    revoke.click()
    expect(page.locator("td code")).to_have_text([new])
    assert hookline.api("GET", "sources/blog").json["writeKeys"] == [new]

    page.locator(".tab-links").get_by_role("link", name="Settings").click()
    page.get_by_label("Name").fill("x" * 201)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#field-name-error")).to_contain_text("length")
    page.get_by_label("Name").fill("Our blog")
    page.get_by_label("Enabled").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    expect(page.get_by_role("heading", level=1)).to_have_text("Our blog")
    source = hookline.api("GET", "sources/blog").json
    assert (source["name"], source["enabled"], source["writeKeys"]) == ("Our blog", False, [new])
    assert page.evaluate(CONTRAST) == []

    page.get_by_role("button", name="Delete source").click()
    page.locator("dialog[open]").get_by_label("Type blog to continue").fill("blog")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.wait_for_url("**/sources")
    assert hookline.api("GET", "sources/blog").status == 404


def test_the_keyboard_is_enough(overview: Page, hookline: Hookline) -> None:
    """g s goes to the sources, / searches, j and Enter open a row; ? lists the keys, and typing is no command."""
    hookline.api("PUT", "sources/kiosk", {"id": "kiosk", "name": "Kiosk", "writeKeys": ["wk_kiosk"]})
    overview.keyboard.press("?")
    expect(overview.get_by_role("dialog", name="Keys")).to_be_visible()
    overview.keyboard.press("Escape")
    overview.keyboard.press("g")
    overview.keyboard.press("s")
    overview.wait_for_url("**/sources")
    overview.keyboard.press("/")
    overview.keyboard.type("kiosk?")
    expect(overview.get_by_placeholder("Name or id")).to_have_value("kiosk?")
    overview.keyboard.press("Backspace")
    overview.keyboard.press("Enter")
    overview.wait_for_url("**/sources?search=kiosk")
    overview.keyboard.press("j")
    overview.keyboard.press("Enter")
    expect(overview.get_by_role("heading", level=1)).to_have_text("Kiosk")


def test_what_was_rejected_is_on_the_sources_page(overview: Page, hookline: Hookline) -> None:
    """With the sentence, the code and the way to the item; without any there is a word about it."""
    hookline.api("PUT", "sources/clumsy", {"id": "clumsy", "name": "Clumsy", "writeKeys": ["wk_clumsy"]})
    overview.goto("/sources/clumsy/rejected")
    expect(overview.get_by_role("heading", name="Nothing rejected")).to_be_visible()
    wait_for_key(hookline, "wk_clumsy")
    hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u", "messageId": "no-name"}]}, key="wk_clumsy")
    row = overview.locator("tr", has_text="missing_event")
    expect(row).to_contain_text("no-name")
    row.get_by_role("link").click()
    expect(overview.locator(".line-of-time")).to_contain_text("never delivered")


def test_the_schema_is_what_was_sent(overview: Page, hookline: Hookline) -> None:
    """Each name with its count, and behind it its properties with their types; nothing sent, a word about that."""
    hookline.api("PUT", "sources/till", {"id": "till", "name": "Till", "writeKeys": ["wk_till"]})
    overview.goto("/sources/till/schema")
    expect(overview.get_by_role("heading", name="No event yet")).to_be_visible()
    wait_for_key(hookline, "wk_till")
    for total in (1, "2"):
        event = {"userId": "u", "event": "Paid", "properties": {"total": total}}
        assert hookline.post("/v1/track", event, key="wk_till").status == 200
    name = overview.locator(".names li", has_text="Paid")
    expect(name).to_contain_text("2 events")
    name.locator("summary").click()
    expect(name.locator("tr", has_text="total")).to_contain_text("number, string")
    assert overview.evaluate(CONTRAST) == []


def test_a_rate_limit_is_set_and_its_count_is_shown(overview: Page, hookline: Hookline) -> None:
    """A wrong size is told at its field; what the limit refuses is counted on the page of the source."""
    page = overview
    source = {"id": "loud", "name": "Loud", "writeKeys": ["wk_loud"]}
    hookline.api("PUT", "sources/loud", source)
    page.goto("/sources/loud/settings")
    page.get_by_label("Events per second").fill("0.01")
    page.get_by_label("Bytes per second").fill("5GB")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#field-rateLimit-bytes-error")).to_contain_text("1GB")
    page.get_by_label("Bytes per second").fill("1MB")
    page.get_by_label("Burst").fill("5m")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved")).to_be_visible()
    limit = {"events": 0.01, "bytes": "1MB", "burst": "5m"}
    assert hookline.api("GET", "sources/loud").json["rateLimit"] == limit
    call = {"userId": "u", "event": "e"}
    wait_until(lambda: hookline.post("/v1/track", call, key="wk_loud").status == 429)
    expect(page.locator("[data-rate-limited]")).to_contain_text("refused by its rate limit")
    assert page.evaluate(CONTRAST) == []


def test_settings_of_somebody_else_are_not_saved_over(overview: Page, hookline: Hookline) -> None:
    """A source that was disabled since the page was opened stays so, whatever else is saved there."""
    page = overview
    hookline.api("PUT", "sources/leaky", {"id": "leaky", "name": "Leaky", "writeKeys": ["wk_leaky"]})
    page.goto("/sources/leaky/settings")
    page.get_by_label("Name").fill("Drip")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", name="Drip")).to_be_visible()
    hookline.api("PATCH", "sources/leaky", {"enabled": False})
    page.get_by_label("Name").fill("Leaky")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("form [data-problem]").first).to_contain_text("changed meanwhile")
    assert hookline.api("GET", "sources/leaky").json["enabled"] is False
    hookline.api("DELETE", "sources/leaky")
