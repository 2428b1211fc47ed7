"""Every screen as a picture, to be looked at: light and dark, at 390, 1280 and 1920 pixels, empty, busy and on fire.

``make screens`` writes them to ``build/screens`` with ``index.html``, which shows them side by side, and one sheet of
small pictures for each state, width and theme. ``--quick`` takes two looks of the fire only; ``--only WORD`` takes the
screens whose name holds the word, or one of several (``setup,catalog``); ``--looks 390-dark,1920-light`` those looks.
``--times`` writes how long a browser takes until each screen can be used.
"""

from __future__ import annotations

import argparse
import html
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from hookline.features.destinations.pages.routes import TAB_TITLES
from tests.service.harness import Hookline, Receiver, Reply, free_port, wait_until, webhook
from tests.ui.browser import launch
from tests.ui.tour import NAMES as EVENT_NAMES
from tests.unit.api.route_needs import NEEDS

FOLDER = Path(__file__).parents[2] / "build" / "screens"
WIDTHS = {390: 844, 1280: 900, 1920: 1080}
"""Each with the height of such a screen."""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PICTURE_PIXELS_MAX = 2_400
"""A picture's height: what comes below says nothing new of a layout."""
SETTLE_MS = 250
SMALL_PIXELS = {390: 195, 1280: 427, 1920: 480}
SHEET_PIXELS = 2_200

SOURCES = [
    {"id": "website", "name": "Website", "type": "web", "writeKeys": ["wk_website"]},
    {"id": "shop", "name": "Shop backend, orders and payments", "type": "server", "writeKeys": ["wk_shop"]},
    {"id": "kutub", "name": "متجر الكتب", "type": "mobile", "writeKeys": ["wk_kutub"]},
]
KEYS = [str(source["writeKeys"][0]) for source in SOURCES]
LONG = ("Marketing automation of the northern region, second instance " * 4)[:200]
BATCH = 250

COLLECTIONS = {
    "/traits": "computed-traits",
    "/settings/versions": "versions",
    "/settings/people": "users",
    "/settings/tokens": "tokens",
    "/settings/audit-log": "audit-log",
}
"""Where the API lists what a page is of, where it is not named like the page."""
IDS = ("id", "messageId", "version", "number")
NO_SCREEN = {"/usage.csv", "/welcome", "/api/openapi.json", "/settings", "/healthz", "/readyz", "/metrics", "/login"}


class Shot(NamedTuple):
    """One screen; ``click`` names what is pressed before the picture, where it is there, and ``until`` what is fetched
    after the page and has to be there."""

    name: str
    path: str
    click: str = ""
    until: str = ""

    def is_wanted(self, words: str) -> bool:
        """Return whether the name holds one of the words; all screens are wanted when there is none."""
        return any(word in self.name for word in words.split(","))


def main() -> int:
    """Take the pictures."""
    asked = _arguments()
    if not asked.only and not asked.times:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        playwright = stack.enter_context(sync_playwright())
        browser = launch(playwright)
        taken: list[tuple[str, Shot]] = []
        for state, hookline in _states(asked.states, asked.events):
            context = browser.new_context(base_url=f"http://127.0.0.1:{hookline.control_port}", reduced_motion="reduce")
            page = context.new_page()
            page.goto("/login")
            taken += _take(page, state, Shot("login", "/login"), asked)
            page.locator("input[type=password]").fill(hookline.admin_token)
            page.get_by_role("button", name="Sign in").click()
            page.locator("#light[data-state=good]").wait_for()
            if asked.times:
                _write_times(page, state, [shot for shot in _shots(hookline, state) if shot.is_wanted(asked.only)])
            else:
                for shot in _shots(hookline, state):
                    taken += _take(page, state, shot, asked)
            context.close()
        if not asked.times:
            _write_index(taken)
            if not asked.only:
                _write_sheets(browser.new_page(), taken, asked)
        browser.close()
    print(f"{FOLDER / 'index.html'}: {len(list(FOLDER.glob('*.png')))} pictures")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="on fire only, 1280 light and 390 dark")
    parser.add_argument("--only", default="", help="screens whose name holds this word, or one of several with commas")
    parser.add_argument("--looks", default="", help="of 390-light,390-dark,1280-light and so on")
    parser.add_argument("--states", default="", help="of empty,busy,fire")
    parser.add_argument("--events", type=int, default=3_000, help="about how many, for --times (default: 3,000)")
    parser.add_argument("--times", action="store_true", help="no pictures: write how long each screen takes")
    asked = parser.parse_args()
    looks = [(width, theme) for width in WIDTHS for theme in THEMES]
    wanted = asked.looks.split(",") if asked.looks else ["1280-light", "390-dark"] if asked.quick else []
    asked.looks = [look for look in looks if not wanted or f"{look[0]}-{look[1]}" in wanted]
    asked.states = asked.states.split(",") if asked.states else ["fire"] if asked.quick else ["empty", "busy", "fire"]
    return asked


