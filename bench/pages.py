"""How quickly the pages are served from a full data folder, and what somebody who looks at them costs the events."""

from __future__ import annotations

import base64
import http.client
import json
import re
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import quote, urlencode

from litestar import Router
from litestar.handlers import HTTPRouteHandler

from hookline.bench.event import ID_PREFIX, destination, one_receiver, source
from hookline.bench.machine import wait_until
from hookline.bench.rig import Figures, Rig, rig

EVENTS = 1_000_000
DESTINATIONS = 1_000
LOOKS = 30
"""How often each page is asked for."""
CLICK_SECONDS = 0.5
"""Somebody in a hurry: a page every half second."""
BLOCKED_KEY = "wk_blocked"
REQUEST_SECONDS = 30

NAMES = {
    "/sources": "bench",
    "/destinations": "receiver",
    "/events": ID_PREFIX.decode() + "0000000777",
    "/settings/versions": "1",
    "/catalog": "webhook",
    "/settings/people": "u1",
    "/settings/tokens": "t1",
    "/settings/audit-log": "1",
    "/dead-letters": "1",
    "/issues": "1",
    "/settings/notifications": "bench_rule",
    "/replays": "r1",
    "/deletion-requests": "dr1",
    "/people/user": "user-83115",
    "/people/anonymous": "visitor",
    "/audiences": "bench_buyers",
    "/traits": "bench_spend",
}
"""What stands for the parameter of a page, by what stands before it; those of a measured service are its own."""


def pages(seconds: float, events: int = EVENTS) -> Figures:
    """Time of each page with so many events and a thousand destinations, and what looking at them costs events."""
    with rig(events_max=events + 4_000_000, connections=_connections) as bench:
        bench.start_receiver()
        bench.saturate(3_600, events)
        paths = addresses(_furnish(bench))
        browser = Browser(bench)
        times = {path: sorted(browser.seconds(path) for _ in range(LOOKS)) for path in paths}
        alone, watched = [], []
        for _ in range(3):  # in turn, so that a slow minute of the machine meets both
            alone.append(bench.saturate(seconds)[1])
            with browser.clicking(list(times)):
                watched.append(bench.saturate(seconds)[1])
    figures = {f"pages_{_named(path)}_p95_ms": taken[int(0.95 * LOOKS)] * 1000 for path, taken in times.items()}
    return {
        "pages_events": float(events),
        "pages_destinations": float(DESTINATIONS),
        **figures,
        "pages_slowest_p95_ms": max(figures.values()),
        "pages_alone_per_second": statistics.median(alone),
        "pages_watched_per_second": statistics.median(watched),
        "pages_watched_ratio": statistics.median(watched) / statistics.median(alone),
    }


def addresses(names: Mapping[str, str]) -> list[str]:
    """Every page behind the sign-in, with names in place of its parameters; ValueError for one that is not named."""
    from hookline.control.pages import routes
    from hookline.features.destinations.pages.routes import TAB_TITLES

    found: list[str] = []
    for handler in [*routes()]:
        for route in handler.routes if isinstance(handler, Router) else ():
            methods = [each for each in getattr(route, "route_handlers", ()) if isinstance(each, HTTPRouteHandler)]
            if any("GET" in each.http_methods and each.opt.get("needs") != "open" for each in methods):
                found += [_filled(path, names) for path in _with_tabs(route.path, [tab for tab, _ in TAB_TITLES])]
    return sorted(set(found))


