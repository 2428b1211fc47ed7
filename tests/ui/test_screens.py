"""Every page on a desk and on a phone, light and dark: nothing sticks out, everybody can use it, and it is light.

``--pictures`` leaves one of each in ``build/screens``, to be looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Response, expect

from hookline.control.pages import RAIL
from hookline.features.destinations.pages.routes import TAB_TITLES
from tests.service.harness import Hookline, Receiver, wait_until, webhook
from tests.ui.conftest import CONTRAST, sign_in
from tests.unit.api.route_needs import NEEDS

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "build/screens"
AXE = ROOT / "build/sdks/node_modules/axe-core/axe.min.js"
RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"
BARRIERS = f"axe.run(document, {{runOnly: {RULES}, rules: {{'color-contrast': {{enabled: false}}}}}})"
BARRIERS += ".then(found => found.violations.map(each => each.id + ': ' +"
BARRIERS += " each.nodes.map(node => node.html.slice(0, 100)).join(' | ')))"
"""Lists what axe finds. Contrast, a third of its time, is left to ``CONTRAST``, which is stricter about large text."""

FIRST_PAGE_BYTES_MAX = 150 * 1024
LONG = "A name without an end " * 9
WORD = "Unbreakable" * 18

Look = Callable[[Page, str], list[str]]
SCREENS = (("light", 1280), ("dark", 390))
UNKNOWN = ("/events/nope", "/sources/nope")
MAPPED = (
    "/catalog/http",
    "/setup?source=long&kind=http",
    "/destinations/mapped/mapping",
    "/destinations/mapped/settings",
    "/destinations/mapped/tester",
)
"""Pages that are others for a kind that makes requests of its own."""
NO_SCREEN = {"/usage.csv", "/welcome", "/api/openapi.json"}
NAMES = {
    "/events": WORD,
    "/sources": "long",
    "/destinations": "long",
    "/catalog": "webhook",
    "/settings/versions": "1",
    "/settings/notifications": "long",
    "/settings/people": "u1",
    "/settings/tokens": "t1",
    "/settings/audit-log": "a1",
    "/dead-letters": "1",
    "/issues": "0123456789abcdef",
    "/replays": "1",
    "/deletion-requests": "dr1",
    "/people/user": WORD,
    "/people/anonymous": WORD,
    "/audiences": "long",
    "/traits": "long",
}
"""What stands for the parameter of a page, by what stands before it."""


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver) -> Iterator[Hookline]:
    """A service of these tests' own: what they fill it with would be in the way of others."""
    with Hookline(tmp_path_factory.mktemp("screens") / "h", [webhook("crm", shared_receiver.url())]) as running:
        fill(running)
        yield running


def fill(hookline: Hookline) -> None:
    """Long names everywhere, right-to-left text, a rejected item, somebody else, a token."""
    hookline.api("POST", "users", {"name": f"{WORD[:180]}@example.com"})
    hookline.api("POST", "tokens", {"name": LONG[:100], "scope": "read"})
    hookline.api("PUT", "sources/long", {"id": "long", "name": WORD, "writeKeys": ["wk_" + "x" * 150]})
    hookline.api("PUT", "destinations/long", webhook("long", f"https://{'a' * 60}.example/{WORD}", name=LONG[:200]))
    mapped = {"id": "mapped", "name": LONG[:200], "kind": "http", "sources": ["long", "site"]}
    mapped |= {"settings": {"secrets": {WORD[:90]: WORD}, "variables": {WORD[:90]: "تم"}, "auth": {"type": "basic"}}}
    mapped["settings"]["auth"] |= {"username": WORD, "password": WORD}  # type: ignore[index]
    long_request = {"name": WORD[:100], "url": f"https://{'a' * 60}.example/{WORD}", "headers": {"X-Long": WORD}}
    long_request |= {
        "query": {WORD: WORD},
        "body": {WORD: {"@template": f"{WORD} {{{{{WORD}}}}}"}},
        "batch": {"size": 2},
    }
    made = hookline.api(
        "PUT", "destinations/mapped", {**mapped, "mapping": [long_request, {**long_request, "name": "b"}]}
    )
    assert made.status == 201, made.text
    hookline.track("تم الطلب بنجاح", userId="علي")
    hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u"}]})
    hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u"}]}, key="wk_" + "x" * 150)
    hookline.track(WORD, userId=WORD, messageId=WORD, properties={WORD: WORD * 5})
    hookline.track(WORD, userId="", anonymousId=WORD)
    hookline.track("تم الحذف", userId="gone")
    long_event = {"event": WORD, "where": f'properties.{WORD} = "{WORD}"'}
    hookline.api("PUT", "computed-traits/long", {"id": "long", "name": WORD[:180], "aggregate": "count", **long_event})
    clauses = [
        {**long_event, "within": "30d"},
        {"not": {"any": [{"if": f'traits.{WORD} = "{WORD}"'}]}},
        {"if": "computed.long > 1"},
    ]
    hookline.api(
        "PUT",
        "audiences/long",
        {"id": "long", "name": LONG[:200], "destinations": ["long"], "condition": {"all": clauses}},
    )
    rule = {"when": ["destination_failing"], "destinations": ["long"], "threshold": {"for": "5m", "failedShare": 0.25}}
    quiet = {"from": "22:00", "to": "07:00", "timeZone": "America/Argentina/ComodRivadavia", "except": ["critical"]}
    to = [{"email": [f"{'a' * 60}@{'b' * 60}.example"]}, {"webhook": {"url": f"https://x.example/{WORD}"}}]
    rule |= {"id": "long", "name": WORD[:180], "to": to, "quietHours": quiet, "remindEvery": "4h"}
    assert hookline.api("PUT", "notifications/long", rule).status == 201
    hookline.api("POST", "notifications/long/test")
    wait_until(lambda: hookline.api("GET", "audiences/long/syncs").json["items"], what="its first sync")
    hookline.api("POST", "deletion-requests", {"userIds": ["gone", "nobody"], "action": "both"})


