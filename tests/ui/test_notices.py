"""Notices on the first page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.service.harness import Hookline, Receiver
from tests.ui.test_screens import misfits, on_screens


@pytest.fixture
def hookline(tmp_path: Path, receiver: Receiver) -> Iterator[Hookline]:
    """A service on a disk that is never large enough."""
    with Hookline(tmp_path / "h", settings={"notices.disk_free": "1000000TB"}) as running:
        yield running


def test_an_open_notice_says_what_to_do(overview: Page, hookline: Hookline) -> None:
    """State, sentence, since when and next step, readable and within the page; acknowledged it becomes quiet."""
    notice = overview.locator("#notices li")
    expect(notice).to_contain_text("The disk of the data folder is nearly full")
    expect(notice).to_contain_text("■ critical")
    expect(notice).to_contain_text("Free disk space")
    more = overview.get_by_role("link", name="all notices")
    for screen in on_screens(overview):
        assert misfits(overview) == [], screen
        expect(more).to_have_css("font-size", "14px")
    more.click()
    overview.get_by_role("button", name="Acknowledge").click()
    expect(overview.locator(".notices li")).to_contain_text("critical, acknowledged")
    expect(overview.get_by_role("button", name="Acknowledge")).to_have_count(0)
    overview.get_by_role("link", name="Resolved").click()
    expect(overview.get_by_text("No resolved notices")).to_be_visible()
    for screen in on_screens(overview):
        tabs, box = (overview.locator(each).bounding_box() for each in ("main .tab-links", "main .nothing"))
        assert tabs
        assert box
        assert box["y"] - tabs["y"] - tabs["height"] >= 8, f"{screen}: what is empty is part of the page, not of tabs"
    overview.goto("/")
    expect(notice).to_contain_text("critical, acknowledged")
    for screen in on_screens(overview):
        assert misfits(overview) == [], screen
        assert notice.evaluate("each => each.scrollWidth <= each.clientWidth"), screen
