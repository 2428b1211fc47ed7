"""The first page: it teaches, moves on by itself, and stays as things are."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from hookline.insights.series import SeriesStore
from hookline.telemetry.time_buckets import TimeBucket
from tests.service.harness import SOURCE, Hookline, Receiver, wait_until, webhook
from tests.ui.cable import Cable
from tests.ui.conftest import CONTRAST, sign_in

MARK = "window.neverReloaded = true"
# The button says so for a moment only, which a test that looks from time to time could miss.
NOTE_COPIED = """new MutationObserver(changes => {
  window.saidCopied ||= changes.some(change => change.target.textContent === 'Copied');
}).observe(document.body, {subtree: true, childList: true}) || undefined"""


def was_reloaded(page: Page) -> bool:
    """Whether the page was loaded anew since ``MARK`` ran."""
    return page.evaluate("window.neverReloaded !== true") is True


def test_a_row_leads_to_the_events_own_page(overview: Page, hookline: Hookline, receiver: Receiver) -> None:
    """By keyboard alone: the row opens the page with the attempt and the payload."""
    message_id = hookline.track("Order Completed", properties={"total": 12.5})
    overview.get_by_role("link", name="Order Completed").press("Enter")
    expect(overview.get_by_role("heading", name="Order Completed")).to_be_visible()
    expect(overview.locator("#message-id")).to_have_text(message_id)
    attempt = overview.locator("table.attempts tbody tr").first
    expect(attempt).to_contain_text("success")
    expect(attempt).to_contain_text(receiver.url())
    expect(overview.locator("#payload")).to_contain_text('"total": 12.5')


def test_what_a_row_says_on_hover_is_within_reach(overview: Page, hookline: Hookline) -> None:
    """The row's link lies over all of it, but not over the exact time; a press there follows the link all the same."""
    message_id = hookline.track("Hovered")
    at = overview.locator("#events tr", has_text="Hovered").locator("time")
    at.hover()
    expect(at).to_have_attribute("title", re.compile(r"\d{4}-\d\d-\d\dT.*Z$"))
    at.click()
    overview.wait_for_url(f"**/events/{message_id}?*")


def test_a_failing_receiver_is_seen_and_its_recovery_too(
    overview: Page, hookline: Hookline, receiver: Receiver
) -> None:
    """An event that is tried again shows so, and turns to delivered on the open page when the receiver is back."""
    receiver.reply_with(503)
    message_id = hookline.track("Late")
    expect(overview.locator("tr", has_text="Late").get_by_text("retrying")).to_be_visible()
    overview.goto(f"/events/{message_id}")
    expect(overview.get_by_text("server error").first).to_be_visible()
    overview.evaluate(MARK)
    receiver.reply_with(200)
    expect(overview.locator(".line-of-time").get_by_text("delivered")).to_be_visible(timeout=240_000)
    assert not was_reloaded(overview)


def test_a_rejected_item_says_why(overview: Page, hookline: Hookline) -> None:
    """What the edge refused is in the list with its reason behind it."""
    answer = hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u1", "messageId": "no-event"}]})
    assert answer.json["rejected"]
    overview.locator("tr", has_text="no-event").get_by_text("rejected").wait_for()
    overview.get_by_role("link", name="no-event").click()
    expect(overview.locator(".line-of-time")).to_contain_text("event")
    expect(overview.locator(".line-of-time")).to_contain_text("never delivered")


def test_new_connections_appear(overview: Page, hookline: Hookline) -> None:
    """A destination made by API turns up without a reload, and its source in the list of sources."""
    overview.evaluate(MARK)
    hookline.api("POST", "sources", {"id": "shop", "name": "Web shop", "writeKeys": ["wk_shop"]})
    hookline.api("POST", "destinations", webhook("erp", "https://erp.example.com/x", sources=["shop"]))
    expect(overview.locator("#destinations tr", has_text="erp")).to_contain_text("shop")
    assert not was_reloaded(overview)
    overview.goto("/sources")
    expect(overview.locator("tr", has_text="Web shop")).to_contain_text("1 destination")


