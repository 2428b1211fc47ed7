"""``/destinations``, ``/destinations/new`` and ``/destinations/{id}/{tab}``."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from litestar import Controller, Request, Response, get
from litestar.params import FromPath, QueryParameter

from hookline.api.services import FromServices, Services, deliver_reader
from hookline.connections.model import WEBHOOKS_MAX, DeliveryOptions, Destination
from hookline.connections.state import Stored
from hookline.features.destinations.api import CatalogKind, catalog_entry, catalog_kinds
from hookline.features.destinations.pages.tabs import (
    FAN_OUTS,
    ORDERS,
    Url,
    attempts_tab,
    dead_letters_tab,
    filters_tab,
    notices_tab,
    replay_tab,
    settings_tab,
    source_choices,
    tester_tab,
)
from hookline.features.destinations.state import WINDOW_SECONDS, FailureCause, causes_of, is_failing
from hookline.features.fleet.service import fleet_log, role_metrics
from hookline.features.insights.service import series_log
from hookline.features.notices.conditions.finding import BREAKER_OPEN
from hookline.features.overview.connections import DestinationView, Station, destination_views
from hookline.insights.series import SPANS, Range, Recent, Series, Sums, percentile
from hookline.telemetry.time_buckets import TIME_BUCKET_SECONDS, read_time_buckets
from hookline.web.chart_view import ChartView, Line, Values, chart
from hookline.web.guide_text import blocks_of
from hookline.web.lists import destination_href, object_page
from hookline.web.rendering import Screens, Stop, milliseconds, number, query_of, screen, unknown


class Flow(NamedTuple):
    """Events delivered per second, and the most that can wait."""

    per_second: float = 0.0
    waiting: int = 0


def flows(data_path: Path) -> dict[str, Flow]:
    """Return the flow of every destination that did anything; one that is missing stands still with nothing waiting."""
    time_buckets = read_time_buckets(data_path / "run")
    seconds = len(time_buckets) * TIME_BUCKET_SECONDS
    delivered: dict[str, int] = {}
    for time_bucket in time_buckets:
        for id, each in time_bucket.destinations.items():
            delivered[id] = delivered.get(id, 0) + each.delivered
    waiting = {id: each.waiting for id, each in time_buckets[-1].destinations.items()} if time_buckets else {}
    return {id: Flow(delivered[id] / seconds, waiting.get(id, 0)) for id in delivered}


RANGE: Range = "1h"


class DeliveryTab(NamedTuple):
    """The whole tab."""

    range: Range
    stations: Sequence[Station]
    percentiles: Sequence[tuple[str, str]]
    charts: Sequence[ChartView]
    errors: Sequence[FailureCause]
    errors_complete: bool


async def delivery_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeliveryTab:
    """Return the tab, for the range asked for."""
    asked = query.get("range", RANGE)
    range: Range = asked if asked in SPANS else RANGE  # type: ignore[assignment]  # its keys are the ranges
    return await asyncio.to_thread(_read, services, stored.object, range)


def _read(services: Services, destination: Destination, range: Range) -> DeliveryTab:
    now = int(time.time())
    sums = series_log(services).sums(destination.id, range, now)
    causes = causes_of(deliver_reader(services), destination.id, (now - SPANS[range].seconds) * 1000)
    accepted = series_log(services).accepted(destination.sources, range, now)
    flow = flows(services.settings.data_path).get(destination.id, Flow())
    return DeliveryTab(
        range=range,
        stations=_stations(accepted, sums, flow),
        percentiles=_percentiles(sums),
        charts=_charts(series_log(services).of_destination(destination.id, range, now)),
        errors=causes.causes,
        errors_complete=causes.complete,
    )


def _stations(accepted: int, sums: Sums, flow: Flow) -> list[Station]:
    counts = sums.counts
    filtered, attempted, delivered = counts["filtered"], counts["attempted"], counts["delivered"]
    not_delivered, failures = max(0, counts["not_delivered"]), counts["failures"]
    ending = "dead" if not_delivered else "warn" if failures and not delivered else "good" if delivered else "off"
    return [
        Station("Accepted", number(accepted), "by its sources", "good" if accepted else "off"),
        Station(
            "Not filtered",
            number(max(0, accepted - filtered)),
            f"{number(filtered)} filtered" if filtered else "none filtered",
            "good" if accepted else "off",
        ),
        Station(
            "Attempted",
            number(attempted),
            f"{number(flow.waiting)} queued" if flow.waiting else "nothing queued",
            "wait" if flow.waiting else "good" if attempted else "off",
        ),
        Station(
            "Delivered",
            number(delivered),
            f"{number(not_delivered)} not delivered" if not_delivered else f"{number(failures)} failed requests",
            ending,
        ),
    ]


def _percentiles(sums: Sums) -> list[tuple[str, str]]:
    found = ((f"p{share}", percentile(sums.response, share / 100)) for share in (50, 95, 99))
    return [(name, milliseconds(value)) for name, value in found if value is not None]


def _charts(series: Series) -> list[ChartView]:
    values = series.values

    def per_second(name: str) -> Values:
        return [None if each is None else each / series.resolution for each in values[name]]

    rates = [
        (Line("delivered", "good"), per_second("delivered")),
        (Line("failed requests", "dead"), per_second("failures")),
    ]
    times = [
        (Line("p50", "accent"), values["response_p50"]),
        (Line("p95", "warn"), values["response_p95"]),
    ]
    return [
        chart("rates", "Delivered and failed", "per second", series.times, rates),
        chart("waiting", "Queued, at most", "events", series.times, [(Line("queued", "wait"), values["waiting"])], max),
        chart("times", "Response time of successful requests", "ms", series.times, times, max),
    ]


TAB_TITLES = (
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
        tabs=[(title, f"{href}/{id}", id == tab) for id, title in TAB_TITLES],
        state=(state := _shown_state(stored)),
        can_try=state in ("running", "draining") and bool(view.kind == "dead" or view.retrying),
        flow=flows(services.settings.data_path).get(destination.id, Flow()),
        per_hour=series_log(services).accepted(destination.sources, "1h", int(time.time())),
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
    view = destination_list(services, asked.get("search", ""), asked.get("state", ""), asked.get("after", ""))
    return screen(request, "destinations.html", "destinations", view=view)


@get("/destinations/new", needs="editor")
async def show_new_destination(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the form that makes one."""
    urls = [Url("", "")] * WEBHOOKS_MAX
    view = NewDestination(urls, source_choices(services, ()), FAN_OUTS, ORDERS, DeliveryOptions())
    return screen(request, "destination/new.html", "destinations", view=view)


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
    head = destination_head(services, stored, tab)
    return screen(request, f"destination/{tab}.html", "destinations", head=head, view=view)


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


