"""The tabs of a destination's page but for its delivery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args
from urllib.parse import urlencode

import msgspec

from hookline.api.calls import list_thread
from hookline.api.services import Services, list_reader
from hookline.connections.model import (
    FILTERS_MAX,
    WEBHOOKS_MAX,
    Destination,
    Rotation,
    SecretSetting,
    is_sink,
    is_webhook,
)
from hookline.connections.rotation import secret_of
from hookline.connections.secrets import redact
from hookline.connections.state import Stored
from hookline.events.timestamps import iso
from hookline.features.catalog.settings_form import FormField, settings_form
from hookline.features.connections.api.objects import ShownCertificate, shown_certificate
from hookline.features.dead_letters.service import DeadLetter, dead_letter_of
from hookline.features.destinations.pages.view import SIGNATURES
from hookline.features.destinations.tester.chosen_event import SampleType, sample_event
from hookline.features.events.attempt_search import NEWEST, ShownAttempt, attempt_search
from hookline.features.events.service import event_log
from hookline.features.notices.pages import NoticesPage, notices_page
from hookline.features.people.pages import PersonLink, person_in
from hookline.features.replays.pages import ReplayList, replay_list
from hookline.features.setup.verification import Verification, verifications_of
from hookline.journal.record import MessageType
from hookline.kinds.catalog import kind_of
from hookline.kinds.model import REQUESTS_MAX, KindSettings
from hookline.kinds.settings import schema_of
from hookline.outcomes.outcome import BECAUSE, Outcome
from hookline.outcomes.request_urls import RequestUrls
from hookline.outcomes.results import AttemptFilter, attempt_key
from hookline.outcomes.rows import SavedDeadLetter
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.web.lists import TimeRange, address, by_name, destination_href, source_label, time_range

ATTEMPT_ROWS = 50
ATTEMPT_FILTERS = ("outcome", "httpStatus", "url")


class AttemptsTab(NamedTuple):
    """One page of the list."""

    rows: Sequence[ShownAttempt]
    asked: Mapping[str, str]
    range: TimeRange
    is_filtered: bool
    outcomes: Sequence[str]
    urls: Sequence[str]
    first: str
    after: str
    export: str


async def attempts_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> AttemptsTab:
    """Return the page of the list that the query asks for."""
    id = stored.object.id
    asked = {name: query.get(name, "") for name in ATTEMPT_FILTERS}
    path = destination_href(id, "attempts")
    times = time_range(path, query, asked, services.store.now_ms())
    outcomes = [outcome.value for outcome in Outcome]
    outcome = asked["outcome"] if asked["outcome"] in outcomes else None
    wanted = AttemptFilter(outcome, _http_status(asked["httpStatus"]), times.since_ms, times.until_ms)
    before = attempt_key(query["after"]) if query.get("after") else None
    search = attempt_search(services, id)
    page = await event_log(services).run(
        lambda: search.page(wanted, asked["url"] or None, ATTEMPT_ROWS, before or NEWEST)
    )
    everything = {**asked, **times.asked}
    return AttemptsTab(
        rows=page.attempts,
        asked=asked,
        range=times,
        is_filtered=any(everything.values()),
        outcomes=outcomes,
        urls=RequestUrls(stored.object).all,
        first=address(path, everything) if before else "",
        after=address(path, everything, after=page.after) if page.after else "",
        export=address(f"/api/v1{destination_href(id, 'attempts')}/export", {**asked, **times.bounds}),
    )


DEAD_LETTER_ROWS = 50
DEAD_LETTER_FILTERS = ("outcome", "httpStatus", "type", "event", "status")
STATUSES = ("failed", "expired", "discarded")


class DeadLetterRow(NamedTuple):
    """A dead letter, and the user of its event while that is stored."""

    letter: DeadLetter
    user: PersonLink


class DeadLettersTab(NamedTuple):
    """One page; ``matched`` counts all that the filters ask for, up to the dead letter with ``last_id``."""

    rows: Sequence[DeadLetterRow]
    asked: Mapping[str, str]
    range: TimeRange
    is_filtered: bool
    outcomes: Sequence[str]
    statuses: Sequence[str]
    matched: int
    last_id: int
    first: str
    after: str
    export: str


async def dead_letters_tab(services: Services, stored: Stored[Destination], query: Mapping[str, str]) -> DeadLettersTab:
    """Return the page of the list that the query asks for."""
    asked = {name: query.get(name, "") for name in DEAD_LETTER_FILTERS}
    path = destination_href(stored.object.id, "dead-letters")
    times = time_range(path, query, asked, services.store.now_ms())
    after = query.get("after", "")
    wanted = DeadLetterFilter(
        destination=stored.object.id,
        outcome=asked["outcome"] or None,
        http_status=_http_status(asked["httpStatus"]),
        type=asked["type"] or None,
        event=asked["event"] or None,
        status=asked["status"] or None,
        since_ms=times.since_ms,
        until_ms=times.until_ms,
    )
    before_id = _number(after)

    def look() -> tuple[int, list[SavedDeadLetter], int]:
        letters = list_reader(services).dead_letters
        last_id = letters.last_id()
        counted = letters.count(msgspec.structs.replace(wanted, last_id=last_id))
        return last_id, letters.newest(DEAD_LETTER_ROWS + 1, before_id, wanted), sum(counted.values())

    last_id, found, matched = await list_thread(services).run(look)
    letters = [dead_letter_of(each) for each in found[:DEAD_LETTER_ROWS]]
    records = await event_log(services).records_at([(each.partition, each.offset) for each in letters])
    everything = {**asked, **times.asked}
    return DeadLettersTab(
        rows=[
            DeadLetterRow(letter, PersonLink("", "") if record is None else person_in(record.body))
            for letter, record in zip(letters, records, strict=True)
        ],
        asked=asked,
        range=times,
        is_filtered=any(everything.values()),
        outcomes=[outcome.value for outcome in Outcome if outcome is not Outcome.SUCCESS],
        statuses=STATUSES,
        matched=matched,
        last_id=last_id,
        first=address(path, everything) if before_id else "",
        after=address(path, everything, after=letters[-1].id) if len(found) > DEAD_LETTER_ROWS else "",
        export=address("/api/v1/dead-letters/export", {**asked, **times.bounds}, destination=stored.object.id),
    )


def _number(text: str) -> int | None:
    """Return a number that an address holds; whatever else stands there asks for nothing."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


