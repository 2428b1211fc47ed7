"""One page of a list of configured objects: searched, in the order of their ids, all of it in the address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple

from hookline.connections.definitions.model import Definition
from hookline.connections.model import Destination, Source
from hookline.connections.state import ObjectT, Stored
from hookline.web.address import address

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
