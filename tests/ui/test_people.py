"""People and programs: the first owner, an invitation, roles, tokens and the audit log, as people meet them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.service.client import bearer, send
from tests.service.harness import Hookline
from tests.ui.conftest import CONTRAST, WAIT_MS

PASSWORD = "correct horse battery"
WIDTH = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """A service of these tests' own: others sign in where nobody has an account."""
    with Hookline(tmp_path_factory.mktemp("people") / "h") as running:
        yield running


def looks_right(page: Page) -> None:
    """Nothing sticks out, and everything can be read."""
    page.locator("main").wait_for()  # a click may have led elsewhere: between two pages there is no document
    page.wait_for_load_state()
    assert (page.evaluate(WIDTH), page.evaluate(CONTRAST)) == (False, [])


def sign_in_as(page: Page, name: str) -> None:
    """Sign in with an account."""
    page.goto("/login")
    page.get_by_label("Account").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#light[data-state=good]").wait_for()


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_from_the_first_owner_to_a_viewer(page: Page, browser: Browser, hookline: Hookline, origin: str) -> None:
    """The admin token creates the owner, who invites a viewer, who joins, looks, and is not offered what is refused."""
    page.goto("/")
    page.get_by_label("Admin token").fill(hookline.admin_token)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#light[data-state=good]").wait_for()
    page.goto("/settings/people")
    looks_right(page)
    page.get_by_role("link", name="Create your owner account").click()
    looks_right(page)
    page.get_by_label("E-mail address or name").fill("olga@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Create account").click()
    page.locator("#light[data-state=good]").wait_for()

    page.goto("/settings/people")
    page.get_by_role("button", name="Invite someone").click()
    page.get_by_label("E-mail address or name").fill("<b>vera</b>")
    page.get_by_role("button", name="Create link").click()
    expect(page.locator("#invitation")).not_to_be_empty()
    link = page.locator("#invitation").inner_text()
    page.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("row", name="<b>vera</b>")).to_contain_text("invited")
    looks_right(page)

    context = browser.new_context(base_url=origin)
    theirs = context.new_page()
    theirs.set_default_timeout(WAIT_MS)
    theirs.goto(link)
    expect(theirs.get_by_text("<b>vera</b>, viewer")).to_be_visible()
    theirs.get_by_label("Password").fill(PASSWORD)
    theirs.get_by_role("button", name="Join").click()
    theirs.locator("#light[data-state=good]").wait_for()
    theirs.goto("/sources/site/settings")
    expect(theirs.get_by_role("button", name="Save")).to_be_hidden()
    theirs.goto("/settings/people")
    expect(theirs.get_by_text("This page is not for your role")).to_be_visible()
    theirs.goto("/settings/account")
    theirs.get_by_label("Current password").fill("wrong")
    theirs.get_by_label("New password").fill(PASSWORD + "!")
    theirs.get_by_role("button", name="Change password").click()
    expect(theirs.get_by_text("That is not your password.")).to_be_visible()
    theirs.goto("about:blank")  # an open page goes to the sign-in by itself, and would meet the next one

    page.get_by_role("link", name="<b>vera</b>").click()
    page.get_by_label("Role", exact=True).select_option("editor")
    with page.expect_navigation():
        page.get_by_role("button", name="Save").click()
    looks_right(page)
    theirs.goto("/sources/site/settings")
    expect(theirs.get_by_label("Account")).to_be_visible()
    sign_in_as(theirs, "<b>VERA</b>")
    theirs.goto("/sources/site/settings")
    expect(theirs.get_by_role("button", name="Save")).to_be_visible()
    context.close()


def test_a_token_is_made_used_revoked_and_on_record(page: Page, hookline: Hookline) -> None:
    """Its text is shown once; what it changed is in the audit log under its name, with the field before and after."""
    page.goto("/login")
    page.locator("#password").fill(hookline.admin_token)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("#light")).to_be_visible()  # else its way there meets the next one
    page.goto("/settings/tokens")
    looks_right(page)
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("deploy")
    page.get_by_label("Scope").select_option("write")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token-text")).not_to_be_empty()
    token = page.locator("#token-text").inner_text().strip()
    page.get_by_role("button", name="Close").last.click()
    changed = send(hookline.control_port, "PATCH", "/api/v1/sources/site", {"name": "By a program"}, bearer(token))
    assert changed.status == 200
    page.get_by_role("link", name="deploy").click()
    looks_right(page)
    page.get_by_role("button", name="Revoke token").click()
    page.get_by_label("Type deploy to continue").fill("deploy")
    page.get_by_role("button", name="Revoke", exact=True).click()
    expect(page.get_by_text("No token yet")).to_be_visible()
    assert send(hookline.control_port, "GET", "/api/v1/sources", headers=bearer(token)).status == 401

    page.get_by_role("link", name="Audit log").click()
    page.get_by_label("Who").fill("token deploy")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="patch source").click()
    expect(page.get_by_role("row", name="name")).to_contain_text("By a program")
    looks_right(page)
    page.goto("/settings/audit-log")
    expect(page.get_by_role("link", name="revoke token")).to_be_visible()
    looks_right(page)
