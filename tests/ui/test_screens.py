"""Every page on a phone and on a desk, light and dark: nothing sticks out, everything can be read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver, webhook
from tests.ui.conftest import CONTRAST, sign_in

LONG = "A name without an end " * 9
WORD = "Unbreakable" * 18


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own: what they fill it with would be in the way of others."""
    with Hookline(tmp_path_factory.mktemp("screens") / "h", [webhook("crm", shared_receiver.url())]) as running:
        yield running


def fill(hookline: Hookline) -> str:
    """Long names everywhere, right-to-left text, a rejected item; return an event's id."""
    hookline.api("PUT", "sources/long", {"id": "long", "name": WORD, "writeKeys": ["wk_" + "x" * 150]})
    hookline.api("PUT", "destinations/long", webhook("long", f"https://{'a' * 60}.example/{WORD}", name=LONG[:200]))
    hookline.track("تم الطلب بنجاح", userId="علي")
    hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u"}]})
    return hookline.track(WORD, userId=WORD, properties={WORD: WORD * 5})


def sticks_out(page: Page) -> bool:
    """Whether the page can be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth") is True


@pytest.mark.parametrize("screen", [(390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")])
def test_every_page_fits_and_can_be_read(page: Page, hookline: Hookline) -> None:
    """Form, full overview, event and unknown event: no sideways scrolling, contrast AA."""
    page.goto("/login")
    assert not sticks_out(page)
    assert page.evaluate(CONTRAST) == []
    sign_in(page, hookline)
    message_id = fill(hookline)
    expect(page.get_by_role("link", name=WORD).first).to_be_visible()
    expect(page.locator(".thing", has_text=LONG[:60])).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert not sticks_out(page)
    assert page.evaluate(CONTRAST) == []
    page.goto(f"/events/{message_id}")
    expect(page.locator("table.attempts, .line-of-time").first).to_be_visible()
    assert not sticks_out(page)
    assert page.evaluate(CONTRAST) == []
    page.goto(f"/events/{WORD}")
    assert not sticks_out(page)


@pytest.mark.parametrize("screen", [(390, "light")])
def test_a_phone_has_room_for_fingers(overview: Page) -> None:
    """The navigation's targets are at least 44 pixels both ways."""
    boxes = [link.bounding_box() for link in overview.locator(".rail li a").all()]
    assert len(boxes) == 4
    assert all(box and box["width"] >= 44 and box["height"] >= 44 for box in boxes)
