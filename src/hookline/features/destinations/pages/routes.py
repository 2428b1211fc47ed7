"""``/destinations``, ``/destinations/new`` and ``/destinations/{id}/{tab}``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromPath

from hookline.api.handlers import FromServices
from hookline.api.services import Services, deliver_reader
from hookline.connections.model import WEBHOOKS_MAX, DeliveryOptions, Destination, is_webhook
from hookline.connections.state import Stored
from hookline.features.destinations.figures import figures_log
from hookline.features.destinations.pages.tabs import (
    FAN_OUTS,
    ORDERS,
    Url,
    attempts_tab,
    dead_letters_tab,
    filters_tab,
    mapping_tab,
    notices_tab,
    replay_tab,
    settings_tab,
    source_choices,
    tester_tab,
)
from hookline.features.destinations.pages.view import (
    DestinationRow,
    DestinationView,
    destination_rows,
    destination_views,
    rates,
)
from hookline.features.destinations.state import TROUBLED, FailureCause, State, causes_of, usual_states
from hookline.features.destinations.unconnected import Unconnected, unconnected_of
from hookline.features.insights.service import series_log
from hookline.features.issues.service import issue_watch
from hookline.insights.series import SPANS, Range, Series, Sums, first_of, percentile
from hookline.web.chart_view import ChartView, Line, chart, rate
from hookline.web.lists import destination_href, object_page
from hookline.web.rendering import Screens, Station, Stop, milliseconds, number, query_of, screen, unknown

RANGE: Range = "1h"


class DeliveryTab(NamedTuple):
    """The whole tab."""

    range: Range
    stations: Sequence[Station]
    unconnected: Unconnected | None
    percentiles: Sequence[tuple[str, str]]
    charts: Sequence[ChartView]
    errors: Sequence[FailureCause]
    errors_complete: bool


async def delivery_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeliveryTab:
    """Return the tab, for the range asked for."""
    asked = query.get("range", RANGE)
    range: Range = asked if asked in SPANS else RANGE  # type: ignore[assignment]  # its keys are the ranges
    now = int(time.time())
    span = SPANS[range]
    since_seconds = first_of(now, span.seconds, span.resolution)
    unconnected = await unconnected_of(services, stored, since_seconds * 1000)
    return await asyncio.to_thread(_read, services, stored.object, range, now, unconnected)


def _read(
    services: Services, destination: Destination, range: Range, now: int, unconnected: Unconnected | None
) -> DeliveryTab:
    sums = series_log(services).sums(destination.id, range, now)
    causes = causes_of(deliver_reader(services), destination.id, (now - SPANS[range].seconds) * 1000)
    accepted = series_log(services).accepted(destination.sources, range, now)
    figures = figures_log(services).look().figures.get(destination.id)
    return DeliveryTab(
        range=range,
        stations=_stations(accepted, sums, unconnected, figures.dead_letters if figures else 0),
        unconnected=unconnected,
        percentiles=_percentiles(sums),
        charts=_charts(series_log(services).of_destination(destination.id, range, now)),
        errors=causes.causes,
        errors_complete=causes.complete,
    )


def _stations(accepted: int, sums: Sums, unconnected: Unconnected | None, dead_letters: int) -> list[Station]:
    """Return the way of the events over the range; each stop counts events. ``dead_letters`` is how many there are now:
    fewer than were not delivered once some were retried or discarded."""
    counts = sums.counts
    if unconnected is not None and unconnected.is_whole:
        accepted = max(0, accepted - unconnected.events - unconnected.erased)
    filtered, attempted, delivered = counts["filtered"], counts["attempted"], counts["delivered"]
    not_delivered = max(0, counts["not_delivered"])
    under_way = max(0, attempted - delivered - not_delivered)
    beside = attempted > max(0, accepted - filtered)  # what syncs, replays and deletions send comes from no source
    first = "sent for the first time, with syncs and replays" if beside else "sent for the first time"
    by = "by its sources" if unconnected is None or not unconnected.is_whole else "by its sources while connected"
    left = "" if dead_letters >= not_delivered else f", {number(dead_letters)} left as dead letters"
    if not_delivered:
        ending = "dead" if dead_letters else "warn"
    else:
        ending = "good" if delivered else "warn" if attempted else "off"
    return [
        Station("Accepted", number(accepted), by, "good" if accepted else "off"),
        Station(
            "Not filtered",
            number(max(0, accepted - filtered)),
            f"{number(filtered)} filtered" if filtered else "none filtered",
            "good" if accepted else "off",
        ),
        Station("Attempted", number(attempted), first, "good" if attempted else "off"),
        Station(
            "Delivered",
            number(delivered),
            f"{number(not_delivered)} not delivered{left}"
            if not_delivered
            else f"{number(under_way)} not yet"
            if under_way
            else "none failed",
            ending,
        ),
    ]


def _percentiles(sums: Sums) -> list[tuple[str, str]]:
    found = ((f"p{share}", percentile(sums.response, share / 100)) for share in (50, 95, 99))
    return [(name, milliseconds(value)) for name, value in found if value is not None]


def _charts(series: Series) -> list[ChartView]:
    values = series.values
    pace = rate(series.resolution, values["delivered"], values["failures"])
    rates = [
        (Line("delivered", "good"), pace.of(values["delivered"])),
        (Line("failed requests", "dead"), pace.of(values["failures"])),
    ]
    times = [
        (Line("p50", "accent"), values["response_p50"]),
        (Line("p95", "warn"), values["response_p95"]),
    ]
    return [
        chart("rates", "Delivered and failed", pace.unit, series.times, rates),
        chart("waiting", "Queued, at most", "events", series.times, [(Line("queued", "wait"), values["waiting"])], max),
        chart("times", "Response time of successful requests", "ms", series.times, times, max),
    ]


TAB_TITLES = (
    ("delivery", "Delivery"),
    ("attempts", "Attempts"),
    ("dead-letters", "Dead letters"),
    ("mapping", "Mapping"),
    ("filters", "Filters"),
    ("tester", "Tester"),
    ("replay", "Replay"),
    ("settings", "Settings"),
    ("notices", "Notices"),
)


class DestinationHead(NamedTuple):
    """``state`` is what can be done next: ``running``, ``paused``, ``draining`` or ``off``; ``can_try`` whether what
    waits may be tried at once; ``per_second`` what it gets, ``per_hour`` what its sources sent in the last hour;
    ``issues`` how many are open."""

    view: DestinationView
    href: str
    api: str
    tabs: Sequence[tuple[str, str, bool]]
    state: str
    can_try: bool
    per_second: float
    per_hour: int
    issues: int


def destination_head(services: Services, stored: Stored[Destination], tab: str) -> DestinationHead:
    """Return the head of one destination's page, with this tab open; reads the journal, so not on an event loop."""
    destination = stored.object
    (view,) = destination_views(services, [stored])
    href = destination_href(destination.id)
    return DestinationHead(
        view=view,
        href=href,
        api=f"/api/v1{href}",
        tabs=[
            (title, f"{href}/{id}", id == tab)
            for id, title in TAB_TITLES
            if id != "mapping" or not is_webhook(destination.kind)
        ],
        state=(state := _shown_state(stored)),
        can_try=state in ("running", "draining") and bool(view.is_halted or view.standing.figures.retrying),
        per_second=rates(services.settings.data_path).get(destination.id, 0.0),
        per_hour=series_log(services).accepted(destination.sources, "1h", int(time.time())),
        issues=issue_watch(services).open.get(destination.id, 0),
    )


