"""Show the debugger, and the page of one event."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args

import msgspec
from litestar import Request, Response, get
from litestar.params import FromPath, QueryParameter
from msgspec.structs import replace

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.connections.model import Destination, Source
from hookline.connections.state import Stored
from hookline.events.warnings import EventWarning
from hookline.features.events.api import id_in_path
from hookline.features.events.log import title_in
from hookline.features.events.service import event_log
from hookline.features.people.pages import PersonLink, person_link
from hookline.features.setup.snippets import collect_url
from hookline.features.setup.verification import Verification, verifications_of
from hookline.journal.record import MessageType
from hookline.outcomes.delivery import ReplayStatus, rule_and_version
from hookline.outcomes.event_status import Attempt, DestinationStatus, EventStatus
from hookline.outcomes.outcome import BECAUSE, DeliveryStatus, because, urgency
from hookline.route.filters import NO_REQUEST
from hookline.web.lists import RANGES, Label, address, by_name, destination_href, destination_label, source_label
from hookline.web.rendering import MARKS, Screens, Station, Stop, screen, unknown

NO_DESTINATION = "No destination is connected to this source."

SOURCES_SHOWN = 200
"""Sources to pick from; with more of them the others are named in the address."""
FILTERS = ("text", "type", "event", "userId", "source", "destination", "status", "range", "from", "to")
FILTER_CHARACTERS_MAX = 1_000


class DebuggerPage(NamedTuple):
    """Hold what the script begins with; ``marks``, ``reasons`` and ``keys`` (write key by source) are JSON."""

    asked: Mapping[str, str]
    types: Sequence[tuple[str, str]]
    sources: Sequence[tuple[str, str]]
    destinations: Sequence[tuple[str, str]]
    statuses: Sequence[tuple[str, str]]
    ranges: Sequence[tuple[str, str]]
    export: str
    marks: str
    reasons: str
    keys: str
    collect: str


@get("/events", needs="viewer")
async def show_debugger(request: Request[Any, Any, Any], services: FromServices) -> Response[str]:
    """Show the debugger with the filters of the address, or the event of a ``messageId`` that no path can hold."""
    if message_id := request.query_params.get("messageId"):
        return await _event(request, services, message_id, request.query_params.get("source"))
    asked = {name: request.query_params.get(name, "")[:FILTER_CHARACTERS_MAX] for name in FILTERS}
    return screen(request, "debugger.html", "events", view=debugger_page(services, asked))


def debugger_page(services: Services, asked: Mapping[str, str]) -> DebuggerPage:
    """Return the debugger's choices."""
    sources = sorted((stored.object for stored in services.store.sources()), key=by_name)[:SOURCES_SHOWN]
    destinations = sorted((stored.object for stored in services.store.destinations()), key=by_name)[:SOURCES_SHOWN]
    ranked = sorted(DeliveryStatus, key=urgency)
    marks: list[dict[str, object]] = [
        {**dict(zip(("kind", "shape", "word"), MARKS[status], strict=True)), "status": status} for status in ranked
    ]
    return DebuggerPage(
        asked=asked,
        types=[(each, each) for each in get_args(MessageType)],
        sources=_choices(sources, asked["source"], source_label(services.store, asked["source"])),
        destinations=_choices(
            destinations, asked["destination"], destination_label(services.store, asked["destination"])
        ),
        ranges=[(name, name) for name in RANGES],
        export="/api/v1/events/export",
        statuses=[(status.value, MARKS[status][2]) for status in ranked],
        marks=msgspec.json.encode(marks).decode(),
        reasons=msgspec.json.encode(BECAUSE).decode(),
        keys=msgspec.json.encode({each.id: each.write_keys[0] for each in sources if each.write_keys}).decode(),
        collect=collect_url(services.settings),
    )


def _choices(objects: Sequence[Source] | Sequence[Destination], asked: str, found: Label) -> list[tuple[str, str]]:
    named = [(each.id, each.name) for each in objects]
    return named if not asked or asked in dict(named) else [*named, (asked, found.name)]


PAYLOAD_CHARACTERS_MAX = 64_000
SENT_TYPES = frozenset({"identify", "track", "page", "screen", "group", "alias"})
"""Message types that the collection API has an address for."""


