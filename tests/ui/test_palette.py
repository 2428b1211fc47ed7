"""Finding anything by Ctrl-K: with the keyboard alone, on a desk and on a phone, whatever the results are called."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.conftest import sign_in
from tests.ui.hostile_payloads import PAYLOADS
from tests.ui.test_hostile_content import assert_inert
from tests.ui.test_screens import PICTURES, barriers, sticks_out

HOSTILE = PAYLOADS[1]


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own, which knows people."""
    with Hookline(tmp_path_factory.mktemp("palette") / "h", [webhook("crm", shared_receiver.url())]) as running:
        audience = {"id": "all", "name": "All", "destinations": [], "condition": {"event": "*"}}
        assert running.api("PUT", "audiences/all", audience).status == 201
        traits = {"email": "Zora@example.com", "name": "Zora Neale Hurston"}
        running.post("/v1/identify", {"userId": "user-zora", "traits": traits})
        running.post("/v1/identify", {"userId": "user-odd", "traits": {"name": HOSTILE, "email": "zorro@example.com"}})
        running.post("/v1/track", {"anonymousId": "only a device", "event": "Order Completed"})
        wait_until(lambda: len(running.api("GET", "people/search?search=zor").json["items"]) == 2, what="people known")
        yield running


@pytest.fixture
def signed_in(page: Page, hookline: Hookline) -> Page:
    """The first page, signed in and live."""
    sign_in(page, hookline)
    return page


def test_a_person_is_found_by_e_mail_with_the_keyboard_alone(signed_in: Page) -> None:
    """Opened by a key, chosen by arrows, gone to by Enter; Esc closes, and focus is back where it was."""
    signed_in.get_by_role("link", name="Events").first.focus()
    signed_in.keyboard.press("Control+k")
    field = signed_in.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    expect(signed_in.get_by_role("status").filter(has_text="Type the beginning")).to_be_visible()
    signed_in.keyboard.press("Escape")
    expect(signed_in.get_by_role("link", name="Events").first).to_be_focused()
    signed_in.keyboard.press("Control+k")
    signed_in.keyboard.type("ZOR")
    options = signed_in.get_by_role("group", name="People").get_by_role("option")
    expect(options).to_have_count(2)
    assert {HOSTILE in each for each in options.all_inner_texts()} == {True, False}
    assert_inert(signed_in)
    field.fill("zora@")
    expect(options).to_have_count(1)
    expect(options).to_contain_text("Zora@example.com")
    expect(field).to_have_attribute("aria-activedescendant", options.get_attribute("id") or "")
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_role("heading", level=1)).to_have_text("user-zora")


def test_an_action_opens_what_confirms_it(signed_in: Page, hookline: Hookline) -> None:
    """Nothing is done by finding it; what was used last is there when nothing is typed. What nobody knows may be in an
    event."""
    signed_in.get_by_role("button", name="Search").first.click()
    signed_in.keyboard.type("pause crm")
    expect(signed_in.get_by_role("option", selected=True)).to_contain_text("Pause crm…")
    signed_in.keyboard.press("Enter")
    expect(signed_in.locator("dialog#pause")).to_be_visible()
    assert hookline.api("GET", "destinations/crm/metrics").json["state"] != "paused"
    expect(signed_in).to_have_url(f"{signed_in.url.partition('/destinations')[0]}/destinations/crm")
    signed_in.keyboard.press("Escape")
    signed_in.keyboard.press("Control+k")
    expect(signed_in.get_by_role("group", name="Recent").get_by_role("option")).to_contain_text("Pause crm…")
    signed_in.keyboard.type("qqqq")
    expect(signed_in.get_by_role("status").filter(has_text="Nothing found")).to_be_visible()
    expect(signed_in.get_by_role("option", selected=True)).to_have_text("Search all events for “qqqq”")
    signed_in.keyboard.press("Enter")
    expect(signed_in.get_by_label("Text")).to_have_value("qqqq")


def test_everybody_can_use_it(signed_in: Page) -> None:
    """On a desk and on a phone, light and dark: it fits, can be read, and has no barrier."""
    found = []
    for path in ("/people", "/people?search=zo"):
        for width, scheme in ((1280, "light"), (390, "dark"), (1280, "dark"), (390, "light")):
            signed_in.set_viewport_size({"width": width, "height": 800})
            signed_in.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            signed_in.goto(path)
            expect(signed_in.get_by_role("link", name="Zora Neale Hurston")).to_be_visible()
            found += looked_at(signed_in, f"people-{len(path)}-{width}-{scheme}")
            signed_in.get_by_role("button", name="Search").first.click()
            signed_in.keyboard.type("zo")
            expect(signed_in.get_by_role("group", name="People").get_by_role("option")).to_have_count(2)
            found += looked_at(signed_in, f"palette-{width}-{scheme}")
            assert_inert(signed_in)
    assert found == []


def looked_at(page: Page, name: str) -> list[str]:
    """What is wrong with the page as it stands."""
    if PICTURES.is_dir():
        page.screenshot(path=PICTURES / f"{name}.png")
    wrong = [*(["sticks out"] if sticks_out(page) else []), *barriers(page)]
    return [f"{name}: {each}" for each in wrong]
