"""A visit of a real browser to a page that uses an SDK, and everybody it spoke to meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, Request

from tests.ui import browser as shown_in

WAIT_MS = 120_000
LATER_MS = 10 * 60 * 1000
"""So much later nothing may be left to send: past every timer of an SDK."""


@dataclass
class Visit:
    """What the browser saw."""

    hosts: set[str] = field(default_factory=set)
    """Where its requests went, ``host:port``."""
    problems: list[str] = field(default_factory=list)
    """Errors of the page's scripts."""
    unanswered: int = 0
    """Requests that it waits for."""


def launch(playwright: Playwright) -> Browser:
    """A browser that finds no host but this machine."""
    return shown_in.launch(playwright, 4 * WAIT_MS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


def visit(browser: Browser, url: str, all_told: Callable[[], bool], told_when_left: bool, behind: timedelta) -> Visit:
    """Open the page, let it send what it was told, let a long time pass, and leave it; its clock is ``behind``."""
    context = browser.new_context()
    seen = Visit()
    _watch(context, seen)
    page = context.new_page()
    page.clock.install(time=datetime.now(UTC) - behind)
    page.goto(url)
    page.wait_for_function("window.saidAll")
    if not told_when_left:
        _wait_answered(page, seen, all_told)
        page.clock.fast_forward(LATER_MS)
    page.goto("about:blank")
    _wait_answered(page, seen, all_told)
    context.close()
    return seen


def _watch(context: BrowserContext, seen: Visit) -> None:
    def asks(request: Request) -> None:
        seen.hosts.add(urlsplit(request.url).netloc)
        seen.unanswered += 1

    def is_answered(_: Request) -> None:
        seen.unanswered -= 1

    context.set_default_timeout(WAIT_MS)
    context.on("request", asks)
    context.on("requestfinished", is_answered)
    context.on("requestfailed", is_answered)
    context.on("weberror", lambda error: seen.problems.append(str(error.error)))


def _wait_answered(page: Page, seen: Visit, all_told: Callable[[], bool]) -> None:
    _wait(page, all_told)
    page.evaluate("0")  # what was asked by now is known here behind it, and is not taken for answered
    _wait(page, lambda: seen.unanswered == 0)
    page.evaluate("0")  # the page's scripts have had the answers, too


def _wait(page: Page, condition: Callable[[], bool]) -> None:
    # Not by sleeping: Playwright hears of requests only while it waits itself.
    waited = 0
    while not condition():
        assert waited < WAIT_MS, "the page did not send all it was told"
        page.wait_for_timeout(20)
        waited += 20
