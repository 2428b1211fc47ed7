"""Signing in, in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, send
from tests.ui.conftest import sign_in


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """A service of its own: with accounts, which other tests make, the form asks for other things."""
    with Hookline(tmp_path_factory.mktemp("sign-in") / "h", []) as running:
        running.track("Before anybody looked")
        yield running


def test_a_wrong_token_says_so_and_the_right_one_opens(page: Page, hookline: Hookline) -> None:
    """The form explains itself, keeps the page one wanted, and opens it."""
    page.goto("/events/some-id")
    expect(page.get_by_label("Admin token")).to_be_focused()
    page.get_by_label("Admin token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not the admin token")
    page.get_by_label("Admin token").fill(hookline.admin_token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No event has this message id")).to_be_visible()
    assert page.url.endswith("/events/some-id")


def test_signing_out_closes_the_page(overview: Page) -> None:
    """After signing out the way back leads to the form."""
    overview.get_by_role("button", name="Sign out").click()
    expect(overview.get_by_label("Admin token")).to_be_visible()
    overview.goto("/")
    expect(overview.get_by_label("Admin token")).to_be_visible()


def test_a_session_that_ended_leads_to_the_form_by_itself(overview: Page, hookline: Hookline) -> None:
    """A live page whose session is gone does not stand there with old numbers."""
    cookie = "; ".join(f"{each['name']}={each['value']}" for each in overview.context.cookies())
    answer = send(hookline.control_port, "POST", "/logout", b"", {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"})
    assert answer.status == 303
    hookline.track()
    expect(overview.get_by_label("Admin token")).to_be_visible()


def test_the_theme_is_kept(page: Page, hookline: Hookline) -> None:
    """The switch goes through the three themes and the choice outlives the page."""
    sign_in(page, hookline)
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(18, 19, 22)"