class EventMark(NamedTuple):
    """Hold what a row says of an event: the status that matters most, or how many of several destinations have got it;
    ``each`` names them all."""

    status: str
    word: str
    each: str


ASIDE = frozenset({"not_routed", "filtered", "suppressed", "duplicate"})
"""Statuses of destinations that were never to get the event."""


def event_mark(event: EventStatus) -> EventMark:
    """Return it; the debugger's list does the same (static/debugger.js)."""
    # Destinations that the event was not routed to are told beside the list and on its page; here they would be noise.
    concerned = [each for each in event.destinations if each.status != "not_routed"] or list(event.destinations)
    ranked = sorted(concerned, key=lambda each: urgency(each.status))
    status = event.status or ranked[0].status
    due = [each for each in concerned if each.status not in ASIDE]
    if event.rejection is not None or len(due) < 2:
        unsent = NO_DESTINATION if event.status == "not_routed" else ""
        reason = event.rejection.message if event.rejection else ranked[0].reason if ranked else unsent
        return EventMark(status, "", because(reason))
    delivered = sum(each.status == "delivered" for each in due)
    named = (f"{each.id} {MARKS[each.status][2] if each.status in MARKS else each.status}" for each in ranked)
    return EventMark(status, f"{delivered} of {len(due)} delivered", ", ".join(named))


class DestinationLine(NamedTuple):
    """Hold what became of the event at one destination."""

    id: str
    name: str
    href: str
    enabled: bool
    status: str
    reason: str
    rule: str
    rule_page: str
    """Of the destination, where the rule can be changed; empty if there is none."""
    version: int | None
    """Of the connections that the rule is of."""
    attempts: Sequence[Attempt]
    replays: Sequence[ReplayStatus]


class EventPage(NamedTuple):
    """The whole page. ``payload`` is the caller's text, ``curl`` the line that sends it again, ``message_ids`` the
    event's id as a JSON list."""

    message_id: str
    source: str
    type: str
    name: str
    user: PersonLink
    received_at: str
    duplicates: int
    warnings: Sequence[EventWarning]
    status: str
    reason: str
    connect_href: str
    """Where a destination is connected to the source; empty where that is not the reason."""
    stations: Sequence[Station]
    destinations: Sequence[DestinationLine]
    payload: str
    curl: str
    message_ids: str
    verifications: Sequence[Verification]


def event_page(services: Services, event: EventStatus) -> EventPage:
    """Return the page of an event."""
    ordered = sorted(event.destinations, key=lambda each: each.status == "not_routed")
    found = ((each, services.store.destination(each.id)) for each in ordered)
    body = msgspec.json.encode(event.event)
    return EventPage(
        message_id=event.message_id,
        source=event.source,
        type=event.type,
        name=title_in(event.type, body),
        user=person_link(event),
        received_at=event.received_at,
        duplicates=event.duplicates,
        warnings=event.warnings,
        status=event.status or "",
        reason=event.rejection.message if event.rejection else NO_DESTINATION if event.status == "not_routed" else "",
        connect_href=address("/setup", {"source": event.source}, step="catalog")
        if event.status == "not_routed" and services.store.source(event.source) is not None
        else "",
        stations=stations(event),
        destinations=[_line(each, stored) for each, stored in found],
        payload=_text(body),
        curl=_curl(services, event, body),
        message_ids=msgspec.json.encode([event.message_id]).decode(),
        verifications=_verifications(services, event),
    )


def stations(event: EventStatus) -> list[Station]:
    """Return the event's own way: accepted, routed, sent, delivered."""
    destinations = event.destinations
    statuses: list[str] = [each.status for each in destinations]
    routed = [each for each in destinations if each.status not in ("not_routed", "filtered", "suppressed")]
    tried = sum(len(each.attempts) for each in destinations)
    delivered = statuses.count("delivered")
    refused = event.status == "rejected"
    return [
        Station(
            "Accepted",
            "no" if refused else "yes",
            "rejected" if refused else "stored on disk",
            _state(not refused, "dead"),
        ),
        Station("Routed", str(len(routed)), _plural(len(routed), "destination"), _state(bool(routed), "off")),
        Station("Sent", str(tried), _plural(tried, "attempt"), _state(bool(tried), "off")),
        Station(
            "Delivered",
            f"{delivered} of {len(routed)}" if routed else "0",
            _ending(statuses),
            _delivered_state(statuses, delivered),
        ),
    ]