NO_STATUS = -1


def _http_status(text: str) -> int | None:
    """Return the status that a list is filtered by, None for all; what is no number, such as 5xx, is that of no answer:
    everything would be shown as if it had been asked for, with buttons that retry and discard it."""
    text = text.strip()
    number = _number(text)
    return NO_STATUS if text and number is None else number


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
    bounds: Mapping[str, str]
    """``from`` and ``to``."""
    source: str
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
        bounds=time_range("", query, {}, services.store.now_ms()).bounds,
        source=query.get("source", ""),
        sources=[(each, source_label(services.store, each).name) for each in stored.object.sources],
        types=[(each, each) for each in get_args(MessageType)],
        replays=replay_list(services, query, destination_href(id, "replay"), id),
    )


RECENT_EVENTS = 20


class TesterTab(NamedTuple):
    """``recent`` is where the script finds events to pick from; ``message_id`` the one that the address names. A
    destination of a kind without requests has its connection tested instead."""

    id: str
    is_sink: bool
    samples: Sequence[str]
    samples_json: str
    reasons_json: str
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
        id=stored.object.id,
        is_sink=is_sink(stored.object.kind),
        samples=sorted(samples, key=lambda each: each != "track"),
        samples_json=msgspec.json.encode(samples).decode(),
        reasons_json=msgspec.json.encode(BECAUSE).decode(),
        recent=[f"/api/v1/events?{urlencode({'limit': RECENT_EVENTS, 'source': source})}" for source in sources],
        message_id=query.get("messageId", ""),
        source=query.get("source", ""),
        verifications=verifications_of(stored.object.settings),
    )


class MappingTab(NamedTuple):
    """Hold what the editor begins with, each as JSON: the destination without its secrets, its own mapping or ``null``,
    and the requests of its kind. ``form`` says how its events leave."""

    form: str
    destination: str
    mapping: str
    presets: str
    samples: str
    requests_max: int


async def mapping_tab(services: Services, stored: Stored[Destination], _: Mapping[str, str]) -> MappingTab:
    """Return what the editor begins with."""
    shown = redact(stored.object, now_ms=services.store.now_ms())
    kind = kind_of(shown.kind)
    base = msgspec.structs.replace(shown, mapping=None, rotations=())
    return MappingTab(
        form="webhook" if kind is None else kind.manifest.form,
        destination=msgspec.json.encode(base).decode(),
        mapping=msgspec.json.encode(shown.mapping).decode(),
        presets=msgspec.json.encode(() if kind is None else kind.manifest.requests or ()).decode(),
        samples=msgspec.json.encode(sorted(get_args(SampleType), key=lambda each: each != "track")).decode(),
        requests_max=REQUESTS_MAX,
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
    """The whole form; ``urls`` are as many as there may be, the last ones empty. ``before`` is the destination as the
    API shows it."""

    destination: Destination
    before: str
    urls: Sequence[Url]
    sources: Sequence[tuple[str, str, bool]]
    fan_outs: Sequence[tuple[str, str]]
    orders: Sequence[tuple[str, str]]
    secrets: Sequence[Secret]
    verifications: Sequence[Verification]
    certificate: ShownCertificate | None
    is_webhook: bool
    is_sink: bool
    fields: Sequence[FormField]
    """Of the settings of a kind that is no webhook."""


def settings_tab(services: Services, destination: Destination) -> SettingsTab:
    """Return the form of a destination."""
    shown = redact(destination, now_ms=services.store.now_ms())
    rotations = {rotation.setting: rotation for rotation in shown.rotations}
    urls = [Url(each.url, _lines(each.headers)) for each in shown.settings.webhooks]
    return SettingsTab(
        destination=shown,
        before=msgspec.json.encode(shown).decode(),
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
        is_webhook=is_webhook(destination.kind),
        is_sink=is_sink(destination.kind),
        fields=settings_form(schema_of(destination.kind), shown.settings)
        if isinstance(shown.settings, KindSettings)
        else (),
    )


def source_choices(services: Services, connected: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Id, name and whether it is connected, of the connected sources and of others as far as there is room."""
    sources = [stored.object for stored in services.store.sources()]
    ordered = sorted(sources, key=lambda source: (source.id not in connected, by_name(source)))
    room = max(SOURCES_SHOWN, len(connected))
    return [(source.id, source.name, source.id in connected) for source in ordered[:room]]


def _lines(headers: dict[str, str]) -> str:
    return "\n".join(f"{name}: {value}" for name, value in headers.items())
