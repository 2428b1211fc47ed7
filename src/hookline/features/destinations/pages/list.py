"""What the list of destinations shows: fifty at a time, searched and filtered by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.features.destinations.health import WINDOW_SECONDS, is_failing
from hookline.features.destinations.pages.delivery import Flow, flows
from hookline.features.fleet.service import fleet_log, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import BREAKER_OPEN
from hookline.features.overview.connections import DestinationView, destination_views
from hookline.insights.series_log import Recent
from hookline.web.address import destination_href
from hookline.web.object_list import object_page

PATH = "/destinations"
STATES = (("failing", "Failing"), ("paused", "Paused"), ("healthy", "Healthy"), ("off", "Off"))


class DestinationRow(NamedTuple):
    """One destination of the list."""

    view: DestinationView
    href: str
    flow: Flow


class DestinationList(NamedTuple):
    """One page of the list; ``first`` and ``after`` are addresses, or empty."""

    rows: Sequence[DestinationRow]
    asked: Mapping[str, str]
    states: Sequence[tuple[str, str]]
    total: int
    matched: int
    first: str
    after: str


def destination_list(services: Services, search: str, state: str, after: str) -> DestinationList:
    """Return the destinations that match, by id; states are taken from what deliver reports, so that no row is read
    twice."""
    every, failing = services.store.destinations(), _failing(services)
    wanted = every if not state else [stored for stored in every if _state(stored, failing) == state]
    page = object_page(PATH, wanted, search, after, state=state)
    flowing = flows(services.settings.data_path)
    return DestinationList(
        rows=[
            DestinationRow(view, destination_href(view.id), flowing.get(view.id, Flow()))
            for view in destination_views(services, page.rows)
        ],
        asked={"search": search, "state": state},
        states=STATES,
        total=len(every),
        matched=page.matching,
        first=page.first_href,
        after=page.after_href,
    )


def _failing(services: Services) -> set[str]:
    failing = set(fleet_log(services).open_breakers)
    recent = series_log(services).recent(WINDOW_SECONDS, services.store.now_ms() // 1000)
    retrying: dict[str, int] = {}
    deliver = role_metrics(services).reports().get("deliver")
    if deliver is not None:
        failing.update(id for id, value in deliver.by_label(BREAKER_OPEN).items() if value)
        retrying = {id: int(value) for id, value in deliver.by_label("hookline_deliver_retry_rows").items()}
    some = (id for id in recent.keys() | retrying.keys() if is_failing(recent.get(id, Recent()), retrying.get(id, 0)))
    return failing.union(some)


def _state(stored: Stored[Destination], failing: set[str]) -> str:
    if not stored.object.enabled or stored.lane is None:
        return "off"
    if stored.lane.paused is not None:
        return "paused"
    return "failing" if stored.object.id in failing else "healthy"
