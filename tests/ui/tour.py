"""The tour: starts a service, lets 45 seconds of events through it, and takes pictures of its pages.

``make tour`` writes ``docs/tour.md`` and the pictures beside it anew; nothing in them is drawn by hand.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.service.harness import Hookline, Receiver, webhook
from tests.service.receiver import Reply, Request
from tests.ui.browser import launch
from tests.ui.tour_stops import Stop, stops

FOLDER = Path(__file__).parents[2] / "docs" / "tour"
SECONDS = 45.0
EVENTS_PER_SECOND = 12
VIEW = {"width": 1280, "height": 800}
SETTLE_MS = 1_500

SOURCES = [
    {"id": "website", "name": "Website", "type": "web", "writeKeys": ["wk_website"]},
    {"id": "shop", "name": "Shop backend", "type": "server", "writeKeys": ["wk_shop"]},
    {"id": "app", "name": "Mobile app", "type": "mobile", "writeKeys": ["wk_app"]},
]
NAMES = ("Product Viewed", "Product Added", "Checkout Started", "Order Completed", "Signed Up", "Coupon Applied")
FIRST_NAMES = ("Ada", "Grace", "Olga", "Kofi", "Mei", "Zora", "Ravi", "Lena")
LAST_NAMES = ("Lovelace", "Hopper", "Okafor", "Tanaka", "Silva")


def main() -> int:
    """Take the tour."""
    with ExitStack() as stack:
        receiver, sick = stack.enter_context(Receiver()), stack.enter_context(Receiver())
        folder = Path(stack.enter_context(TemporaryDirectory()))
        hookline = stack.enter_context(Hookline(folder / "h", _destinations(receiver, sick), sources=SOURCES))
        _define(hookline)
        where = _live(hookline, receiver, sick)
        playwright = stack.enter_context(sync_playwright())
        browser = launch(playwright)
        origin = f"http://127.0.0.1:{hookline.control_port}"
        page = browser.new_context(base_url=origin, viewport=VIEW, color_scheme="light").new_page()  # type: ignore[arg-type]
        page.goto("/login")
        page.locator("input[type=password]").fill(hookline.admin_token)
        page.get_by_role("button", name="Sign in").click()
        page.locator("#light[data-state=good]").wait_for()
        _take(page, stops(*where))
        browser.close()
    return 0


def _destinations(receiver: Receiver, sick: Receiver) -> list[dict[str, Any]]:
    every = [str(source["id"]) for source in SOURCES]
    heartbeat = {"if": 'type = "page"', "do": "sample", "percent": 10}
    made = [
        webhook("crm", receiver.url("/crm"), sources=every, secret="a-secret-of-the-tour", filters=[heartbeat]),
        webhook("warehouse", receiver.url("/warehouse"), receiver.url("/standby"), sources=every),
        webhook("support", sick.url("/tickets"), sources=["shop", "app"]),
        webhook("newsletter", receiver.url("/newsletter"), sources=["website"]),
    ]
    names = ("Customer relations", "Data warehouse", "Support desk", "Newsletter")
    return [{**destination, "name": name} for destination, name in zip(made, names, strict=True)]


def _define(hookline: Hookline) -> None:
    """Two audiences and what they ask for."""
    spend = {"event": "Order Completed", "aggregate": "sum", "property": "properties.total", "within": "90d"}
    told = {"destinations": ["crm"], "syncEvery": "5s"}
    hookline.api("PUT", "computed-traits/total_spend", {"id": "total_spend", "name": "Total Spend", **spend, **told})
    idle = {"event": "*", "never": True, "within": "10m"}
    hookline.api("PUT", "audiences/idle", {"id": "idle", "name": "Idle", "condition": idle, "syncEvery": "5s"})
    clauses = [
        {"event": "Order Completed", "count": {"gte": 2}, "within": "30d", "where": "properties.total >= 100"},
        {"any": [{"if": 'traits.plan = "pro"'}, {"if": "computed.total_spend > 500"}]},
        {"not": {"audience": "idle"}},
    ]
    buyers = {"id": "big_spenders", "name": "Big Spenders", "condition": {"all": clauses}, **told}
    hookline.api("PUT", "audiences/big_spenders", buyers)


def _live(hookline: Hookline, receiver: Receiver, sick: Receiver) -> tuple[str, str, str]:
    """Half a minute of a small shop; return an event, a dead letter and a replay to look at."""
    picked = random.Random(7)
    receiver.respond = lambda request: Reply(delay_seconds=picked.choice((0.01, 0.02, 0.05)))
    sick.respond = _support
    event = ""
    for tick in range(int(SECONDS)):
        for _ in range(picked.randrange(EVENTS_PER_SECOND // 2, 2 * EVENTS_PER_SECOND)):
            source = picked.choice(SOURCES)
            body = _call(picked)
            answer = hookline.post(f"/v1/{body['type']}", body, key=source["writeKeys"][0])
            if body.get("event") == "Order Completed" and source["id"] == "shop":
                event = answer.json["messageId"]
        if tick % 9 == 0:
            hookline.post(
                "/v1/batch", {"batch": [{"type": "track", "userId": "u7"}, {"type": "track", "event": "x"}]}, "wk_app"
            )
        if tick == 20:
            hookline.api("POST", "destinations/newsletter/pause", {"reason": "moving to another provider"})
        time.sleep(1.0)
    replay = hookline.api("POST", "replays", {"destination": "warehouse", "event": "Order Completed", "rate": 2}).json[
        "id"
    ]
    letters = hookline.api("GET", "dead-letters").json["items"]
    time.sleep(3.0)
    return event, str(letters[0]["id"]) if letters else "", replay


def _support(request: Request) -> Reply:
    """A ticket system that takes no coupons and is down now and then."""
    if b"Coupon" in request.body:
        return Reply(422, b'{"error": "unknown field: coupon"}')
    return Reply(503, b"maintenance") if int(request.at) % 3 else Reply()


def _call(picked: random.Random) -> dict[str, Any]:
    number = picked.randrange(40)
    user = f"u{number}"
    if picked.random() < 0.15:
        name = f"{FIRST_NAMES[number % 8]} {LAST_NAMES[number // 8]}"
        email = f"{name.lower().replace(' ', '.')}@example.com"
        traits = {"email": email, "name": name, "plan": picked.choice(("free", "pro"))}
        return {"type": "identify", "userId": user, "traits": traits}
    if picked.random() < 0.3:
        path = picked.choice(("/", "/pricing", "/cart"))
        return {"type": "page", "userId": user, "name": "Page", "properties": {"path": path}}
    properties = {"orderId": f"o-{picked.randrange(10_000)}", "total": round(picked.uniform(5, 300), 2), "items": 3}
    return {"type": "track", "userId": user, "event": picked.choice(NAMES), "properties": properties}


def _take(page: Page, tour: list[Stop]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [
        "# A tour",
        "",
        "`make tour` takes these pictures of the real pages, from a service with 45 seconds of events.",
    ]
    for stop in tour:
        answer = page.goto(stop.path)
        if answer is None or not answer.ok:
            raise SystemExit(f"{stop.path}: {answer.status if answer else 'no answer'}")
        page.wait_for_timeout(SETTLE_MS)
        stop.prepare(page)
        page.wait_for_timeout(SETTLE_MS / 3)
        page.screenshot(path=FOLDER / f"{stop.name}.png")
        lines += ["", f"## {stop.title}", "", stop.text, "", f"![{stop.title}](tour/{stop.name}.png)"]
    (FOLDER.parent / "tour.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
