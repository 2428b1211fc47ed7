"""What the page of one event shows: its way as a time line, every routing decision and attempt, and the payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hookline.control.event_log import name_in
from hookline.control.services import Services
from hookline.outcomes.delivery import ReplayFate
from hookline.outcomes.fate import Attempt, DestinationFate, EventFate
from hookline.web.reasons import NO_DESTINATION, in_words
from hookline.web.way import Station

PAYLOAD_CHARACTERS_MAX = 64_000
_SENT = frozenset({"delivered", "retrying", "failed", "expired"})


class DestinationLine(NamedTuple):
    """What became of the event at one destination."""

    id: str
    name: str
    fate: str
    reason: str
    rule: str
    attempts: Sequence[Attempt]
    replays: Sequence[ReplayFate]


class EventPage(NamedTuple):
    """The whole page."""

    message_id: str
    source: str
    type: str
    name: str
    user: str
    received_at: str
    duplicates: int
    fate: str
    reason: str
    stations: Sequence[Station]
    destinations: Sequence[DestinationLine]
    payload: str


def event_page(services: Services, fate: EventFate) -> EventPage:
    """The page of an event with this fate."""
    names = {stored.object.id: stored.object.name for stored in services.store.destinations()}
    body = msgspec.json.encode(fate.event)
    return EventPage(
        message_id=fate.message_id,
        source=fate.source,
        type=fate.type,
        name=name_in(fate.type, body),
        user=fate.user_id or "",
        received_at=fate.received_at,
        duplicates=fate.duplicates,
        fate=fate.fate or "",
        reason=fate.rejection.message if fate.rejection else NO_DESTINATION if fate.fate == "not_routed" else "",
        stations=stations(fate),
        destinations=[_line(each, names) for each in fate.destinations],
        payload=pretty(body),
    )


def stations(event: EventFate) -> list[Station]:
    """The event's own way: accepted, routed, sent, delivered."""
    destinations = event.destinations
    fates = [each.fate for each in destinations]
    routed = [each for each in destinations if each.fate not in ("not_routed", "filtered", "suppressed")]
    tried = sum(len(each.attempts) for each in destinations)
    delivered = fates.count("delivered")
    refused = event.fate == "rejected"
    return [
        Station(
            "Accepted", "no" if refused else "yes", "rejected" if refused else "durable", _state(not refused, "dead")
        ),
        Station("Routed", str(len(routed)), _plural(len(routed), "destination"), _state(bool(routed), "off")),
        Station("Sent", str(tried), _plural(tried, "attempt"), _state(bool(tried), "off")),
        Station("Delivered", f"{delivered} of {len(routed)}", _ending(fates), _delivered_state(fates, delivered)),
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


def _line(each: DestinationFate, names: Mapping[str, str]) -> DestinationLine:
    return DestinationLine(
        id=each.id,
        name=names.get(each.id, each.id),
        fate=each.fate,
        reason=in_words(each.reason),
        rule=each.rule or "",
        attempts=each.attempts,
        replays=each.replays,
    )


def _delivered_state(fates: Sequence[str], delivered: int) -> str:
    if any(fate in ("failed", "expired", "expired_by_retention", "rejected") for fate in fates):
        return "dead"
    if "retrying" in fates:
        return "warn"
    if "waiting" in fates or "parked" in fates:
        return "wait"
    return "good" if delivered else "off"


def _ending(fates: Sequence[str]) -> str:
    other = [fate.replace("_", " ") for fate in dict.fromkeys(fates) if fate not in ("delivered", "not_routed")]
    return ", ".join(other)


def _state(reached: bool, otherwise: str) -> str:
    return "good" if reached else otherwise


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else noun + "s"
