"""The overview: what comes in and goes out, what fails, and what needs somebody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromQuery

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.features.destinations.figures import figures_log
from hookline.features.destinations.pages.view import DestinationRow, destination_rows
from hookline.features.events.log import EventFilter, LoggedEvent, title_in
from hookline.features.events.pages import EventMark, event_mark
from hookline.features.events.service import event_log
from hookline.features.fleet.metrics import RoleReport
from hookline.features.fleet.pages import FleetView, fleet_view
from hookline.features.fleet.service import fleet_log, own_metrics, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.issues.pages import IssueRow, worst_issues
from hookline.features.notices.pages import NoticeView, notice_view
from hookline.features.notices.service import notice_log
from hookline.features.overview.connections import Way, the_ways
from hookline.features.people.pages import PersonLink, person_link
from hookline.features.setup.first_steps import First, first_steps
from hookline.insights.series import Range, SeriesLog
from hookline.telemetry.metrics import PROCESS_MEMORY, PROCESS_STARTED
from hookline.web.chart_view import ChartView, Line, chart, rate
from hookline.web.lists import by_name, event_href
from hookline.web.rendering import Screens, Stop, iso_seconds, number, screen

EVENTS_SHOWN = 20
NOTICES_SHOWN = 10
THINGS_SHOWN = 20
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
    mark: EventMark


class Overview(NamedTuple):
    """The whole page."""

    notices: Sequence[NoticeView]
    notices_more: int
    issues: Sequence[IssueRow]
    ways: Sequence[Way]
    roles: Sequence[RoleView]
    fleet: FleetView | None
    first: First | None
    events: Sequence[EventView]
    destinations: Sequence[DestinationRow]
    destinations_more: int
    range: Range
    charts: Sequence[ChartView]
    failing: Sequence[FailingView]


async def overview(services: Services, range: Range) -> Overview:
    """Gather the page as it is now, its charts over a range."""
    now = int(time.time())
    reports = role_metrics(services).reports()
    sources, destinations = services.store.sources(), services.store.destinations()
    page = await event_log(services).newest(EventFilter(), EVENTS_SHOWN)
    notices = notice_log(services).worst(NOTICES_SHOWN, with_acknowledged=True)
    return Overview(
        notices=[notice_view(each) for each in notices],
        notices_more=max(0, sum(own_metrics(services).notices_open.values()) - NOTICES_SHOWN),
        issues=await worst_issues(services),
        ways=the_ways(reports, await asyncio.to_thread(figures_log(services).look)),
        roles=[role_view(name, reports.get(name)) for name in ROLES if name in reports or name not in OPTIONAL_ROLES],
        fleet=fleet_view(await asyncio.to_thread(fleet_log(services).look)) if fleet_log(services).is_shared else None,
        first=first_steps(services, sources, destinations, bool(page.events)),
        events=[event_view(logged) for logged in page.events],
        destinations=await asyncio.to_thread(
            destination_rows, services, sorted(destinations, key=lambda each: by_name(each.object))[:THINGS_SHOWN]
        ),
        destinations_more=max(0, len(destinations) - THINGS_SHOWN),
        range=range,
        charts=await asyncio.to_thread(overview_charts, series_log(services), range, now),
        failing=await asyncio.to_thread(_failing, services, range, now),
    )


def _failing(services: Services, range: Range, now: int) -> list[FailingView]:
    found = series_log(services).top_failing(range, now, FAILING_SHOWN, services.store.destination)
    named = ((each, services.store.destination(each.destination)) for each in found)
    return [
        FailingView(each.destination, stored.object.name, each.failures, each.not_delivered, each.delivered)
        for each, stored in named
        if stored is not None
    ]


def event_view(logged: LoggedEvent) -> EventView:
    """Return one row."""
    event = logged.status
    return EventView(
        key=logged.cursor,
        href="" if logged.record.erased else event_href(event.message_id, event.source),
        type=logged.record.type,
        name=title_in(logged.record.type, logged.record.body),
        message_id=event.message_id,
        user=person_link(event),
        source=event.source,
        received_at=event.received_at,
        mark=event_mark(event),
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


TIME_BUCKET_SECONDS = 10
"""Series do not change more often, so what was drawn within one may be shown again."""


def overview_charts(log: SeriesLog, range: Range, now_seconds: int) -> Sequence[ChartView]:
    """Return all charts of a range; reads a file, so not on an event loop."""
    return _charts(log, range, now_seconds // TIME_BUCKET_SECONDS)


@lru_cache(maxsize=4)
def _charts(log: SeriesLog, range: Range, time_bucket: int) -> Sequence[ChartView]:
    found = log.totals(range, time_bucket * TIME_BUCKET_SECONDS)
    of = found.values
    events = rate(found.resolution, of["accepted"], of["delivered"], of["rejected"])
    failed = rate(found.resolution, of["failures"], of["not_delivered"])
    return [
        chart(
            "events",
            "Accepted and delivered",
            events.unit,
            found.times,
            [
                (Line("accepted", "accent"), events.of(of["accepted"])),
                (Line("delivered", "good"), events.of(of["delivered"])),
                (Line("rejected", "off"), events.of(of["rejected"])),
            ],
        ),
        chart(
            "failed",
            "Failed",
            failed.unit,
            found.times,
            [
                (Line("failed requests", "warn"), failed.of(of["failures"])),
                (Line("not delivered", "dead"), failed.of(of["not_delivered"])),
            ],
        ),
        chart(
            "waiting",
            "Queued",
            "events",
            found.times,
            [(Line("to deliver", "wait"), of["waiting"]), (Line("to route", "off"), of["lag"])],
            join=max,
        ),
        chart(
            "latency",
            "Time from acceptance to the receiver's answer",
            "ms",
            found.times,
            [(Line("p50", "accent"), of["latency_p50"]), (Line("p95", "warn"), of["latency_p95"])],
        ),
    ]


@get("/", needs="viewer")
async def show_overview(
    request: Request[Any, Any, Any], services: FromServices, range: FromQuery[Range] = "1h"
) -> Response[str]:
    """Show the overview over a range."""
    return screen(request, "overview.html", "overview", view=await overview(services, range))


SCREENS = Screens(
    (show_overview,),
    (Stop("overview", "Overview", "/", "o", "M3 12h4l3-7 4 14 3-7h4"),),
    docs={"overview": "explanation/lanes"},
)
