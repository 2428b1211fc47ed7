"""One page of a list of configured objects: searched, in the order of their ids, all of it in the address."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, NamedTuple
from urllib.parse import quote, urlencode

from hookline.connections.definitions.model import Definition
from hookline.connections.model import Destination, Source
from hookline.connections.state import ObjectT, Stored

ROWS_SHOWN = 50


class ObjectPage(NamedTuple, Generic[ObjectT]):
    """The rows to show, how many match in all, and the addresses of the first and the next page (or empty)."""

    rows: Sequence[Stored[ObjectT]]
    matching: int
    first_href: str
    after_href: str


def object_page(
    path: str, objects: Iterable[Stored[ObjectT]], search: str, after: str, **asked: str
) -> ObjectPage[ObjectT]:
    """Choose the page after the id ``after`` of those that hold ``search``; ``asked`` are the other filters."""
    wanted = search.strip().casefold()
    matching = [each for each in objects if not wanted or _holds(each.object, wanted)]
    rest = [each for each in matching if each.object.id > after]
    rows = rest[:ROWS_SHOWN]
    more = len(rest) > ROWS_SHOWN
    query = {"search": search, **asked}
    return ObjectPage(
        rows=rows,
        matching=len(matching),
        first_href=address(path, query) if after else "",
        after_href=address(path, query, after=rows[-1].object.id) if more else "",
    )


def _holds(each: Source | Destination | Definition, wanted: str) -> bool:
    urls = [webhook.url for webhook in each.settings.webhooks] if isinstance(each, Destination) else []
    return any(wanted in text.casefold() for text in (each.id, each.name, *urls))


DOTS = (".", "..")
"""Browsers take these for steps in an address, written in any way."""


def address(path: str, query: Mapping[str, object], **changed: object) -> str:
    """Return the path with a query, some of its values changed."""
    values = {name: str(value) for name, value in {**query, **changed}.items() if value not in (None, "")}
    return f"{path}?{urlencode(values)}" if values else path


def destination_href(id: str, tab: str = "") -> str:
    """Return the page of a destination, or one of its tabs."""
    return f"/destinations/{quote(id, safe='')}" + (f"/{tab}" if tab else "")


def event_href(message_id: str, source: str) -> str:
    """Return the page of one event."""
    return f"/events/{quote(message_id, safe='')}?source={quote(source, safe='')}"


def person_href(user_id: str | None, anonymous_id: str | None = None) -> str:
    """Return the page of a person, by user id where there is one."""
    kind, id = ("user", user_id) if user_id is not None else ("anonymous", anonymous_id or "")
    if id in DOTS:
        return address("/people", {"userId" if kind == "user" else "anonymousId": id})
    return f"/people/{kind}/{quote(id, safe='')}"