def test_charts_tell_numbers(overview: Page, hookline: Hookline) -> None:
    """Lines over the picked range with the newest numbers beside them, those under the pointer, and all in a table."""
    before = int(time.time()) // 60 * 60 - 3 * 3600  # when this service was not there, and so added nothing of its own
    slots = [TimeBucket(at=at, delivered=300, failures=20) for at in range(before, before + 360, 60)]
    store = SeriesStore(hookline.data / "insights.db")
    store.add_time_buckets(slots)
    store.close()
    overview.goto("/?range=24h")
    chart = overview.locator("[data-chart=events]")
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.locator(".legend")).to_contain_text("● delivered")
    chart.get_by_text("Show as table").click()
    expect(chart.locator("td", has_text="300").first).to_be_visible()
    chart.locator(".u-over").hover(position={"x": 20, "y": 40})
    expect(chart.locator(".legend")).to_contain_text("no data")
    overview.get_by_role("navigation", name="Range").get_by_text("7d").click()
    overview.wait_for_url("**/?range=7d")
    expect(overview.get_by_role("link", name="7d", exact=True)).to_have_attribute("aria-current", "true")
    assert overview.evaluate(CONTRAST) == []


def test_a_rotation_is_seen_until_its_overlap_ends(overview: Page, hookline: Hookline) -> None:
    """The destination's row says which old secret is still good and for how long, and no secret."""
    overview.evaluate(MARK)
    # Of no source: nobody answers there, and other tests wait until all receivers have what they were sent.
    pay = webhook("pay", "https://pay.example.com/x", sources=[], secret="the-old-secret")
    hookline.api("POST", "destinations", pay)
    card = overview.locator("#destinations tr", has_text="pay")
    expect(card).to_be_visible()
    secret = hookline.api("POST", "destinations/pay/rotate-secret", {"overlap": "36h"}).json["secret"]
    expect(card).to_contain_text("X-Signature: old secret ends in 1 day")
    assert overview.evaluate(CONTRAST) == []
    assert secret not in overview.content()
    hookline.api("POST", "destinations/pay/end-overlap", {})
    expect(card).not_to_contain_text("old secret")
    assert not was_reloaded(overview)


def test_lines_to_paste_have_tabs(overview: Page, hookline: Hookline) -> None:
    """The languages are one key press apart; each copies, and a picked tab survives the live update."""
    overview.context.grant_permissions(["clipboard-read", "clipboard-write"])
    overview.goto("/sources/site")
    source = overview.locator("[data-tabs]", has_text="Ruby")
    source.get_by_role("tab", name="curl").press("ArrowRight")
    panel = source.get_by_role("tabpanel", name="Python", exact=True)
    expect(panel).to_contain_text('analytics.init("wk_site"')
    overview.evaluate(NOTE_COPIED)
    panel.get_by_role("button", name="Copy").last.click()
    wait_until(lambda: overview.evaluate("window.saidCopied === true"), what="the button says Copied")
    assert "import hookline_client" in overview.evaluate("navigator.clipboard.readText()")
    before = hookline.api("GET", "sources/site").json["name"]
    hookline.api("PATCH", "sources/site", {"name": "Renamed"})
    expect(overview.get_by_role("heading", level=1)).to_have_text("Renamed")
    expect(source.get_by_role("tab", name="Python", exact=True)).to_have_attribute("aria-selected", "true")
    hookline.api("PATCH", "sources/site", {"name": before})


def test_tab_order_begins_with_the_way_to_the_content(overview: Page) -> None:
    """The first Tab is the skip link, and it skips."""
    overview.keyboard.press("Tab")
    expect(overview.get_by_role("link", name="Skip to content")).to_be_focused()
    overview.keyboard.press("Enter")
    expect(overview.locator("main")).to_be_focused()


