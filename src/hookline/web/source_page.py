"""What the pages of one source show: state, write keys, when it was last heard, and the lines for every SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookline.connections.model import Source
from hookline.connections.state import Stored
from hookline.control.objects import object_tag
from hookline.control.services import Services
from hookline.rate_limit import RateLimit
from hookline.telemetry.metrics import PROCESS_STARTED
from hookline.web.connection_views import SourceView, source_view
from hookline.web.rendering import iso_seconds
from hookline.web.snippets import Place, collect_url, places_of_source
from hookline.web.source_sightings import last_heard

DESTINATIONS_SHOWN = 20
RATE_LIMITED = "hookline_collect_rate_limited_total"

TABS = (("", "Set-up"), ("schema", "Schema"), ("keys", "Keys"), ("rejected", "Rejected"), ("settings", "Settings"))
"""Path below the source and title of each tab."""


class Fed(NamedTuple):
    """A destination that the source feeds."""

    id: str
    name: str


class SourcePage(NamedTuple):
    """The whole page; ``tabs`` are (title, address, whether it is this one), ``keys`` are numbered.
    ``rate_limited`` calls were answered 429 since collect started; ``usual_rate`` is what holds where the source says
    nothing.

    ``owner`` is set where a file owns the source; with ``etag`` a change is refused after somebody else's.
    """

    source: SourceView
    tabs: Sequence[tuple[str, str, bool]]
    owner: str
    etag: str
    keys: Sequence[tuple[int, str]]
    feeds: Sequence[Fed]
    feeds_more: int
    last_event_at: str
    rate_limit: RateLimit
    usual_rate: str
    rate_limited: int
    rate_limited_since: str
    places: Sequence[Place]


def source_page(services: Services, stored: Stored[Source], tab: str) -> SourcePage:
    """Put together what is known of a source."""
    source = stored.object
    url = collect_url(services.settings)
    collect = services.metrics.reports().get("collect")
    usual = services.settings.collect.rate_limit
    fed = [each.object for each in services.store.destinations() if source.id in each.object.sources]
    return SourcePage(
        source=source_view(source, url),
        tabs=_tabs(source.id, tab),
        owner=stored.owner or "",
        etag=object_tag(stored.since),
        keys=list(enumerate(source.write_keys, 1)),
        feeds=[Fed(each.id, each.name) for each in fed[:DESTINATIONS_SHOWN]],
        feeds_more=max(0, len(fed) - DESTINATIONS_SHOWN),
        last_event_at=last_heard(services, [source.id]).get(source.id, ""),
        rate_limit=source.rate_limit or RateLimit(),
        usual_rate="" if usual is None else str(usual),
        rate_limited=int(collect.by_label(RATE_LIMITED).get(source.id, 0)) if collect else 0,
        rate_limited_since=iso_seconds(collect.number(PROCESS_STARTED)) if collect else "",
        places=places_of_source(source.write_keys[0], url, source.type) if source.write_keys and not tab else [],
    )


def _tabs(id: str, here: str) -> list[tuple[str, str, bool]]:
    tabs = [(title, f"/sources/{id}" + (path and f"/{path}"), path == here) for path, title in TABS]
    return [tabs[0], ("Live", f"/events?source={id}", False), *tabs[1:]]
