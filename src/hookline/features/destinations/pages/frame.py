"""What stands above every tab of a destination: name, state, the tabs, and what a pause or a delete would do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.features.destinations.pages.delivery import Flow, flows
from hookline.features.insights.service import series_log
from hookline.features.overview.connections import DestinationView, destination_views
from hookline.web.lists import destination_href

TABS = (
    ("delivery", "Delivery"),
    ("attempts", "Attempts"),
    ("dead-letters", "Dead letters"),
    ("filters", "Filters"),
    ("tester", "Tester"),
    ("replay", "Replay"),
    ("settings", "Settings"),
    ("notices", "Notices"),
)


class DestinationHead(NamedTuple):
    """``state`` is what can be done next: ``running``, ``paused``, ``draining`` or ``off``; ``can_try`` whether what
    waits may be tried at once; ``per_hour`` what its sources sent in the last hour."""

    view: DestinationView
    href: str
    api: str
    tabs: Sequence[tuple[str, str, bool]]
    state: str
    can_try: bool
    flow: Flow
    per_hour: int


def destination_head(services: Services, stored: Stored[Destination], tab: str) -> DestinationHead:
    """Return the head of one destination's page, with this tab open."""
    destination = stored.object
    (view,) = destination_views(services, [stored])
    href = destination_href(destination.id)
    return DestinationHead(
        view=view,
        href=href,
        api=f"/api/v1{href}",
        tabs=[(title, f"{href}/{id}", id == tab) for id, title in TABS],
        state=(state := _state(stored)),
        can_try=state in ("running", "draining") and bool(view.kind == "dead" or view.retrying),
        flow=flows(services.settings.data_path).get(destination.id, Flow()),
        per_hour=series_log(services).accepted(destination.sources, "1h", int(time.time())),
    )


def _state(stored: Stored[Destination]) -> str:
    if stored.lane is None:
        return "off"
    if stored.lane.until is not None:
        return "draining"
    return "running" if stored.lane.paused is None else "paused"
