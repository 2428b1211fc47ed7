"""Lists, all of whose state is in the address: pages of configured objects, and the time that a list is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple
from urllib.parse import quote, urlencode

from hookline.connections.model import Destination
from hookline.connections.state import Object, ObjectT, Stored
from hookline.connections.store import Store
from hookline.events.timestamps import iso, parse
from hookline.journal.record import SYNC_SOURCE

ROWS_SHOWN = 50


class ObjectPage(NamedTuple, Generic[ObjectT]):
    """The rows to show, how many match in all, and the addresses of the first and the next page (or empty)."""

    rows: Sequence[Stored[ObjectT]]
    matching: int
    first_href: str
    after_href: str


def by_name(each: Object) -> tuple[str, str]:
    """Return what lists are sorted by, which show names: beside each other as people look for them."""
    return each.name.casefold(), each.id


def object_page(
    path: str, objects: Iterable[Stored[ObjectT]], search: str, after: str, **asked: str
) -> ObjectPage[ObjectT]:
    """Choose the page of those that hold ``search``, by name, after the one of ``after``, which may be gone by now;
    ``asked`` are the other filters."""
    wanted = search.strip().casefold()
    matching = [each for each in objects if not wanted or _holds(each.object, wanted)]
    matching.sort(key=lambda each: by_name(each.object))
    id, _, name = after.partition(":")
    rest = [each for each in matching if by_name(each.object) > (name, id)] if after else matching
    rows = rest[:ROWS_SHOWN]
    more = len(rest) > ROWS_SHOWN
    query = {"search": search, **asked}
    last_name, last_id = by_name(rows[-1].object) if rows else ("", "")
    return ObjectPage(
        rows=rows,
        matching=len(matching),
        first_href=address(path, query) if after else "",
        after_href=address(path, query, after=f"{last_id}:{last_name}") if more else "",
    )


def _holds(each: Object, wanted: str) -> bool:
    urls = [webhook.url for webhook in each.settings.webhooks] if isinstance(each, Destination) else []
    return any(wanted in text.casefold() for text in (each.id, each.name, *urls))


DOTS = (".", "..")
"""Browsers take these for steps in an address, written in any way."""


def address(path: str, query: Mapping[str, object], **changed: object) -> str:
    """Return the path with a query, some of its values changed."""
    values = {name: str(value) for name, value in {**query, **changed}.items() if value not in (None, "")}
    return f"{path}?{urlencode(values)}" if values else path


RANGES = {"1h": 3_600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
"""Seconds back from now."""


class TimeRange(NamedTuple):
    """The time a list is about: ``[since, until)`` in milliseconds, None where nothing bounds it. ``asked`` is what the
    address says of it: ``range``, or ``from`` and ``to``; ``links`` leads to the others, the one shown marked."""

    since_ms: int | None
    until_ms: int | None
    asked: Mapping[str, str]
    links: Sequence[tuple[str, str, bool]]

    @property
    def bounds(self) -> Mapping[str, str]:
        """Return the times as the API takes them."""
        given = (("from", self.since_ms), ("to", self.until_ms))
        return {name: iso(at) for name, at in given if at is not None}


def time_range(path: str, query: Mapping[str, str], others: Mapping[str, str], now_ms: int) -> TimeRange:
    """Read it from an address; its links keep ``others``, the filters of the list. What is no time bounds nothing."""
    name = query.get("range", "")
    between = {each: query.get(each, "") for each in ("from", "to")}
    since, until = (parse(each) if each else None for each in between.values())
    if name in RANGES:
        since, until, between = now_ms - RANGES[name] * 1000, None, {}
    asked = (
        {"range": name}
        if name in RANGES
        else {each: iso(at) for each, at in zip(("from", "to"), (since, until), strict=True) if at is not None}
    )
    links = [("Any time", address(path, others), not asked)]
    links += [(each, address(path, others, range=each), each == name) for each in RANGES]
    return TimeRange(since, until, asked, links)


def destination_href(id: str, tab: str = "") -> str:
    """Return the page of a destination, or one of its tabs."""
    return f"/destinations/{quote(id, safe='')}" + (f"/{tab}" if tab else "")


SYNCS = "audiences and traits"
"""What people read in place of a source: the calls of syncs stand under one that nobody created (``SYNC_SOURCE``)."""


class Label(NamedTuple):
    """A source or destination as people read it: by its name, with its page while there is one (else empty)."""

    name: str
    href: str


def source_label(store: Store, id: str) -> Label:
    """Return how people read the source of an event; one that is gone is known by its id."""
    if id == SYNC_SOURCE:
        return Label(SYNCS, "/audiences")
    stored = store.source(id)
    return Label(id, "") if stored is None else Label(stored.object.name, f"/sources/{quote(id, safe='')}")


def destination_label(store: Store, id: str) -> Label:
    """Return how people read a destination; one that is gone is known by its id, and its page says so."""
    stored = store.destination(id)
    return Label(id if stored is None else stored.object.name, destination_href(id))


def event_href(message_id: str, source: str) -> str:
    """Return the page of one event."""
    if message_id in DOTS:
        return address("/events", {"messageId": message_id, "source": source})
    return f"/events/{quote(message_id, safe='')}?source={quote(source, safe='')}"


def person_href(user_id: str | None, anonymous_id: str | None = None) -> str:
    """Return the page of a person, by user id where there is one."""
    kind, id = ("user", user_id) if user_id is not None else ("anonymous", anonymous_id or "")
    if id in DOTS:
        return address("/people", {"userId" if kind == "user" else "anonymousId": id})
    return f"/people/{kind}/{quote(id, safe='')}"
