"""What the first page shows: notices, the way of the events, charts, who fails most, last events, what is running."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from hookline.control.event_filter import EventFilter, event_name
from hookline.control.event_log import LoggedEvent
from hookline.control.role_metrics import RoleReport
from hookline.control.services import Services
from hookline.insights.resolutions import Range
from hookline.outcomes.status import urgency
from hookline.telemetry.metrics import PROCESS_MEMORY, PROCESS_STARTED
from hookline.web.address import event_href
from hookline.web.chart_view import ChartView
from hookline.web.connection_views import DestinationView, destination_views
from hookline.web.first_steps import First, first_steps
from hookline.web.fleet_view import FleetView, fleet_view
from hookline.web.notice_view import NoticeView, notice_view
from hookline.web.overview_charts import overview_charts
from hookline.web.person_link import PersonLink, person_link
from hookline.web.reasons import NO_DESTINATION, in_words
from hookline.web.rendering import iso_seconds, number
from hookline.web.way import Aside, Station, the_way

EVENTS_SHOWN = 20
NOTICES_SHOWN = 10
THINGS_SHOWN = 50
FAILING_SHOWN = 5
ROLES = ("collect", "deliver", "profiles", "control")
OPTIONAL_ROLES = frozenset({"profiles"})
"""Shown once they have run: not every installation has them."""


class RoleView(NamedTuple):
    """One process."""

    name: str
    kind: str
    shape: str
    word: str
    since: str | None
    memory: str | None


class FailingView(NamedTuple):
    """A destination and how many of its requests failed, events were not delivered, and were."""

    id: str
    name: str
    failures: int
    not_delivered: int
    delivered: int


class EventView(NamedTuple):
    """One row of the last events."""

    key: str
    href: str
    type: str
    name: str
    message_id: str
    user: PersonLink
    source: str
    received_at: str
    status: str
    reason: str
    more: int


class Overview(NamedTuple):
    """The whole page."""

    notices: Sequence[NoticeView]
    notices_more: int
    stations: Sequence[Station]
    asides: Sequence[Aside]
    roles: Sequence[RoleView]
    fleet: FleetView | None
    first: First | None
    events: Sequence[EventView]
    destinations: Sequence[DestinationView]
    destinations_more: int
    range: Range
    charts: Sequence[ChartView]
    failing: Sequence[FailingView]


async def overview(services: Services, range: Range) -> Overview:
    """Gather the page as it is now, its charts over a range."""
    now = int(time.time())
    reports = services.metrics.reports()
    sources, destinations = services.store.sources(), services.store.destinations()
    page = await services.events.newest(EventFilter(), EVENTS_SHOWN)
    stations, asides = the_way(reports)
    notices = services.notices.newest(NOTICES_SHOWN, is_open=True)
    return Overview(
        notices=sorted(map(notice_view, notices), key=lambda each: (each.acknowledged, each.rank)),
        notices_more=max(0, sum(services.own_metrics.notices_open.values()) - NOTICES_SHOWN),
        stations=stations,
        asides=asides,
        roles=[role_view(name, reports.get(name)) for name in ROLES if name in reports or name not in OPTIONAL_ROLES],
        fleet=fleet_view(await asyncio.to_thread(services.fleet.look)) if services.fleet.is_shared else None,
        first=first_steps(services, sources, destinations, bool(page.events)),
        events=[event_view(logged) for logged in page.events],
        destinations=destination_views(services, destinations[:THINGS_SHOWN]),
        destinations_more=max(0, len(destinations) - THINGS_SHOWN),
        range=range,
        charts=await asyncio.to_thread(overview_charts, services.series, range, now),
        failing=await asyncio.to_thread(_failing, services, range, now),
    )


def _failing(services: Services, range: Range, now: int) -> list[FailingView]:
    found = services.series.top_failing(range, now, FAILING_SHOWN)
    named = ((each, services.store.destination(each.destination)) for each in found)
    return [
        FailingView(each.destination, stored.object.name, each.failures, each.not_delivered, each.delivered)
        for each, stored in named
        if stored is not None
    ]


def event_view(logged: LoggedEvent) -> EventView:
    """Return one row."""
    event = logged.status
    # Destinations that the source does not feed are told on the event's own page; here they would be noise.
    concerned = [each for each in event.destinations if each.status != "not_routed"] or list(event.destinations)
    ranked = sorted(concerned, key=lambda each: urgency(each.status))
    reason = event.rejection.message if event.rejection else ranked[0].reason if ranked else NO_DESTINATION
    return EventView(
        key=logged.cursor,
        href=event_href(event.message_id, event.source),
        type=logged.record.type,
        name=event_name(logged.record),
        message_id=event.message_id,
        user=person_link(event),
        source=event.source,
        received_at=event.received_at,
        status=event.status or ranked[0].status,
        reason=in_words(reason),
        more=max(0, len(ranked) - 1) if ranked and ranked[0].status != "not_routed" else 0,
    )


def role_view(name: str, report: RoleReport | None) -> RoleView:
    """Return one process, from its last report."""
    if report is None:
        return RoleView(name, "wait", "◔", "no report yet", None, None)
    if not report.fresh:
        return RoleView(name, "dead", "■", "no report for more than 5 s", None, None)
    started, memory = report.number(PROCESS_STARTED), report.number(PROCESS_MEMORY)
    since = iso_seconds(started) if started else None
    return RoleView(name, "good", "●", "running", since, f"{number(memory / 1024**2)} MB" if memory else None)
