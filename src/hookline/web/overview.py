"""What the first page shows: the way of the events, what is running, sources, destinations, the last events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote

from hookline.connections.model import Destination, Source
from hookline.connections.state import Stored
from hookline.control.destination_health import Failure, Health
from hookline.control.event_log import EventFilter, LoggedEvent, event_name
from hookline.control.role_metrics import RoleReport
from hookline.control.services import Services
from hookline.telemetry.metrics import PROCESS_MEMORY, PROCESS_STARTED
from hookline.web.rendering import iso_seconds, number
from hookline.web.snippets import Snippet, collect_url, host_of, of_source

EVENTS_SHOWN = 20
THINGS_SHOWN = 50
NO_DESTINATION = "No destination is connected to this source."
BREAKER_OPEN = "hookline_deliver_breaker_open"
ROLES = ("collect", "deliver", "control")
# The fate that matters most to somebody who looks stands for the whole event.
URGENCY = (
    "failed",
    "expired",
    "expired_by_retention",
    "rejected",
    "retrying",
    "parked",
    "waiting",
    "delivered",
)


class Station(NamedTuple):
    """One stop on the way, with its count."""

    name: str
    value: str
    note: str
    state: str


class Aside(NamedTuple):
    """A number beside the way: what waits, failed or was left out."""

    kind: str
    shape: str
    value: str
    word: str


class RoleView(NamedTuple):
    """One process."""

    name: str
    kind: str
    shape: str
    word: str
    since: str | None
    memory: str | None


class EventView(NamedTuple):
    """One row of the last events."""

    key: str
    href: str
    type: str
    name: str
    message_id: str
    user: str
    source: str
    received_at: str
    fate: str
    reason: str
    more: int


class SourceView(NamedTuple):
    """One source with its lines to paste."""

    id: str
    name: str
    type: str
    kind: str
    shape: str
    word: str
    keys: Sequence[str]
    snippets: Sequence[Snippet]


class DestinationView(NamedTuple):
    """One destination and how it is doing."""

    id: str
    name: str
    hosts: Sequence[str]
    sources: Sequence[str]
    signed: bool
    kind: str
    shape: str
    word: str
    retrying: int
    dead_letters: int
    problem: Failure | None


class Step(NamedTuple):
    """One of the first steps."""

    title: str
    text: str
    paste: str
    done: bool
    now: bool


class First(NamedTuple):
    """What a new installation shows until its first event was delivered."""

    title: str
    steps: Sequence[Step]
    watching: str


class Overview(NamedTuple):
    """The whole page."""

    stations: Sequence[Station]
    asides: Sequence[Aside]
    roles: Sequence[RoleView]
    first: First | None
    events: Sequence[EventView]
    destinations: Sequence[DestinationView]
    destinations_more: int
    sources: Sequence[SourceView]
    sources_more: int
    create_source: str


async def overview(services: Services) -> Overview:
    """Gather the page as it is now."""
    reports = services.metrics.reports()
    sources, destinations = services.store.sources(), services.store.destinations()
    page = await services.events.newest(EventFilter(), EVENTS_SHOWN)
    stations, asides = the_way(reports)
    return Overview(
        stations=stations,
        asides=asides,
        roles=[role_view(name, reports.get(name)) for name in ROLES],
        first=first_steps(services, sources, destinations, page.events),
        events=[event_view(logged) for logged in page.events],
        destinations=destination_views(services, destinations[:THINGS_SHOWN]),
        destinations_more=max(0, len(destinations) - THINGS_SHOWN),
        sources=[source_view(stored.object, collect_url(services.settings)) for stored in sources[:THINGS_SHOWN]],
        sources_more=max(0, len(sources) - THINGS_SHOWN),
        create_source=create_source_line(services),
    )


def event_view(logged: LoggedEvent) -> EventView:
    """One row."""
    fate = logged.fate
    # Destinations that the source does not feed are told on the event's own page; here they would be noise.
    concerned = [each for each in fate.destinations if each.fate != "not_routed"] or list(fate.destinations)
    ranked = sorted(concerned, key=lambda each: _urgency(each.fate))
    reason = fate.rejection.message if fate.rejection else ranked[0].reason if ranked else NO_DESTINATION
    return EventView(
        key=logged.cursor,
        href=event_href(fate.message_id, fate.source),
        type=logged.record.type,
        name=event_name(logged.record),
        message_id=fate.message_id,
        user=logged.record.user_key,
        source=fate.source,
        received_at=fate.received_at,
        fate=fate.fate or ranked[0].fate,
        reason=reason or "",
        more=max(0, len(ranked) - 1) if ranked and ranked[0].fate != "not_routed" else 0,
    )


def event_href(message_id: str, source: str) -> str:
    """The page of one event."""
    return f"/events/{quote(message_id, safe='')}?source={quote(source, safe='')}"


def source_view(source: Source, url: str) -> SourceView:
    """One source."""
    kind, shape, word = ("good", "●", "enabled") if source.enabled else ("off", "○", "off")
    snippets = of_source(source.write_keys[0], url) if source.write_keys else []
    return SourceView(source.id, source.name, source.type, kind, shape, word, source.write_keys, snippets)


def destination_views(services: Services, destinations: Sequence[Stored[Destination]]) -> list[DestinationView]:
    """Every destination with its health."""
    lanes = {stored.object.id: stored.lane.number for stored in destinations if stored.lane is not None}
    healths = services.health.of_lanes(lanes)
    deliver = services.metrics.reports().get("deliver")
    open_breakers = {id for id, value in deliver.by_label(BREAKER_OPEN).items() if value} if deliver else set()
    return [
        _destination_view(stored.object, healths.get(stored.object.id), stored.object.id in open_breakers)
        for stored in destinations
    ]


def _destination_view(destination: Destination, health: Health | None, breaker_open: bool) -> DestinationView:
    kind, shape, word = _destination_state(destination, health, breaker_open)
    health = health or Health()
    return DestinationView(
        id=destination.id,
        name=destination.name,
        hosts=[host_of(webhook.url) for webhook in destination.settings.webhooks],
        sources=destination.sources,
        signed=destination.settings.shared_secret is not None,
        kind=kind,
        shape=shape,
        word=word,
        retrying=health.retrying,
        dead_letters=health.dead_letters,
        problem=health.failure if kind in ("warn", "dead") else None,
    )


def _destination_state(destination: Destination, health: Health | None, breaker_open: bool) -> tuple[str, str, str]:
    if not destination.enabled or health is None:
        return "off", "○", "off"
    if breaker_open:
        return "dead", "■", "not answering; events wait"
    if health.retrying:
        return "warn", "▲", "failing; trying again"
    if health.detached:
        return "wait", "◔", "catching up"
    return "good", "●", "healthy"


def create_source_line(services: Services) -> str:
    """A line that creates the first source."""
    host = services.settings.control.public_url or "http://" + services.settings.control.listen
    return (
        f'curl {host}/api/v1/sources -H "Authorization: Bearer $(cat {services.settings.data_path}/admin-token)" \\\n'
        '  -d \'{"id": "website", "name": "Website", "type": "web"}\''
    )


def first_steps(
    services: Services,
    sources: Sequence[Stored[Source]],
    destinations: Sequence[Stored[Destination]],
    events: Sequence[LoggedEvent],
) -> First | None:
    """The first steps, None once an event was seen and there is a destination."""
    if events and sources and destinations:
        return None
    keys = _first_keys(sources, destinations)
    line = of_source(keys[0], collect_url(services.settings))[0].text if keys else ""
    open_steps = [not sources, not destinations, not events]
    current = open_steps.index(True)
    steps = [
        Step(
            "Create a source",
            "A source is a website, app or server that sends events; its write key names it.",
            create_source_line(services),
            bool(sources),
            current == 0,
        ),
        Step(
            "Connect a receiver",
            "This starts one on this machine, connects it, and shows what arrives, signature checked.",
            "hookline listen",
            bool(destinations),
            current == 1,
        ),
        Step("Send a first event", "Any Segment SDK works; so does this line.", line, bool(events), current == 2),
    ]
    watching = ("Waiting for the first source…", "Waiting for a destination…", "Waiting for the first event…")[current]
    return First("First steps", steps, watching)


def _first_keys(sources: Sequence[Stored[Source]], destinations: Sequence[Stored[Destination]]) -> list[str]:
    """Write keys, those first whose events go somewhere."""
    fed = {id for stored in destinations for id in stored.object.sources}
    ordered = sorted(
        (stored.object for stored in sources if stored.object.enabled), key=lambda each: each.id not in fed
    )
    return [key for source in ordered for key in source.write_keys]


def role_view(name: str, report: RoleReport | None) -> RoleView:
    """One process, from its last report."""
    if report is None:
        return RoleView(name, "wait", "◔", "no report yet", None, None)
    if not report.fresh:
        return RoleView(name, "dead", "■", "no report for more than 5 s", None, None)
    started, memory = report.number(PROCESS_STARTED), report.number(PROCESS_MEMORY)
    since = iso_seconds(started) if started else None
    return RoleView(name, "good", "●", "running", since, f"{number(memory / 1024**2)} MB" if memory else None)


def the_way(reports: Mapping[str, RoleReport]) -> tuple[list[Station], list[Aside]]:
    """The four stations and the numbers beside them; counts are since the roles started."""
    nothing = RoleReport("", False, {})
    collect, deliver = reports.get("collect", nothing), reports.get("deliver", nothing)
    accepted = collect.number("hookline_collect_accepted_total")
    read = deliver.number("hookline_deliver_read_total")
    lag = deliver.number("hookline_deliver_lag_events")
    delivered = deliver.number("hookline_deliver_delivered_total")
    failures = deliver.number("hookline_deliver_failures_total")
    behind = f"{number(lag)} behind" if lag else "nothing behind"
    stations = [
        Station("Accepted", number(accepted), "durable on disk", _reached(accepted)),
        Station("Routed", number(read), behind, "wait" if lag else _reached(read)),
        Station("Sent", number(delivered + failures), _share(failures, delivered + failures), _reached(delivered)),
        Station("Delivered", number(delivered), _latency(deliver), _reached(delivered)),
    ]
    return stations, _asides(collect, deliver)


def _reached(count: float) -> str:
    return "good" if count else "off"


def _asides(collect: RoleReport, deliver: RoleReport) -> list[Aside]:
    items = (
        ("wait", "◔", deliver.number("hookline_deliver_queued"), "on their way"),
        ("warn", "▲", deliver.number("hookline_deliver_retry_rows"), "waiting for a retry"),
        ("dead", "■", deliver.number("hookline_deliver_dead_letters_total"), "given up"),
        ("dead", "■", collect.number("hookline_collect_rejected_total"), "rejected"),
        ("off", "○", deliver.number("hookline_deliver_duplicates_total"), "duplicates dropped"),
    )
    return [Aside(kind, shape, number(value), word) for kind, shape, value, word in items if value]


def _share(failures: float, requests: float) -> str:
    return f"{failures / requests:.1%} failed" if failures and requests else "none failed"


def _latency(deliver: RoleReport) -> str:
    """The median from acceptance to the receiver's answer, as far as the buckets tell."""
    histogram = deliver.values.get("hookline_deliver_latency_seconds")
    if not isinstance(histogram, dict):
        return ""
    buckets = histogram.get("buckets", {})
    half, seen = sum(buckets.values()) / 2, 0
    for bound, count in buckets.items():
        seen += count
        if seen >= half > 0 and bound != "+Inf":
            return f"half within {number(float(bound) * 1000)} ms"
    return "to receivers" if seen == 0 else "half after more than 5 s"


def _urgency(fate: str) -> int:
    return URGENCY.index(fate) if fate in URGENCY else len(URGENCY)