def _states(wanted: Sequence[str], events: int) -> Iterator[tuple[str, Hookline]]:
    """Yield a service in each state that is wanted, one after another."""
    with TemporaryDirectory() as folder:
        if "empty" in wanted:
            with Hookline(Path(folder) / "empty", sources=()) as hookline:
                yield "empty", hookline
        if {"busy", "fire"} & set(wanted):
            with Receiver() as receiver, Receiver() as slow, Receiver() as picky:
                slow.reply_with(200, delay_seconds=1.5)
                made = _destinations(receiver, slow, picky)
                with Hookline(Path(folder) / "busy", made, sources=SOURCES) as hookline:
                    _fill(hookline, events // BATCH)
                    if "busy" in wanted:
                        yield "busy", hookline
                    if "fire" in wanted:
                        _set_on_fire(hookline, picky)
                        yield "fire", hookline


def _destinations(receiver: Receiver, slow: Receiver, picky: Receiver) -> list[dict[str, Any]]:
    """One healthy, one whose port dies, one slow, one that will answer 422, one paused, one filtered; an API with a
    mapping of its own, and a service that is not enabled yet, so that nothing leaves this machine."""
    every = [str(source["id"]) for source in SOURCES]
    few = [{"if": 'type != "track"', "do": "drop"}, {"if": 'event = "Product Viewed"', "do": "sample", "percent": 10}]
    return [
        webhook("crm", receiver.url("/crm"), sources=every, secret="a-secret-of-this-sheet", name="Customer relations"),
        webhook("ledger", receiver.url("/ledger"), receiver.url("/standby"), sources=every, name="Ledger"),
        webhook("warehouse", slow.url("/load"), sources=["shop"], name="Data warehouse"),
        webhook("support", picky.url("/tickets"), sources=["shop", "kutub"], name="مكتب الدعم"),
        webhook("newsletter", receiver.url("/news"), sources=every, name="Newsletter"),
        webhook("marketing", receiver.url("/marketing"), sources=["website"], name=LONG, filters=few),
        {
            "id": "orders",
            "name": "Order service",
            "kind": "http",
            "sources": ["shop"],
            "settings": {"auth": {"type": "bearer", "token": "a-token-of-this-sheet"}, "variables": {"region": "eu"}},
            "mapping": _mapping(receiver),
        },
        {
            "id": "chat",
            "name": "Team chat",
            "kind": "slack",
            "sources": ["shop"],
            "enabled": False,
            "settings": {
                "webhookUrl": "https://hooks.slack.com/services/T000/B000/XXXX",
                "events": ["Order Completed"],
            },
        },
    ]


def _mapping(receiver: Receiver) -> list[dict[str, Any]]:
    """An order as a document under its own id, and people in batches."""
    order = {
        "order": {"@path": "$.properties.orderId"},
        "customer": {"@path": "$.userId"},
        "note": {"@template": "{{event}}, total {{properties.total}}"},
    }
    return [
        {
            "name": "Order",
            "if": 'type = "track" and event = "Order Completed"',
            "method": "PUT",
            "url": receiver.url("/{{settings.variables.region}}/orders/{{properties.orderId}}"),
            "headers": {"X-Request-Source": "hookline"},
            "body": order,
        },
        {
            "name": "Person",
            "if": 'type = "identify"',
            "url": receiver.url("/people"),
            "body": {"id": {"@path": "$.userId"}, "email": {"@path": "$.traits.email"}},
            "batch": {"size": 50, "wait": 2},
        },
    ]


def _fill(hookline: Hookline, batches: int) -> None:
    """Some thousand events of a shop, two audiences, a trait, somebody else, a token, a deletion, a replay."""
    spend = {"event": "Order Completed", "aggregate": "sum", "property": "properties.total", "within": "90d"}
    synced = {"destinations": ["crm"], "syncEvery": "5s"}
    trait = {"id": "total_spend", "name": "Total Spend", **spend, **synced}
    buyers: list[dict[str, Any]] = [
        {"event": "Order Completed", "count": {"gte": 2}, "within": "30d", "where": "properties.total >= 100"},
        {"any": [{"if": 'traits.plan = "pro"'}, {"if": "computed.total_spend > 500"}]},
    ]
    idle = {"event": "*", "never": True, "within": "10m"}
    _call(hookline, "PUT", "computed-traits/total_spend", trait)
    _call(hookline, "PUT", "audiences/big_spenders", _audience("big_spenders", "Big Spenders", {"all": buyers}, synced))
    _call(hookline, "PUT", "audiences/idle", _audience("idle", LONG[:120], idle, {"syncEvery": "5s"}))
    _call(hookline, "POST", "destinations/newsletter/pause", {"reason": "moving to another provider"})
    _call(hookline, "POST", "users", {"name": "ada@example.com"})
    _call(hookline, "POST", "tokens", {"name": "Deploy pipeline", "scope": "read"})
    for number in range(batches):
        _send(hookline, number)
    hookline.post("/v1/batch", {"batch": [{"type": "track", "userId": "u7"}, {"type": "track", "event": "x"}]}, KEYS[0])
    hookline.post("/v1/track", {"userId": "علي", "event": "تم الطلب بنجاح", "properties": {"المجموع": 120}}, KEYS[2])
    hookline.post("/v1/track", {"userId": LONG, "event": LONG, "properties": {LONG: LONG}}, KEYS[1])
    wait_until(lambda: hookline.metric("hookline_profiles_lag_events") == 0, 600, "people to be caught up")
    wait_until(lambda: hookline.api("GET", "audiences/big_spenders/syncs").json["items"], what="a first sync")
    _call(hookline, "POST", "deletion-requests", {"userIds": ["u3"], "action": "both"})
    _call(hookline, "POST", "replays", {"destination": "crm", "event": "Order Completed", "rate": 20})


def _audience(id: str, name: str, condition: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "name": name, "condition": condition, **more}


def _set_on_fire(hookline: Hookline, picky: Receiver) -> None:
    """The ledger's port dies, the help desk answers 422, and events keep coming."""
    dead = {"settings": {"webhooks": [{"url": f"http://127.0.0.1:{free_port()}/ledger"}]}}
    _call(hookline, "PATCH", "destinations/ledger", dead)
    # One 503 among the answers, and a cause that is the same but for its number.
    picky.respond = lambda request: (
        Reply(503, b"maintenance")
        if len(request.body) % 7 == 0
        else Reply(422, f'{{"error": "unknown field: coupon", "line": {len(request.body)}}}'.encode())
    )
    for number in range(6):
        _send(hookline, number)
    wait_until(lambda: len(hookline.api("GET", "dead-letters").json["items"]) > 20, what="dead letters")
    wait_until(lambda: hookline.api("GET", "destinations/ledger/attempts").json["items"], what="failed attempts")


def _send(hookline: Hookline, number: int) -> None:
    """One batch, each with other people and orders."""
    batch = [_event(number * BATCH + each) for each in range(BATCH)]
    answer = hookline.post("/v1/batch", {"batch": batch}, KEYS[number % len(KEYS)])
    assert answer.status == 200, answer


def _event(number: int) -> dict[str, Any]:
    user = f"u{number * 7 % 60}"
    if number % 9 == 0:
        traits = {"email": f"{user}@example.com", "name": f"Person {user}", "plan": ("free", "pro")[number % 2]}
        return {"type": "identify", "userId": user, "traits": traits}
    if number % 4 == 0:
        return {"type": "page", "userId": user, "name": "Product", "properties": {"path": f"/products/{number % 30}"}}
    properties = {"orderId": f"o-{number}", "total": number * 37 % 30_000 / 100, "items": number % 5}
    return {
        "type": "track",
        "userId": user,
        "event": EVENT_NAMES[number % len(EVENT_NAMES)],
        "properties": properties,
    }


def _call(hookline: Hookline, method: str, path: str, body: dict[str, Any]) -> None:
    answer = hookline.api(method, path, body)
    assert answer.status < 300, (path, answer)


def _shots(hookline: Hookline, state: str) -> Iterator[Shot]:
    """Every page from the table of routes, with what the service holds in place of parameters; then what opens."""
    pages = [route.removeprefix("GET ") for route, need in NEEDS.items() if route.startswith("GET ") and need != "open"]
    for path in pages:
        if not path.startswith("/api/v1") and path not in NO_SCREEN:
            yield from _shots_of(hookline, path, state)
    yield Shot("not-found", "/nonsense")
    yield Shot("docs", "/docs")
    yield Shot("docs-errors", "/docs/errors")
    for kind in ("http", "slack", "files", "postgres"):
        yield Shot(f"catalog-{kind}", f"/catalog/{kind}")
    yield Shot("drawer-open", "/", click="[data-drawer]")
    yield Shot("help-open", "/", click="[data-dialog=help]")
    yield Shot("deletion-dialog", "/deletion-requests", click="[data-dialog=new-deletion]")
    if state != "empty":
        for id in ("crm", "ledger", "warehouse", "support", "newsletter", "marketing"):
            yield Shot(f"destination-{id}", f"/destinations/{id}")
        for id in ("orders", "chat"):
            yield Shot(f"destination-{id}", f"/destinations/{id}")
            yield Shot(f"destination-{id}-mapping", f"/destinations/{id}/mapping", until=".previewed > *")
            yield Shot(f"destination-{id}-tester", f"/destinations/{id}/tester", until="[data-requests] .paste")
            yield Shot(f"destination-{id}-settings", f"/destinations/{id}/settings")
        yield Shot("setup-event", "/setup?source=website&step=event")
        yield Shot("setup-catalog", "/setup?source=website&step=catalog")
        yield Shot("setup-urls", "/setup?source=website&kind=webhook")
        yield Shot("setup-kind-http", "/setup?source=shop&kind=http", "request-preview button", ".previewed > *")
        yield Shot("setup-kind-slack", "/setup?source=shop&kind=slack")
        yield Shot("setup-kind-postgres", "/setup?source=shop&kind=postgres")
        yield Shot("setup-test", "/setup?source=website&destination=crm&step=test")
        yield Shot("events-nothing", "/events?event=Nobody+sends+this")


def _shots_of(hookline: Hookline, path: str, state: str) -> Iterator[Shot]:
    before, parameter, after = path.partition("/{")
    if not parameter:
        yield Shot(path.strip("/").replace("/", "-") or "overview", path)
        return
    id = _an_id(hookline, before, state)
    if not id:
        return
    rest = after.partition("}")[2]
    for tab in [tab for tab, _ in TAB_TITLES] if "{tab:str}" in rest else [""]:
        tail = rest.replace("{tab:str}", tab)
        yield Shot(f"{before.strip('/').replace('/', '-')}-one{tail.replace('/', '-')}", f"{before}/{id}{tail}")


def _an_id(hookline: Hookline, before: str, state: str) -> str:
    """Return one thing that this page can be of, empty where there is none."""
    if before == "/catalog":
        return "webhook"
    if before.startswith("/people/"):
        return "u7" if state != "empty" and before.endswith("user") else ""
    if before == "/destinations" and state != "empty":
        return "support" if state == "fire" else "crm"
    answer = hookline.api("GET", f"{COLLECTIONS.get(before, before.strip('/'))}?limit=1")
    items = answer.json.get("items", []) if answer.status == 200 else []
    found = next((items[0][key] for key in IDS if key in items[0]), "") if items else ""
    return quote(str(found), safe="")


def _take(page: Page, state: str, shot: Shot, asked: argparse.Namespace) -> list[tuple[str, Shot]]:
    """Take a screen's pictures; a width is loaded anew, a theme is not."""
    if asked.times or not shot.is_wanted(asked.only):
        return []
    for width in dict.fromkeys(width for width, _ in asked.looks):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.goto(shot.path)
        _settle(page)
        if shot.click and page.locator(shot.click).first.is_visible():
            page.locator(shot.click).first.click()
        if shot.until:
            page.locator(shot.until).first.wait_for()
        page.evaluate("window.scrollTo(0, 0)")  # a picture of a whole page shows its head where the page stands
        for theme in [theme for each, theme in asked.looks if each == width]:
            page.emulate_media(color_scheme=theme)
            page.wait_for_timeout(SETTLE_MS)
            high = min(PICTURE_PIXELS_MAX, page.evaluate("document.documentElement.scrollHeight"))
            is_dialog = page.locator("dialog[open], :popover-open").count() > 0
            clip = {"x": 0, "y": 0, "width": width, "height": WIDTHS[width] if is_dialog else high}
            page.screenshot(
                path=FOLDER / _file(state, shot, width, theme),
                full_page=not is_dialog,
                clip=clip,  # type: ignore[arg-type]
            )
    return [(state, shot)]


def _settle(page: Page) -> None:
    """Wait until the page is live, where it is one of those that are."""
    if page.locator("#light").count():
        page.locator("#light[data-state=good]").wait_for()
    page.wait_for_timeout(SETTLE_MS)


def _file(state: str, shot: Shot, width: int, theme: str) -> str:
    return f"{state}--{shot.name}--{width}--{theme}.png"


TIMES = """() => {
  const [entry] = performance.getEntriesByType('navigation');
  const paints = performance.getEntriesByType('paint').filter(each => each.name === 'first-contentful-paint');
  return [entry.responseStart, entry.domInteractive, entry.domContentLoadedEventEnd,
    paints.length ? paints[0].startTime : 0];
}"""
TIMES_EACH = 5


def _write_times(page: Page, state: str, shots: Sequence[Shot]) -> None:
    """Median of some loads: first byte, whole document, scripts done, first paint of content."""
    page.set_viewport_size({"width": 1280, "height": 900})
    print(f"{state}: median of {TIMES_EACH} loads, in ms from the click\n{'screen':34} byte  document  scripts  paint")
    for shot in shots:
        if shot.click:
            continue
        found = []
        for _ in range(TIMES_EACH):
            page.goto(shot.path)
            page.wait_for_timeout(50)
            found.append(page.evaluate(TIMES))
        byte, document, scripts, paint = (sorted(column)[TIMES_EACH // 2] for column in zip(*found, strict=True))
        print(f"{shot.name:34} {byte:4.0f} {document:9.0f} {scripts:8.0f} {paint:6.0f}")


STYLE = """
body { font: 14px system-ui, sans-serif; margin: 16px; background: #e9e9e6; color: #1b1d21; }
h2 { margin: 24px 0 8px; }
.line { display: flex; flex-wrap: wrap; gap: 12px; align-items: flex-start; }
figure { margin: 0; } figcaption { font-size: 12px; padding-bottom: 2px; }
img { display: block; border: 1px solid #999; max-height: 640px; object-fit: cover; object-position: top; }
"""


def _picture(file: str, width: int, caption: str) -> str:
    text = html.escape(caption)
    image = f'<img src="{file}" width="{SMALL_PIXELS[width]}" alt="{text}" loading="lazy">'
    return f'<figure><figcaption>{text}</figcaption><a href="{file}">{image}</a></figure>'


def _write_index(taken: Sequence[tuple[str, Shot]]) -> None:
    """All pictures that lie there, screen by screen."""
    lines = [f"<!doctype html><meta charset=utf-8><title>Screens</title><style>{STYLE}</style><h1>Screens</h1>"]
    for name in sorted({path.name.split("--")[1] for path in FOLDER.glob("*--*.png")}):
        lines.append(f"<h2>{html.escape(name)}</h2>")
        for state in ("empty", "busy", "fire"):
            looks = [(width, theme) for width in WIDTHS for theme in THEMES]
            files = [(_file(state, Shot(name, ""), width, theme), width, theme) for width, theme in looks]
            found = [_picture(f, w, f"{state} {w} {t}") for f, w, t in files if (FOLDER / f).exists()]
            if found:
                lines.append(f'<div class="line">{"".join(found)}</div>')
    (FOLDER / "index.html").write_text("\n".join(lines), encoding="utf-8")


def _write_sheets(page: Page, taken: Sequence[tuple[str, Shot]], asked: argparse.Namespace) -> None:
    """One picture of all small ones for each state, width and theme."""
    page.set_viewport_size({"width": SHEET_PIXELS, "height": 1_200})
    sheet = FOLDER / "sheet.html"
    for state in asked.states:
        for width, theme in asked.looks:
            shots = [shot for each, shot in taken if each == state]
            pictures = [_picture(_file(state, shot, width, theme), width, shot.name) for shot in shots]
            body = f'<style>{STYLE}</style><div class="line">{"".join(pictures)}</div>'.replace(' loading="lazy"', "")
            sheet.write_text(f"<!doctype html><meta charset=utf-8>{body}", encoding="utf-8")
            page.goto(sheet.as_uri())
            page.screenshot(path=FOLDER / f"sheet-{state}-{width}-{theme}.png", full_page=True)
    sheet.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
