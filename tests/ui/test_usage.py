"""The usage in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline
from tests.ui.conftest import CONTRAST
from tests.ui.test_screens import sticks_out


@pytest.mark.parametrize("screen", [(390, "dark")])
def test_it_counts_and_can_be_taken_along(overview: Page, hookline: Hookline) -> None:
    """An event shows up in sum and source, another range is an address, and the CSV has the line; it fits a phone."""
    hookline.track("Counted")
    overview.goto("/usage")
    row = overview.get_by_role("region", name="By source").locator("tr[data-key=site]")
    expect(row.locator("td").nth(1)).not_to_have_text("0")
    expect(overview.get_by_role("region", name="Storage")).to_contain_text("journal")
    overview.get_by_role("navigation", name="Range").get_by_text("7d").click()
    overview.wait_for_url("**/usage?range=7d")
    with overview.expect_download() as download:
        overview.get_by_role("link", name="CSV").click()
    lines = download.value.path().read_text().splitlines()
    assert lines[0] == "period,source,events,filtered,counted,suppressed"
    assert any(",site," in line for line in lines[1:])
    assert overview.evaluate(CONTRAST) == []
    assert not sticks_out(overview)