class TestCounts:
    """On a service of its own, so that no other test's events are still being counted."""

    @pytest.fixture
    def hookline(self, tmp_path: Path, receiver: Receiver) -> Iterator[Hookline]:
        """A service that has seen nothing yet."""
        with Hookline(tmp_path / "h", [webhook("crm", receiver.url())]) as running:
            yield running

    def test_the_numbers_follow(self, overview: Page, hookline: Hookline) -> None:
        """Accepted and delivered count up while one looks."""
        names = [overview.get_by_text(name, exact=True) for name in ("Accepted", "Delivered")]
        stations = [overview.locator(".way li", has=name).locator(".count") for name in names]
        for total in (1, 2):
            hookline.track()
            for station in stations:
                expect(station).to_have_text(str(total))
        for role in ("collect", "deliver", "control"):
            expect(overview.locator(".roles li", has_text=role)).to_contain_text("running")

    def test_nothing_moves_while_a_link_is_pressed(self, overview: Page, hookline: Hookline) -> None:
        """Else what is new above moves it from under the pointer, and the link is not followed."""
        message_id = hookline.track("Pressed")
        link = overview.get_by_role("link", name="Pressed")
        count = overview.locator(".way li", has=overview.get_by_text("Accepted", exact=True)).locator(".count")
        expect(count).to_have_text("1")
        link.hover()
        overview.mouse.down()
        hookline.track()
        overview.wait_for_function(
            "fetch(location.href).then((answer) => answer.text()).then((text) => />2</.test(text))"
        )
        for _ in range(2):  # the first may have been under way
            with overview.expect_response(lambda answer: "x-parts" in answer.request.headers):
                pass
        expect(count).to_have_text("1")
        overview.mouse.up()
        expect(overview.locator("#message-id")).to_have_text(message_id)


class TestNothingYet:
    """Without any source."""

    @pytest.fixture
    def hookline(self, tmp_path: Path) -> Iterator[Hookline]:
        """A service without connections."""
        with Hookline(tmp_path / "h", sources=()) as running:
            yield running

    def test_each_step_leads_to_the_next(self, page: Page, hookline: Hookline, receiver: Receiver) -> None:
        """The page teaches to make a source, to connect a receiver, to send, and moves on by itself at each step."""
        sign_in(page, hookline)
        page.evaluate(MARK)
        expect(page.get_by_text("Waiting for the first source")).to_be_visible()
        expect(page.locator("#first-1")).to_contain_text("/api/v1/sources")
        hookline.api("POST", "sources", dict(SOURCE))
        expect(page.get_by_text("Waiting for a destination")).to_be_visible()
        expect(page.locator("#first-2")).to_contain_text(re.compile(r"hookline listen --data-dir .*/h/data$"))
        hookline.api("POST", "destinations", webhook("crm", receiver.url()))
        expect(page.get_by_text("Waiting for the first event")).to_be_visible()
        expect(page.locator("#first-3")).to_contain_text(f"http://127.0.0.1:{hookline.collect_port}/v1/track")
        assert page.evaluate(CONTRAST) == []
        hookline.track("At last")
        expect(page.locator("tr", has_text="At last").get_by_text("delivered")).to_be_visible()
        expect(page.get_by_text("First steps")).to_have_count(0)
        assert not was_reloaded(page)


class TestCable:
    """With a network that can be cut."""

    @pytest.fixture
    def cable(self, hookline: Hookline) -> Iterator[Cable]:
        """What the browser is connected through."""
        with Cable(hookline.control_port) as whole:
            yield whole

    @pytest.fixture
    def origin(self, cable: Cable) -> str:
        """The other end of the cable."""
        return f"http://127.0.0.1:{cable.port}"

    def test_an_interrupted_stream_says_so_and_catches_up(
        self, overview: Page, hookline: Hookline, cable: Cable
    ) -> None:
        """Without a connection the light says reconnecting; afterwards the page has what it missed."""
        light = overview.locator("#light")
        cable.cut()
        expect(light).to_have_text("reconnecting")
        hookline.track("Missed")
        cable.mend()
        expect(light).to_have_text("live")
        expect(overview.get_by_role("link", name="Missed")).to_be_visible()
