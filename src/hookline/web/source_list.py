"""What the list of sources shows: state, when each was last heard, and how many events it sent today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from hookline.control.services import Services
from hookline.web.object_list import object_page
from hookline.web.source_sightings import last_heard


class SourceRow(NamedTuple):
    """One source; ``feeds`` is the number of its destinations."""

    id: str
    name: str
    type: str
    enabled: bool
    last_event_at: str
    today: int
    feeds: int


class SourceList(NamedTuple):
    """One page of the list; ``total`` counts all sources there are."""

    rows: Sequence[SourceRow]
    total: int
    matching: int
    search: str
    first_href: str
    after_href: str


def source_list(services: Services, search: str, after: str) -> SourceList:
    """Gather one page."""
    sources = services.store.sources()
    page = object_page("/sources", sources, search, after)
    heard = last_heard(services, [stored.object.id for stored in page.rows])
    day = datetime.fromtimestamp(services.store.now_ms() / 1000, UTC).date()
    today = {count.source: count.events for count in services.usage.counts(day, day, "day", None)}
    feeds = Counter(id for stored in services.store.destinations() for id in stored.object.sources)
    return SourceList(
        rows=[
            SourceRow(
                id=source.id,
                name=source.name,
                type=source.type,
                enabled=source.enabled,
                last_event_at=heard.get(source.id, ""),
                today=today.get(source.id, 0),
                feeds=feeds[source.id],
            )
            for source in (stored.object for stored in page.rows)
        ],
        total=len(sources),
        matching=page.matching,
        search=search,
        first_href=page.first_href,
        after_href=page.after_href,
    )
