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
            "Events in, deliveries out, queued events and latency, from an hour to a month. Below are the "
            "destinations that fail most. Every chart has a table.",
        ),
        Stop(
            "issues",
            "Issues",
            "/issues",
            "Failures grouped by destination and cause, with what to do next and one button to send all of it again.",
        ),
        Stop(
            "setup",
            "Set-up",
            "/setup",
            "From a source to the first delivered event: code to paste, with the write key filled in. The page "
            "updates when the event arrives. You can leave the set-up and continue later.",
        ),
        Stop(
            "catalog",
            "Catalog",
            "/catalog",
            "The kinds of destinations. A kind is a folder with a manifest; you can add your own.",
        ),
        Stop(
            "source",
            "A source",
            "/sources/website",
            "Code for thirteen SDKs, write keys with rotation, live events, their schema, and rejected events with "
            "the reason.",
        ),
        Stop(
            "schema",
            "A source's schema",
            "/sources/shop/schema",
            "The events that a source sends: how often, since when, and the types of their properties.",
        ),
        Stop(
            "events",
            "Live events",
            "/events",
            "Every event as it arrives, with its status. If events are skipped, a row says so. Details of the "
            "selected event appear beside the list: as a tree, raw, and as a request.",
            lambda page: page.keyboard.press("j"),
        ),
        Stop(
            "event",
            "One event",
            f"/events/{event}",
            "When Hookline accepted the event, where it was routed and by which rule, each attempt with request and "
            "answer, and how to verify the signature. `hookline why` shows the same.",
        ),
        Stop(
            "destinations",
            "Destinations",
            "/destinations",
            "Every destination with its health and its queued events.",
        ),
        Stop(
            "delivery",
            "Deliveries of one destination",
            "/destinations/support/delivery",
            "Events through the destination, response times, and failures grouped by cause.",
        ),
        Stop(
            "filters",
            "Filters",
            "/destinations/crm/filters",
            "Drop, sample or trim events. Try filters on recent events before you save them.",
        ),
        Stop(
            "tester",
            "The event tester",
            "/destinations/crm/tester",
            "See the exact requests for an event before you send them, then the receiver's answer with timings.",
        ),
        Stop(
            "letters",
            "Dead letters",
            "/destinations/support/dead-letters",
            "Events that a destination did not get, and why. Inspect them, send them again one by one or by filter, "
            "or discard them.",
        ),
        Stop(
            "replay",
            "A replay",
            f"/replays/{replay}",
            "Send stored events again at a rate that you choose. Hookline counts the events before it begins. You "
            "can pause or cancel the replay.",
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
            "The condition of an audience",
            "/audiences/big_spenders/edit",
            "A visual editor that suggests what sources have sent, with the same condition as text below it. A "
            "preview shows how many people match, and some of them, before you save.",
            _count_people,
        ),
        Stop(
            "people",
            "People",
            "/people",
            "Find people by the beginning of an id, e-mail or name. Each has a page: traits, audiences, and what they "
            "did.",
        ),
        Stop(
            "search",
            "Search",
            "/",
            "Ctrl-K or ⌘K finds ids, people, event names, pages, actions and documentation from everywhere.",
            _search,
        ),
        Stop("notices", "Notices", "/notices", "Problems that Hookline reports about itself, with the next step."),
        Stop(
            "usage",
            "Usage",
            "/usage",
            "Events per source, destination and day, tracked users, and disk space.",
        ),
        Stop(
            "versions",
            "Versions",
            "/settings/versions",
            "Who changed what, field by field, and how to go back.",
        ),
    ]


def _count_people(page: Page) -> None:
    page.locator("definition-preview .matched").wait_for()


def _search(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("order")
    page.get_by_role("option").first.wait_for()
