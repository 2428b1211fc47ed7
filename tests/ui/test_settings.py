"""The settings: what changed the connections, the way back by two clicks, and how the server was started."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline
from tests.ui.conftest import CONTRAST


@pytest.mark.parametrize("screen", [(1280, "light"), (390, "dark")])
def test_a_change_is_seen_and_undone(overview: Page, hookline: Hookline) -> None:
    """From the rail to the change, its field before and after, and back; the way back is a version too."""
    hookline.api("PUT", "sources/undone", {"id": "undone", "name": "Before", "writeKeys": ["wk_undone"]})
    hookline.api("PATCH", "sources/undone", {"name": "<b>After</b>"})
    if overview.get_by_role("button", name="Menu").is_visible():
        overview.get_by_role("button", name="Menu").click()
    overview.get_by_role("link", name="Settings").click()
    expect(overview.get_by_role("heading", level=1)).to_have_text("Your account")
    overview.get_by_role("link", name="Versions").click()
    expect(overview).to_have_title("Versions · Hookline")
    row = overview.get_by_role("row", name="current")
    expect(row).to_contain_text("~ changed source undone")
    row.get_by_role("link").click()
    expect(overview.get_by_role("row", name="name")).to_contain_text("<b>After</b>")
    width = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert (overview.evaluate(width), overview.evaluate(CONTRAST)) == (False, [])
    overview.get_by_role("button", name="Undo this change").click()
    with overview.expect_navigation():  # from one version to the next: the address before it matches as well
        overview.get_by_role("button", name="Roll back").click()
    expect(overview.get_by_role("row", name="name")).to_contain_text("Before")
    assert hookline.api("GET", "sources/undone").json["name"] == "Before"
    hookline.api("DELETE", "sources/undone")


def test_the_server_says_how_it_was_started(overview: Page, hookline: Hookline) -> None:
    """Every setting with its value and where it came from; secrets are not among them."""
    overview.goto("/settings/server")
    expect(overview.get_by_role("row", name="deliver.retry_max")).to_contain_text("1s")
    expect(overview.get_by_role("row", name="plan.level")).to_contain_text("default")
    assert hookline.admin_token not in overview.content()
    assert overview.evaluate(CONTRAST) == []
    values = {each["key"]: each["value"] for each in hookline.api("GET", "settings").json["items"]}
    assert values["deliver.retry_max"] == 1.0
