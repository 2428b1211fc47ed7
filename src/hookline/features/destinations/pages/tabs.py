"""The tabs of a destination's page but for its delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args
from urllib.parse import urlencode

import msgspec

from hookline.api.services import Services, deliver_reader
from hookline.connections.model import FILTERS_MAX, WEBHOOKS_MAX, Destination, Rotation, SecretSetting
from hookline.connections.rotation import secret_of
from hookline.connections.secrets import redact
from hookline.connections.state import Stored
from hookline.events.timestamps import iso
from hookline.features.connections.api.objects import ShownCertificate, shown_certificate
from hookline.features.dead_letters.service import DeadLetter, dead_letter_of
from hookline.features.destinations.service import destination_past
from hookline.features.destinations.tester.chosen_event import SampleType, sample_event
from hookline.features.events.attempt_search import AttemptSearch, ShownAttempt
from hookline.features.events.service import attempt_log, event_log
from hookline.features.notices.pages import NoticesPage, notices_page
from hookline.features.overview.connections import SIGNATURES
from hookline.features.replays.pages import ReplayList, replay_list
from hookline.features.setup.verification import Verification, verifications_of
from hookline.journal.record import MessageType
from hookline.outcomes.outcome import Outcome
from hookline.outcomes.results import AttemptFilter, Key, attempt_key
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.web.lists import address, destination_href

ATTEMPT_ROWS = 50
ATTEMPT_FILTERS = ("outcome", "httpStatus", "url")
NEWEST: Key = (1 << 62, 0, 0, 0, 0)


class AttemptsTab(NamedTuple):
    """One page of the list."""

    rows: Sequence[ShownAttempt]
    asked: Mapping[str, str]
    outcomes: Sequence[str]
    urls: Sequence[str]
    first: str
    after: str


async def attempts_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> AttemptsTab:
    """Return the page of the list that the query asks for."""
    id = stored.object.id
    asked = {name: query.get(name, "") for name in ATTEMPT_FILTERS}
    outcomes = [outcome.value for outcome in Outcome]
    digits = asked["httpStatus"]
    status = int(digits) if digits.isascii() and digits.isdecimal() else None
    wanted = AttemptFilter(asked["outcome"] if asked["outcome"] in outcomes else None, status)
    before = attempt_key(query["after"]) if query.get("after") else None
    search = AttemptSearch(attempt_log(services), destination_past(services), event_log(services), id)
    page = await event_log(services).run(
        lambda: search.page(wanted, asked["url"] or None, ATTEMPT_ROWS, before or NEWEST)
    )
    path = destination_href(id, "attempts")
    return AttemptsTab(
        rows=page.attempts,
        asked=asked,
        outcomes=outcomes,
        urls=[webhook.url for webhook in stored.object.settings.webhooks],
        first=address(path, asked) if before else "",
        after=address(path, asked, after=page.after) if page.after else "",
    )


DEAD_LETTER_ROWS = 50
DEAD_LETTER_FILTERS = ("outcome", "type", "event", "status")
STATUSES = ("failed", "expired", "discarded")


class DeadLettersTab(NamedTuple):
    """One page; ``matched`` counts all that the filters ask for."""

    rows: Sequence[DeadLetter]
    asked: Mapping[str, str]
    outcomes: Sequence[str]
    statuses: Sequence[str]
    matched: int
    first: str
    after: str


async def dead_letters_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeadLettersTab:
    """Return the page of the list that the query asks for."""
    asked = {name: query.get(name, "") for name in DEAD_LETTER_FILTERS}
    after = query.get("after", "")
    wanted = DeadLetterFilter(
        destination=stored.object.id,
        outcome=asked["outcome"] or None,
        type=asked["type"] or None,
        event=asked["event"] or None,
        status=asked["status"] or None,
    )
    before_id = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else None
    found, counts = await asyncio.to_thread(
        lambda: (
            deliver_reader(services).dead_letters.newest(DEAD_LETTER_ROWS + 1, before_id, wanted),
            deliver_reader(services).dead_letters.count(wanted),
        )
    )
    path = destination_href(stored.object.id, "dead-letters")
    return DeadLettersTab(
        rows=[dead_letter_of(each) for each in found[:DEAD_LETTER_ROWS]],
        asked=asked,
        outcomes=[outcome.value for outcome in Outcome if outcome is not Outcome.SUCCESS],
        statuses=STATUSES,
        matched=sum(counts.values()),
        first=address(path, asked) if before_id else "",
        after=address(path, asked, after=found[DEAD_LETTER_ROWS - 1].id) if len(found) > DEAD_LETTER_ROWS else "",
    )


class FiltersTab(NamedTuple):
    """``filters`` is the API's JSON."""

    filters: str
    filters_max: int