def pretty(body: bytes) -> str:
    """JSON for reading, cut where a browser would tire; other bytes as text."""
    if not body:
        return ""
    try:
        text = msgspec.json.format(body, indent=2).decode("utf-8", "replace")
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
    return text if len(text) <= PAYLOAD_CHARACTERS_MAX else text[:PAYLOAD_CHARACTERS_MAX] + "\n…"


def _text(body: bytes) -> str:
    """Return the caller's text, cut where a browser would tire."""
    text = body.decode("utf-8", "replace")
    return text if len(text) <= PAYLOAD_CHARACTERS_MAX else text[:PAYLOAD_CHARACTERS_MAX] + "\n…"


def _curl(services: Services, event: EventStatus, body: bytes) -> str:
    """Return the line that sends the event once more, empty for what could not be sent."""
    source = services.store.source(event.source)
    if event.rejection is not None or event.type not in SENT_TYPES or source is None:
        return ""
    key = source.object.write_keys[0] if source.object.write_keys else "WRITE_KEY"
    parts = [f"{collect_url(services.settings)}/v1/{event.type}", f"{key}:", body.decode("utf-8", "replace")]
    url, user, data = map(shlex.quote, parts)
    return f"curl {url} -u {user} -H 'Content-Type: application/json' \\\n  --data-binary {data}"


def _verifications(services: Services, event: EventStatus) -> list[Verification]:
    """Return how the receivers of the event verify it, each way once."""
    ways: dict[str, Verification] = {}
    for each in event.destinations:
        stored = services.store.destination(each.id) if each.attempts else None
        ways |= {way.id: way for way in verifications_of(stored.object.settings)} if stored is not None else {}
    return list(ways.values())


def _line(each: DestinationStatus, stored: Stored[Destination] | None) -> DestinationLine:
    rule, version = rule_and_version(each.rule or "")
    href = destination_href(each.id) if stored is not None else ""
    return DestinationLine(
        id=each.id,
        name=stored.object.name if stored is not None else each.id,
        href=href,
        enabled=stored is not None and stored.lane is not None,
        status=each.status,
        reason=each.detail or because(each.reason),
        rule=rule,
        rule_page=f"{href}/{'mapping' if rule == NO_REQUEST else 'filters'}" if rule and href else "",
        version=version,
        attempts=each.attempts,
        replays=[replace(replay, reason=because(replay.reason)) for replay in each.replays],
    )


def _delivered_state(statuses: Sequence[str], delivered: int) -> str:
    if any(status in ("failed", "expired", "expired_by_retention", "rejected") for status in statuses):
        return "dead"
    if "retrying" in statuses:
        return "warn"
    if "queued" in statuses:
        return "wait"
    return "good" if delivered else "off"


def _ending(statuses: Sequence[str]) -> str:
    counts = Counter(status for status in statuses if status not in ("delivered", "not_routed"))
    return ", ".join(f"{count} {MARKS[status][2] if status in MARKS else status}" for status, count in counts.items())


def _state(reached: bool, otherwise: str) -> str:
    return "good" if reached else otherwise


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else noun + "s"


SourceId = Annotated[str | None, QueryParameter(max_length=1_000)]


@get("/events/{message_id:path}", needs="viewer")
async def show_event(
    request: Request[Any, Any, Any],
    services: FromServices,
    message_id: FromPath[str],
    source: SourceId = None,
) -> Response[str]:
    """Show one event."""
    return await _event(request, services, id_in_path(request, "/events/"), source)


async def _event(request: Request[Any, Any, Any], services: Services, wanted: str, source: str | None) -> Response[str]:
    event = await event_log(services).of_message(wanted, source)
    if event is None:
        reason = await event_log(services).why_unknown(wanted, source)
        hint = f"{reason[:1].upper()}{reason[1:]}."
        return unknown(request, "events", "Event", "No event has this message id", wanted, hint)
    return screen(request, "event.html", "events", view=event_page(services, event))


SCREENS = Screens(
    (
        show_debugger,
        show_event,
    ),
    (Stop("events", "Events", "/events", "e", "M4 6h16M4 12h16M4 18h10"),),
    docs={"events": "reference/collection", "event.html": "explanation/lanes"},
)