def paths() -> list[str]:
    """Every page behind the sign-in, from the table of routes, with names in place of its parameters."""
    pages = [route.removeprefix("GET ") for route, need in NEEDS.items() if route.startswith("GET ") and need != "open"]
    shown = [path for path in pages if not path.startswith("/api/v1") and path not in NO_SCREEN]
    return [filled(each) for path in shown for each in with_tabs(path)]


def with_tabs(path: str) -> list[str]:
    """A page that has its tab as a parameter, once for each."""
    return [path.replace("{tab:str}", tab) for tab, _ in TAB_TITLES] if "{tab:str}" in path else [path]


def filled(path: str) -> str:
    """A page's address; a new parameter has to be named here."""
    before, parameter, after = path.partition("/{")
    return f"{before}/{quote(NAMES[before], safe='')}{after.partition('}')[2]}" if parameter else path


def sticks_out(page: Page) -> bool:
    """Whether the page can be scrolled sideways."""
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth") is True


@pytest.fixture
def problems_of(pytestconfig: pytest.Config) -> Look:
    """Look at a page, and take pictures of it if that is wanted."""
    return partial(look, pictures=pytestconfig.getoption("--pictures", default=False))


def on_screens(page: Page) -> Iterator[str]:
    """Show the open page in every size and theme, and name each; it stays in the last one, on a phone."""
    for scheme, width in SCREENS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        yield f"{width}-{scheme}"


def misfits(page: Page) -> list[str]:
    """Return what sticks out of the page as it stands, and what is hard to read."""
    return [*(["sticks out"] if sticks_out(page) else []), *page.evaluate(CONTRAST)]


def look(page: Page, name: str, pictures: bool) -> list[str]:
    """Look at the open page in every size and theme."""
    found = []
    page.evaluate(AXE.read_text())
    for screen in on_screens(page):
        if pictures:
            page.screenshot(path=PICTURES / f"{name}-{screen}.png", full_page=True)
        found += [f"{name} {screen}: {text}" for text in [*misfits(page), *page.evaluate(BARRIERS)]]
    return found


def barriers(page: Page) -> list[str]:
    """Return what is in the way of people on the page as it stands: text that is hard to read, and what axe finds."""
    page.evaluate(AXE.read_text())
    return [*page.evaluate(CONTRAST), *page.evaluate(BARRIERS)]


PARTS = 4
"""Of all pages, that are looked at in turn."""


def named(path: str) -> str:
    """The file name of a page's pictures."""
    return path.replace(WORD, "event").strip("/").replace("/", "-").replace("?", "-") or "overview"


@pytest.mark.parametrize("part", range(PARTS))
def test_everybody_can_use_every_page(page: Page, hookline: Hookline, problems_of: Look, part: int) -> None:
    """With long names and everything unfolded: no sideways scrolling, contrast AA, and axe finds no barrier."""
    found: list[str] = []
    if part == 0:
        page.goto("/login")
        found += problems_of(page, "login")
    page.set_viewport_size({"width": 1280, "height": 900})
    sign_in(page, hookline)
    for path in [*paths(), *MAPPED, *UNKNOWN][part::PARTS]:
        page.goto(path)
        page.locator("#light[data-state=good]").wait_for()
        page.evaluate("document.querySelectorAll('main details').forEach(each => { each.open = true; })")
        found += problems_of(page, named(path))
    assert "\n".join(found) == ""


def test_the_first_page_is_light(page: Page, hookline: Hookline) -> None:
    """All that the overview loads, as it goes over the wire, charts and live parts included."""
    sign_in(page, hookline)
    loaded: list[Response] = []
    page.on("response", lambda response: loaded.append(response))
    page.goto("/")
    expect(page.locator("canvas").first).to_be_visible()
    page.locator("#light[data-state=good]").wait_for()
    finished = [response for response in loaded if "/events/stream" not in response.url]
    assert sum(response.request.sizes()["responseBodySize"] for response in finished) <= FIRST_PAGE_BYTES_MAX


@pytest.mark.parametrize("screen", [(390, "light")])
def test_a_phone_has_room_for_fingers(overview: Page) -> None:
    """The navigation's targets are at least 44 pixels both ways."""
    overview.get_by_role("button", name="Menu").click()
    boxes = [link.bounding_box() for link in overview.locator(".rail li a").all()]
    assert len(boxes) == len(RAIL)
    assert all(box and box["width"] >= 44 and box["height"] >= 44 for box in boxes)


class TestNothingYet:
    """Before anything was set up."""

    @pytest.fixture
    def hookline(self, tmp_path: Path) -> Iterator[Hookline]:
        """A service without connections."""
        with Hookline(tmp_path / "h", sources=()) as running:
            yield running

    def test_pages_without_anything_to_show_fit_too(self, page: Page, hookline: Hookline, problems_of: Look) -> None:
        """They teach, within the page, and can be read."""
        sign_in(page, hookline)
        found = []
        for stop in RAIL:
            page.goto(stop.href)
            page.locator("#light[data-state=good]").wait_for()
            found += problems_of(page, f"empty-{named(stop.href)}")
        assert "\n".join(found) == ""