def _shown_state(stored: Stored[Destination]) -> str:
    if stored.lane is None:
        return "off"
    if stored.lane.until is not None:
        return "draining"
    return "running" if stored.lane.paused is None else "paused"


FIRST_TAB = "delivery"

Query = Mapping[str, str]
Tab = Callable[[Services, Stored[Destination], Query], Awaitable[object]]


async def _settings(services: Services, stored: Stored[Destination], _: Query) -> object:
    return settings_tab(services, stored.object)


TABS: dict[str, Tab] = {
    "attempts": attempts_tab,
    "delivery": delivery_tab,
    "dead-letters": dead_letters_tab,
    "filters": filters_tab,
    "mapping": mapping_tab,
    "tester": tester_tab,
    "replay": replay_tab,
    "settings": _settings,
    "notices": notices_tab,
}


class NewDestination(NamedTuple):
    """An empty form."""

    urls: list[Url]
    sources: list[tuple[str, str, bool]]
    fan_outs: tuple[tuple[str, str], ...]
    orders: tuple[tuple[str, str], ...]
    delivery: DeliveryOptions


@get("/destinations", needs="viewer")
async def show_destinations(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the list."""
    asked = query_of(request)
    view = await asyncio.to_thread(
        destination_list, services, asked.get("search", ""), asked.get("state", ""), asked.get("after", "")
    )
    return screen(request, "destinations.html", "destinations", view=view)


@get("/destinations/new", needs="editor")
async def show_new_destination(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the form that makes one."""
    urls = [Url("", "")] * WEBHOOKS_MAX
    view = NewDestination(urls, _choices_of_new(services), FAN_OUTS, ORDERS, DeliveryOptions())
    return screen(request, "destination/new.html", "destinations", view=view)


def _choices_of_new(services: Services) -> list[tuple[str, str, bool]]:
    """Return the sources to choose from; one alone is chosen, since without a source nothing would ever arrive."""
    sources = services.store.sources()
    return source_choices(services, [sources[0].object.id] if len(sources) == 1 else ())


@get("/destinations/{id:str}", needs="viewer")
async def show_destination(request: Request[Any, Any, Any], services: FromServices, id: FromPath[str]) -> Response[str]:
    """Show one destination with its first tab."""
    return await _show(request, services, id, FIRST_TAB)


@get("/destinations/{id:str}/{tab:str}", needs="viewer")
async def show_destination_tab(
    request: Request[Any, Any, Any], services: FromServices, id: FromPath[str], tab: FromPath[str]
) -> Response[str]:
    """Show one destination with this tab."""
    return await _show(request, services, id, tab)


async def _show(request: Request[Any, Any, Any], services: Services, id: str, tab: str) -> Response[str]:
    stored = services.store.destination(id)
    if stored is None or tab not in TABS:
        hint = "It was never created, or it was deleted."
        return unknown(request, "destinations", "Destination", "There is no such destination", id, hint)
    view = await TABS[tab](services, stored, query_of(request))
    head = await asyncio.to_thread(destination_head, services, stored, tab)
    return screen(request, f"destination/{tab}.html", "destinations", head=head, view=view)


PATH = "/destinations"
STATES = (("failing", "Failing"), ("paused", "Paused"), ("healthy", "Healthy"), ("off", "Disabled"))


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
    """Return the destinations that match, by name; reads the journal, so not on an event loop."""
    every = services.store.destinations()
    states = usual_states(services) if state else {}
    wanted = every if not state else [stored for stored in every if _group(states.get(stored.object.id)) == state]
    page = object_page(PATH, wanted, search, after, state=state)
    return DestinationList(
        rows=destination_rows(services, page.rows),
        asked={"search": search, "state": state},
        states=STATES,
        total=len(every),
        matched=page.matching,
        first=page.first_href,
        after=page.after_href,
    )


def _group(state: State | None) -> str:
    """Return which of ``STATES`` people look under for a destination."""
    if state in TROUBLED:
        return "failing"
    if state in ("paused", "pausing"):
        return "paused"
    return "off" if state in (None, "disabled", "draining") else "healthy"


SCREENS = Screens(
    (
        show_destinations,
        show_new_destination,
        show_destination,
        show_destination_tab,
    ),
    (Stop("destinations", "Destinations", "/destinations", "d", "M4 12h14M13 6l6 6-6 6"),),
    docs={
        "destinations": "explanation/lanes",
        "destination/new.html": "reference/receivers",
        "destination/delivery.html": "how-to/receiver-is-down",
        "destination/attempts.html": "how-to/receiver-is-down",
        "destination/dead-letters.html": "how-to/receiver-is-down",
        "destination/filters.html": "reference/filters",
        "destination/mapping.html": "how-to/send-to-any-api",
        "destination/tester.html": "reference/receivers",
        "destination/replay.html": "how-to/replay-a-day",
        "destination/notices.html": "reference/notices",
    },
)