class Browser:
    """Somebody who is signed in."""

    def __init__(self, bench: Rig) -> None:
        port = bench.service.control_port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=REQUEST_SECONDS)
        token = (bench.service.data / "admin-token").read_text().strip()
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{port}"}
        self._connection.request("POST", "/login", urlencode({"password": token}), headers)
        answer = self._connection.getresponse()
        answer.read()
        self._cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        if not self._cookie:
            raise RuntimeError(f"could not sign in: {answer.status}")

    def seconds(self, path: str) -> float:
        """How long a page takes, from the request to its last byte; RuntimeError when there is none."""
        self._connection.close()  # the server ends connections that rest
        self._connection.connect()
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self._cookie})
        answer = self._connection.getresponse()
        answer.read()
        taken = time.perf_counter() - began
        if answer.status >= http.client.BAD_REQUEST:
            raise RuntimeError(f"GET {path}: {answer.status}")
        return taken

    @contextmanager
    def clicking(self, paths: list[str]) -> Iterator[None]:
        """Look at one page after the other meanwhile."""
        over = threading.Event()

        def click() -> None:
            at = 0
            while not over.wait(CLICK_SECONDS):
                self.seconds(paths[at % len(paths)])
                at += 1

        thread = threading.Thread(target=click)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _furnish(bench: Rig) -> dict[str, str]:
    """Make one of everything that has a page; return their names by page."""
    service = bench.service
    person = service.api("POST", "users", {"name": "somebody@example.com"})["user"]["id"]
    token = service.api("POST", "tokens", {"name": "somebody's program", "scope": "read"})["token"]["id"]
    replay = service.api("POST", "replays", {"destination": "receiver", "messageIds": [NAMES["/events"]]})["id"]
    service.api("POST", "deletion-requests", {"userId": "nobody", "action": "both"})
    trait = {"aggregate": "sum", "property": "properties.total"}
    service.api(
        "POST", "computed-traits", {"id": NAMES["/traits"], "name": "Spend", "event": "Order Completed", **trait}
    )
    clause = {"if": f"computed.{NAMES['/traits']} > 100"}
    service.api("POST", "audiences", {"id": NAMES["/audiences"], "name": "Buyers", "condition": clause})
    key = base64.b64encode(f"{BLOCKED_KEY}:".encode()).decode()
    for who in ({"userId": "u1"}, {"anonymousId": NAMES["/people/anonymous"]}):
        connection = http.client.HTTPConnection("127.0.0.1", service.collect_port, timeout=REQUEST_SECONDS)
        call = json.dumps({**who, "event": "For a blocked address"})
        connection.request("POST", "/v1/track", call, {"Authorization": f"Basic {key}"})
        connection.getresponse().read()
        connection.close()
    wait_until(lambda: bool(service.api("GET", "dead-letters")["items"]), REQUEST_SECONDS, "a dead letter")
    letter = service.api("GET", "dead-letters")["items"][0]["id"]
    wait_until(lambda: bool(service.api("GET", "issues")["items"]), REQUEST_SECONDS, "its issue")
    issue = service.api("GET", "issues")["items"][0]["id"]
    rule = {"id": NAMES["/settings/notifications"], "name": "Bench", "when": ["dead_letters"]}
    service.api("POST", "notifications", {**rule, "to": {"webhook": {"url": "https://example.com/hook"}}})
    made = {"/settings/people": person, "/settings/tokens": token, "/replays": replay, "/dead-letters": letter}
    made |= {"/issues": issue}
    return {**NAMES, **{before: str(name) for before, name in made.items()}}


def _connections(port: int) -> dict[str, object]:
    """The measured destination and many that get nothing."""
    made = one_receiver(port)
    made["sources"].append(source("other", "wk_other"))
    made["destinations"] += [destination(f"quiet-{n:04}", port, ["other"]) for n in range(DESTINATIONS - 2)]
    # The guard lets nothing out to it, so what is sent there is a dead letter at once.
    blocked = destination("blocked", port, ["blocked"])
    blocked["settings"]["webhooks"][0]["url"] = "http://10.255.255.1/hook"
    made["sources"].append(source("blocked", BLOCKED_KEY))
    made["destinations"].append(blocked)
    return made


def _with_tabs(path: str, tabs: Sequence[str]) -> list[str]:
    return [path.replace("{tab:str}", tab) for tab in tabs] if "{tab:str}" in path else [path]


def _filled(path: str, names: Mapping[str, str]) -> str:
    before, parameter, after = path.partition("/{")
    if not parameter:
        return path
    if before not in names:
        raise ValueError(f"say in bench.pages what stands for the parameter of {path}")
    return f"{before}/{quote(names[before], safe='')}{after.partition('}')[2]}"


def _named(path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", path.lower()).strip("_") or "overview"