async def filters_tab(_: Services, stored: Stored[Destination], __: Mapping[str, str]) -> FiltersTab:
    """Return what the builder begins with."""
    return FiltersTab(msgspec.json.encode(stored.object.filters).decode(), FILTERS_MAX)


async def notices_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> NoticesPage:
    """Return the page of the list that the query asks for."""
    id = stored.object.id
    return notices_page(services, query, destination_href(id, "notices"), "all", subject=id)


class ReplayTab(NamedTuple):
    """The form's choices, what the address fills in, and the list."""

    id: str
    enabled: bool
    message_id: str
    sources: list[tuple[str, str]]
    types: list[tuple[str, str]]
    replays: ReplayList


async def replay_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> ReplayTab:
    """Return the form and the page of the list that the query asks for."""
    id = stored.object.id
    return ReplayTab(
        id=id,
        enabled=stored.lane is not None,
        message_id=query.get("messageId", ""),
        sources=[(each, each) for each in stored.object.sources],
        types=[(each, each) for each in get_args(MessageType)],
        replays=replay_list(services, query, destination_href(id, "replay"), id),
    )


RECENT_EVENTS = 20


class TesterTab(NamedTuple):
    """``recent`` is where the script finds events to pick from; ``message_id`` the one that the address names."""

    samples: Sequence[str]
    samples_json: str
    recent: Sequence[str]
    message_id: str
    source: str
    verifications: Sequence[Verification]


async def tester_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> TesterTab:
    """Return what the tester begins with."""
    sources = stored.object.sources[:3]
    now = iso(services.store.now_ms())
    samples = {each: msgspec.Raw(sample_event(each, now)) for each in get_args(SampleType)}
    return TesterTab(
        samples=sorted(samples, key=lambda each: each != "track"),
        samples_json=msgspec.json.encode(samples).decode(),
        recent=[f"/api/v1/events?{urlencode({'limit': RECENT_EVENTS, 'source': source})}" for source in sources],
        message_id=query.get("messageId", ""),
        source=query.get("source", ""),
        verifications=verifications_of(stored.object.settings),
    )


SOURCES_SHOWN = 200
FAN_OUTS = (
    ("any", "Delivered when any URL accepts"),
    ("all", "Delivered when all URLs accept"),
    ("fallback", "Try the next URL only when one fails"),
)
ORDERS = (("none", "As fast as possible"), ("user", "In order for each user"))


class Url(NamedTuple):
    """One receiver URL with its headers as lines."""

    url: str
    headers: str


class Secret(NamedTuple):
    """One way to sign: ``shown`` is the masked secret, empty when there is none."""

    setting: SecretSetting
    title: str
    shown: str
    rotation: Rotation | None


class SettingsTab(NamedTuple):
    """The whole form; ``urls`` are as many as there may be, the last ones empty."""

    destination: Destination
    urls: Sequence[Url]
    sources: Sequence[tuple[str, str, bool]]
    fan_outs: Sequence[tuple[str, str]]
    orders: Sequence[tuple[str, str]]
    secrets: Sequence[Secret]
    verifications: Sequence[Verification]
    certificate: ShownCertificate | None


def settings_tab(services: Services, destination: Destination) -> SettingsTab:
    """Return the form of a destination."""
    shown = redact(destination, now_ms=services.store.now_ms())
    rotations = {rotation.setting: rotation for rotation in shown.rotations}
    urls = [Url(each.url, _lines(each.headers)) for each in shown.settings.webhooks]
    return SettingsTab(
        destination=shown,
        urls=[*urls, *[Url("", "")] * (WEBHOOKS_MAX - len(urls))],
        sources=source_choices(services, destination.sources),
        fan_outs=FAN_OUTS,
        orders=ORDERS,
        secrets=[
            Secret(setting, title, secret_of(shown.settings, setting) or "", rotations.get(setting))
            for setting, title in SIGNATURES.items()
        ],
        verifications=verifications_of(destination.settings),
        certificate=shown_certificate(services, destination),
    )


def source_choices(services: Services, connected: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Id, name and whether it is connected, of the connected sources and of others as far as there is room."""
    sources = [stored.object for stored in services.store.sources()]
    ordered = sorted(sources, key=lambda source: (source.id not in connected, source.id))
    room = max(SOURCES_SHOWN, len(connected))
    return [(source.id, source.name, source.id in connected) for source in ordered[:room]]


def _lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())
