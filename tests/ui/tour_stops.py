"""What the tour shows, page by page, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Page


class Stop(NamedTuple):
    """One picture: its name, the page, what is said of it, and what to do on the page before."""

    name: str
    title: str
    path: str
    text: str
    prepare: Callable[[Page], object] = lambda page: None


def stops(event: str, letter: str, replay: str) -> list[Stop]:
    """The way through the product."""
    return [
        Stop(
            "overview",
            "Overview",
            "/",
            "What came in, what went out, what waits and how long it takes, for an hour to a month; below it the "
            "destinations that fail most. Every chart has its table.",
        ),
        Stop(
            "setup",
            "Set-up",
            "/setup",
            "From a source to the first delivered event: a line to paste with the key filled in, and a page that waits "
            "for it and goes on by itself. It can be left and taken up again.",
        ),
        Stop(
            "catalog",
            "Catalog",
            "/catalog",
            "What events can be sent to. A kind of destination is a folder with a manifest; others can be added from "
            "outside.",
        ),
        Stop(
            "source",
            "A source",
            "/sources/website",
            "Lines for thirteen SDKs, its write keys with rotation, its events live, their schema, and what was "
            "rejected with the reason.",
        ),
        Stop(
            "schema",
            "Its schema",
            "/sources/shop/schema",
            "The events a source sends, how often, since when, and the types of their properties.",
        ),
        Stop(
            "events",
            "Live events",
            "/events",
            "Every event as it arrives, with its status. A row shows when events were skipped. Details of the selected "
            "event appear beside the list: as a tree, raw, and as sent.",
            lambda page: page.keyboard.press("j"),
        ),
        Stop(
            "event",
            "One event",
            f"/events/{event}",
            "Why: accepted when, routed where and by which rule, each attempt with request and answer, and how to "
            "verify the signature. `hookline why` says the same.",
        ),
        Stop(
            "destinations",
            "Destinations",
            "/destinations",
            "Every destination with its health and its queued events.",
        ),
        Stop(
            "delivery",
            "Delivery to one of them",
            "/destinations/support/delivery",
            "The way of its events, response times, and failures grouped by their cause.",
        ),
        Stop(
            "filters",
            "Filters",
            "/destinations/crm/filters",
            "Drop, sample or thin out events; tried on recent ones before they are saved.",
        ),
        Stop(
            "tester",
            "The event tester",
            "/destinations/crm/tester",
            "The exact requests for an event before they are sent, and what the receiver answers, with timings.",
        ),
        Stop(
            "letters",
            "Dead letters",
            "/destinations/support/dead-letters",
            "What a destination did not get, and why: looked at, sent again one by one or by filter, or discarded.",
        ),
        Stop(
            "replay",
            "A replay",
            f"/replays/{replay}",
            "Stored events sent again, counted before it begins, at a chosen rate; paused and cancelled at will.",
        ),
        Stop(
            "audience",
            "An audience",
            "/audiences/big_spenders",
            "The condition, its destinations, and how many people joined and left with each sync. Tabs show the "
            "members and explain each one.",
        ),
        Stop(
            "audience-edit",
            "Its condition",
            "/audiences/big_spenders/edit",
            "A sentence that offers what sources have sent, with the same as text below it. Before it is saved, it "
            "says how many people that would be, and names some.",
            _count_people,
        ),
        Stop("notices", "Notices", "/notices", "Problems that Hookline reports about itself, with the next step."),
        Stop(
            "usage",
            "Usage",
            "/usage",
            "Events per source, destination and day, tracked users, and what they take on disk.",
        ),
        Stop(
            "versions",
            "Versions",
            "/settings/versions",
            "Who changed what, field by field, and the way back.",
        ),
    ]


def _count_people(page: Page) -> None:
    page.get_by_role("button", name="Preview audience").click()
    page.locator("definition-preview .sampled").wait_for()
