"""The page that leads to the first event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args
from urllib.parse import urlencode

import msgspec
from litestar import Request, Response, get
from litestar.params import FromQuery, QueryParameter

from hookline.api.handlers import FromServices
from hookline.api.services import Services
from hookline.connections.model import WEBHOOKS_MAX, Destination, Source, Webhook
from hookline.connections.rotation import new_secret, secret_of
from hookline.connections.secrets import redact
from hookline.features.catalog.api import CatalogEntry, CatalogKind, catalog_entry, catalog_kinds
from hookline.features.catalog.settings_form import FormField, settings_form
from hookline.features.destinations.tester.chosen_event import SampleType
from hookline.features.events.log import EventFilter, event_name
from hookline.features.events.service import event_log
from hookline.features.overview.connections import SourceView, source_view
from hookline.features.setup.snippets import Place, collect_url, places_of_source
from hookline.features.sources.pages import last_heard
from hookline.kinds.model import KindSettings
from hookline.outcomes.outcome import BECAUSE
from hookline.route.filters import UNFILTERED_TYPE
from hookline.web.guide_text import Block, blocks_of
from hookline.web.lists import by_name, event_href
from hookline.web.rendering import Screens, screen

SOURCES_SHOWN = 20
SEARCH_SECONDS_MAX = 0.03
EVENTS_LOOKED_AT = 20
"""For one that was not rejected."""

Tested = Literal["ok", "failed"]
StepName = Literal["source", "event", "catalog", "urls", "secret", "test", "enable", "done"]
STEPS: tuple[StepName, ...] = get_args(StepName)
TITLES: dict[StepName, str] = {
    "source": "Source",
    "event": "First event",
    "catalog": "Catalog",
    "urls": "Webhook URLs",
    "secret": "Secret",
    "test": "Test",
    "enable": "Enable",
}
WITHOUT_SIGNATURE: dict[StepName, str] = {**TITLES, "urls": "Settings"}
del WITHOUT_SIGNATURE["secret"]
"""Of kinds that are no webhooks."""


class SetupStep(NamedTuple):
    """One step; ``state`` is ``done``, ``skipped``, ``failed``, ``now`` or ``later``.

    ``href`` leads back to it and is empty before its time.
    """

    title: str
    state: str
    href: str


class FirstEvent(NamedTuple):
    """The newest event of the source that was accepted."""

    message_id: str
    name: str
    href: str


class SetupPage(NamedTuple):
    """The whole page; ``skip_href`` goes on without doing this step, ``here`` leads to this page as it is."""

    step: StepName
    steps: Sequence[SetupStep]
    here: str
    skip_href: str
    sources: Sequence[Source]
    source: SourceView | None
    places: Sequence[Place]
    heard_at: str
    event: FirstEvent | None
    kinds: Sequence[CatalogKind]
    kind: CatalogEntry | None
    """The one that is being set up."""
    fields: Sequence[FormField]
    """Of its settings, where it is no webhook."""
    guide: Sequence[Block]
    destination: Destination | None
    before: str
    """The destination as the API shows it."""
    webhooks: Sequence[Webhook | None]
    suggested_secret: str
    tested: Tested | None
    """What came of the last test. The address alone knows it: a test is not stored."""
    settings_href: str
    """Where the settings of the destination can be mended."""


async def setup_page(
    services: Services,
    source_id: str,
    destination_id: str,
    kind: str,
    wanted: StepName | None,
    tested: Tested | None = None,
) -> SetupPage:
    """Return the step that is next with this source and destination, or the one that is asked for."""
    destination = _destination(services, "" if kind else source_id, destination_id)
    source = _source(services, source_id or (destination.sources[0] if destination and destination.sources else ""))
    heard_at = last_heard(services, [source.id]).get(source.id, "") if source else ""
    kind = destination.kind if destination else kind
    entry = catalog_entry(kind) if kind else None
    signs = entry is None or entry.form == "webhook"
    reached = _reached(source, heard_at, destination, kind)
    step = wanted if wanted and STEPS.index(wanted) <= STEPS.index(_furthest(source, destination)) else reached
    if step == "secret" and not signs:
        step = "test"
    address = _Address(source.id if source else "", destination.id if destination else "", kind, tested or "")
    url = collect_url(services.settings)
    shown = redact(destination, now_ms=services.store.now_ms()) if destination else None
    webhooks = shown.settings.webhooks if shown else ()
    needs_event = step in ("event", "test") and source is not None
    return SetupPage(
        step=step,
        steps=_steps(step, address, _furthest(source, destination), _not_done(heard_at, destination, tested), signs),
        here=address.of(step),
        skip_href=address.of("urls" if step == "event" and kind else STEPS[min(STEPS.index(step) + 1, len(STEPS) - 1)]),
        sources=sorted((each.object for each in services.store.sources()), key=by_name)[:SOURCES_SHOWN]
        if step == "source"
        else [],
        source=source_view(source, url) if source else None,
        places=places_of_source(source.write_keys[0], url, source.type)
        if source and source.write_keys and step == "event"
        else [],
        heard_at=heard_at,
        event=await _first_event(services, source) if needs_event and source else None,
        kinds=catalog_kinds() if step == "catalog" else [],
        kind=entry,
        fields=() if signs or entry is None else settings_form(entry.settings_schema, _settings_of(shown)),
        guide=blocks_of(entry.guide) if entry is not None and step == "urls" else (),
        destination=shown,
        before=msgspec.json.encode(shown).decode(),
        webhooks=[*webhooks, *[None] * (WEBHOOKS_MAX - len(webhooks))],
        suggested_secret=new_secret("sharedSecret") if step == "secret" else "",
        tested=tested,
        settings_href=address.of("urls"),
    )


def _settings_of(destination: Destination | None) -> Mapping[str, Any]:
    settings = destination.settings if destination is not None else None
    return settings if isinstance(settings, KindSettings) else {}


class _Address(NamedTuple):
    source: str
    destination: str
    kind: str
    tested: str

    def of(self, step: StepName) -> str:
        named = {"source": self.source, "destination": self.destination, "kind": self.kind, "step": step}
        named["tested"] = self.tested
        return "/setup?" + urlencode({name: value for name, value in named.items() if value})


def _source(services: Services, id: str) -> Source | None:
    stored = services.store.source(id) if id else None
    return stored.object if stored else None


def _destination(services: Services, source_id: str, id: str) -> Destination | None:
    """Return the one that is named; else one of the source that was begun and never enabled, if there is a source."""
    if id:
        stored = services.store.destination(id)
        return stored.object if stored else None
    begun = (each.object for each in services.store.destinations() if not each.object.enabled and each.owner is None)
    return next((each for each in begun if source_id and source_id in each.sources), None)


def _reached(source: Source | None, heard_at: str, destination: Destination | None, kind: str) -> StepName:
    if source is None:
        return "source"
    if destination is not None:
        if destination.enabled:
            return "done"
        return "test" if secret_of(destination.settings, "sharedSecret") else "secret"
    if kind:
        return "urls"
    return "catalog" if heard_at else "event"


def _furthest(source: Source | None, destination: Destination | None) -> StepName:
    """Return the last step that makes sense with what there is."""
    if source is None:
        return "source"
    if destination is None:
        return "urls"
    return "done" if destination.enabled else "enable"


def _not_done(heard_at: str, destination: Destination | None, tested: Tested | None) -> dict[StepName, str]:
    """Return the states of the steps that can be passed without success, and were."""
    signed = destination is not None and secret_of(destination.settings, "sharedSecret") is not None
    states: dict[StepName, str] = {
        "event": "" if heard_at else "skipped",
        "secret": "" if signed else "skipped",
        "test": {"ok": "", "failed": "failed"}.get(tested or "", "skipped"),
    }
    return {step: state for step, state in states.items() if state}


def _steps(
    now: StepName, address: _Address, furthest: StepName, not_done: Mapping[StepName, str], signs: bool
) -> list[SetupStep]:
    passed = {name: not_done.get(name, "done") for name in STEPS[: STEPS.index(now)]}
    return [
        SetupStep(
            title,
            "now" if name == now else passed.get(name, "later"),
            address.of(name) if STEPS.index(name) <= STEPS.index(furthest) else "",
        )
        for name, title in (TITLES if signs else WITHOUT_SIGNATURE).items()
    ]


async def _first_event(services: Services, source: Source) -> FirstEvent | None:
    page = await event_log(services).newest(EventFilter(source=source.id), EVENTS_LOOKED_AT, None, SEARCH_SECONDS_MAX)
    # A delete message stands under the source too, and nobody sent it; what was erased has no page.
    sent = (each for each in page.events if each.record.origin == "sdk" and not each.record.erased)
    found = next((each for each in sent if each.record.rejection is None), None)
    if found is None:
        return None
    record = found.record
    name = event_name(record) or record.type
    return FirstEvent(record.message_id, name, event_href(record.message_id, record.source))


Named = Annotated[str, QueryParameter(max_length=64)]


@get("/setup", needs="viewer")
async def show_setup(
    request: Request[Any, Any, Any],
    services: FromServices,
    source: Named = "",
    destination: Named = "",
    kind: Named = "",
    step: FromQuery[StepName | None] = None,
    tested: FromQuery[Tested | None] = None,
) -> Response[str]:
    """Show the step that is next, or the one that is asked for."""
    view = await setup_page(services, source, destination, kind, step, tested)
    return screen(
        request,
        "setup.html",
        "setup",
        view=view,
        samples=[each for each in get_args(SampleType) if each != UNFILTERED_TYPE],
        reasons=BECAUSE,
    )


SCREENS = Screens((show_setup,), docs={"setup": "tutorials/first-event"})
