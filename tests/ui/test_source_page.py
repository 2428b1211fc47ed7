"""The page of a source, and what its lines do in somebody's web page: everything comes from here, and goes here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.conftest import CONTRAST, WAIT_MS, sign_in


@pytest.mark.parametrize("screen", [(1280, "dark"), (390, "light")])
def test_it_has_lines_for_every_sdk(overview: Page, hookline: Hookline) -> None:
    """From the list by its name: key, state, three rows of tabs for arrow keys; nothing sticks out."""
    overview.goto("/sources")
    overview.locator('main a[href="/sources/site"]').click()
    expect(overview.locator("code", has_text="wk_site").first).to_be_visible()
    expect(overview.get_by_role("tablist")).to_have_count(3)
    expect(overview.get_by_role("tab")).to_have_count(15)
    overview.get_by_role("tab", name="React Native").click()
    expect(overview.get_by_role("tabpanel", name="React Native")).to_contain_text("allowInsecureProxy")
    overview.get_by_role("tab", name="curl").press("ArrowRight")
    expect(overview.get_by_role("tabpanel", name="Python")).to_contain_text(f"127.0.0.1:{hookline.collect_port}")
    width = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert overview.evaluate(width) is False
    assert overview.evaluate(CONTRAST) == []


def test_it_tells_when_the_source_was_heard(overview: Page, hookline: Hookline) -> None:
    """It waits for a first event, says when one came and where they go, and keeps the picked tabs meanwhile."""
    source = {"id": "quiet", "name": "Quiet", "type": "mobile", "writeKeys": ["wk_quiet"]}
    overview.goto("/sources/quiet")
    expect(overview.get_by_role("heading", name="There is no source with this id")).to_be_visible()
    hookline.api("PUT", "sources/quiet", source)
    expect(overview.get_by_text("Waiting for an event…")).to_be_visible()
    expect(overview.get_by_role("heading", level=2).first).to_have_text("In an app")
    overview.get_by_role("tab", name="Android").click()
    hookline.api("PUT", "destinations/far", webhook("far", "https://far.example/", sources=["quiet"]))
    assert hookline.post("/v1/track", {"userId": "u", "event": "e"}, key="wk_quiet").status == 200
    expect(overview.locator(".standing").locator("time")).to_be_visible()
    expect(overview.locator(".feeds")).to_contain_text("far")
    expect(overview.get_by_role("tab", name="Android")).to_have_attribute("aria-selected", "true")


def test_it_offers_to_take_the_batches_of_rudderstack(overview: Page, hookline: Hookline) -> None:
    """One button sets what its SDKs send, the settings show it, and the offer is gone."""
    overview.goto("/sources/site")
    overview.get_by_role("tab", name="RudderStack JS").click()
    overview.get_by_role("button", name="Accept larger batches").click()
    wait_until(lambda: hookline.api("GET", "sources/site").json["batchBytes"] == 4_194_304)
    overview.goto("/sources/site/settings")
    expect(overview.get_by_label("Largest batch")).to_have_value("4194304")
    overview.goto("/sources/site")
    expect(overview.get_by_role("tab", name="RudderStack JS")).to_be_visible()
    expect(overview.get_by_role("button", name="Accept larger batches")).to_have_count(0)
    hookline.api("PATCH", "sources/site", {"batchBytes": 512_000})


def test_it_needs_a_session(page: Page) -> None:
    """Signed out, the page leads to the form and its parts are refused."""
    page.goto("/sources/site")
    expect(page.locator("#password")).to_be_visible()
    assert page.request.get("/sources/site", headers={"X-Parts": "1"}).status == 401


class Shop:
    """Somebody's web page in a browser of its own, with these lines in its head; ``asked`` is all that it asked for."""

    def __init__(self, context: BrowserContext, server: Receiver, lines: str) -> None:
        self.asked: list[str] = []
        self.url = f"http://localhost:{server.port}/"
        html = f"<!doctype html><html><head>{lines}</head><body>Shop</body></html>"
        server.reply_with(200, body=html.encode(), headers={"Content-Type": "text/html"})
        context.on("request", lambda request: self.asked.append(request.url))
        self.page = context.new_page()
        self.page.set_default_timeout(WAIT_MS)
        self.page.goto(f"{self.url}?ajs_event=From+the+address")

    def has_asked(self, part: str) -> bool:
        """Whether such a URL was asked for; the browser is heard only while it is waited for."""
        self.page.wait_for_timeout(50)
        return any(part in url for url in self.asked)

    def strangers(self, hookline: Hookline) -> list[str]:
        """The requests that went neither to the shop nor to Hookline."""
        self.page.wait_for_timeout(50)
        ours = (self.url, f"http://127.0.0.1:{hookline.collect_port}/")
        return [url for url in self.asked if not url.startswith(ours)]


@pytest.fixture
def shop(browser: Browser) -> Iterator[Callable[[str], Shop]]:
    """Open web pages with lines in their heads."""
    contexts: list[BrowserContext] = []

    with Receiver() as server:

        def open_shop(lines: str) -> Shop:
            contexts.append(browser.new_context())
            return Shop(contexts[-1], server, lines)

        yield open_shop
        for context in contexts:
            context.close()


def lines_of(page: Page, hookline: Hookline, id: str) -> str:
    """The lines as the page of the source shows them."""
    sign_in(page, hookline)
    page.goto("/sources/site")
    return page.locator(f"#snippet-site-{id}").text_content() or ""


def test_a_web_page_needs_nothing_from_elsewhere(
    page: Page, hookline: Hookline, receiver: Receiver, shop: Callable[[str], Shop]
) -> None:
    """Script, settings, a bundle and events are all asked of Hookline; page view, address event and call arrive."""
    opened = shop(lines_of(page, hookline, "browser"))
    opened.page.evaluate("analytics.track('Bought', {total: 7})")

    def events() -> set[str]:
        bodies = [request.json for request in receiver.requests]
        return {body.get("event", body["type"]) for body in bodies if opened.url in str(body.get("context"))}

    wait_until(lambda: events() >= {"Bought", "page", "From the address"}, what="the shop's three events")
    wait_until(lambda: opened.has_asked("/analytics-next/bundles/queryString"), what="the bundle's request")
    assert opened.strangers(hookline) == []


def test_when_settings_fail_nobody_else_is_told(page: Page, hookline: Hookline, shop: Callable[[str], Shop]) -> None:
    """The SDK reports that it could not start, which unchanged it would tell Segment; it tells only this server."""
    lines = lines_of(page, hookline, "browser").replace('"wk_site"', '"wk_gone"')
    opened = shop(lines)
    telemetry = f"https://127.0.0.1:{hookline.collect_port}/v1/m"
    wait_until(lambda: opened.has_asked(telemetry), what="the SDK's report")
    assert set(opened.strangers(hookline)) == {telemetry}


def test_a_pixel_is_an_event(page: Page, hookline: Hookline, receiver: Receiver, shop: Callable[[str], Shop]) -> None:
    """Looked at, it is a picture and its event arrives."""
    opened = shop("</head><body>" + lines_of(page, hookline, "pixel"))
    assert opened.page.evaluate("document.images[0].decode().then(() => document.images[0].naturalWidth)") == 1
    wait_until(lambda: any(r.json.get("event") == "Email Opened" for r in receiver.requests), what="its event")
    assert opened.strangers(hookline) == []