class CatalogScreens(Controller):
    """Reading only."""

    path = "/catalog"

    @get(needs="viewer")
    async def show_catalog(
        self,
        request: Request[Any, Any, Any],
        services: FromServices,
        search: Annotated[str, QueryParameter(max_length=200)] = "",
    ) -> Response[str]:
        """Show the kinds, those that match a search."""
        wanted = search.strip().casefold()
        kinds = [kind for kind in catalog_kinds() if wanted in _text_of(kind)]
        used = Counter(stored.object.kind for stored in services.store.destinations())
        return screen(request, "catalog.html", "catalog", kinds=kinds, used=used, search=search)

    @get("/{kind:str}", needs="viewer")
    async def show_kind(self, request: Request[Any, Any, Any], kind: FromPath[str]) -> Response[str]:
        """Show one kind with its guide."""
        entry = catalog_entry(kind)
        if entry is None:
            hint = "No installed package provides it."
            return unknown(request, "catalog", "Catalog", "There is no destination kind with this name", kind, hint)
        return screen(request, "catalog_kind.html", "catalog", kind=entry, guide=blocks_of(entry.guide))


def _text_of(kind: CatalogKind) -> str:
    return f"{kind.kind} {kind.name} {kind.published_name} {kind.description}".casefold()


SCREENS = Screens(
    (
        CatalogScreens,
        show_destinations,
        show_new_destination,
        show_destination,
        show_destination_tab,
    ),
    (
        Stop("destinations", "Destinations", "/destinations", "d", "M4 12h14M13 6l6 6-6 6"),
        Stop("catalog", "Catalog", "/catalog", "c", "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z"),
    ),
)
