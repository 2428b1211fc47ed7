"""A real browser on a real service; every test ends with the proof that nothing foreign ran or was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.browser import launch

WAIT_MS = 120_000
"""A bound that only a failure reaches, on a slow and busy machine too."""

expect.set_options(timeout=WAIT_MS)

_sessions: dict[int, list[Any]] = {}
"""The cookies of who signed in last, by the port of control."""

# Runs before the page's own scripts, outside its policy: tells what the policy had to stop.
WATCH_POLICY = "addEventListener('securitypolicyviolation', e => stoppedByPolicy(e.violatedDirective));"

# WCAG 2 contrast of every visible text against what is behind it.
CONTRAST = """() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  for (const e of document.querySelectorAll('body *')) {
    const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent.trim()).join('');
    if (!text || !e.checkVisibility()) continue;
    const [a, b] = [lum(parse(getComputedStyle(e).color)), lum(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(`${text.slice(0, 40)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return bad;
}"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/ui --pictures``: for eyes, which see what no rule says."""
    parser.addoption("--pictures", action="store_true", help="leave a picture of every page in build/screens")


class Watched:
    """What went wrong on a page, from outside."""

    def __init__(self, context: BrowserContext, origin: str) -> None:
        self.problems: list[str] = []
        self._origin = origin
        context.expose_function("stoppedByPolicy", lambda what: self.problems.append(f"the policy stopped {what}"))
        context.add_init_script(WATCH_POLICY)
        context.on("page", self._watch)

    def _watch(self, page: Page) -> None:
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.problems.append(f"script error: {error}"))
        page.on("dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._request(request.url))
        page.on("console", lambda message: self._console(message.text))

    def _request(self, url: str) -> None:
        if not url.startswith(self._origin + "/"):
            self.problems.append(f"foreign request: {url}")

    def _console(self, text: str) -> None:
        if "Content Security Policy" in text or "Refused to" in text:
            self.problems.append(f"policy: {text}")


# Not for the whole session: while Playwright runs, no other test in this process can run an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One browser, whose profiles are each test's own."""
    with sync_playwright() as playwright:
        running = launch(playwright, WAIT_MS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def shared_receiver() -> Iterator[Receiver]:
    """The receiver of the shared service."""
    with Receiver() as running:
        yield running


@pytest.fixture(scope="session")
def shared_hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """One service for the tests that do not mind what others sent: starting one takes a second."""
    folder, settings = tmp_path_factory.mktemp("ui") / "h", {"deliver.retry_max": "1s"}
    with Hookline(folder, [webhook("crm", shared_receiver.url())], settings=settings) as running:
        running.track("Before anybody looked")
        yield running


@pytest.fixture
def receiver(shared_receiver: Receiver) -> Receiver:
    """A healthy receiver."""
    shared_receiver.reply_with(200)
    return shared_receiver


@pytest.fixture
def hookline(shared_hookline: Hookline, receiver: Receiver) -> Hookline:
    """A service with one source and one healthy destination."""
    return shared_hookline


@pytest.fixture
def origin(hookline: Hookline) -> str:
    """Where the browser finds the pages."""
    return f"http://127.0.0.1:{hookline.control_port}"


@pytest.fixture
def screen() -> tuple[int, str]:
    """Width and colour scheme; tests may parametrise it."""
    return 1280, "light"


@pytest.fixture
def page(browser: Browser, origin: str, screen: tuple[int, Any]) -> Iterator[Page]:
    """A page of a fresh browser profile, signed out."""
    context = browser.new_context(
        base_url=origin,
        viewport={"width": screen[0], "height": 900},
        color_scheme=screen[1],
        reduced_motion="reduce",
    )
    watched = Watched(context, origin)
    opened = context.new_page()
    yield opened
    opened.wait_for_load_state()  # a test may end with a click that leads elsewhere
    context.close()
    assert watched.problems == []


@pytest.fixture
def overview(page: Page, hookline: Hookline) -> Page:
    """The first page, signed in and live."""
    sign_in(page, hookline)
    return page


def sign_in(page: Page, hookline: Hookline) -> None:
    """Give the token, unless an earlier test's session still holds, and wait until the page is live."""
    page.context.add_cookies(_sessions.get(hookline.control_port, []))
    page.goto("/")
    if (password := page.locator("#password")).is_visible():
        password.fill(hookline.admin_token)
        page.get_by_role("button", name="Sign in").click()
    page.locator("#light[data-state=good]").wait_for()
    _sessions[hookline.control_port] = page.context.cookies()


def wait_for_key(hookline: Hookline, key: str) -> None:
    """Wait until the edge has heard of a write key, without sending an event."""
    wait_until(lambda: hookline.post("/v1/batch", {"batch": []}, key=key).status != 401, what=f"{key} to be known")


@contextmanager
def viewing(browser: Browser, hookline: Hookline, origin: str) -> Iterator[Page]:
    """A page of somebody who was invited as a viewer."""
    invited = hookline.api("POST", "users", {"name": f"viewer-{uuid4().hex[:8]}", "role": "viewer"}).json
    context = browser.new_context(base_url=origin)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(invited["link"])
    page.get_by_label("Password").fill("correct horse battery staple 7")
    page.get_by_role("button", name="Join").click()
    page.locator("#light[data-state=good]").wait_for()
    yield page
    context.close()
