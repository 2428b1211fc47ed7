"""Answer about destinations: the catalog of kinds, their metrics, and what a filter would do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Controller, Response, get, post
from litestar.params import FromPath, JSONBody
from msgspec.structs import replace

from hookline.api.calls import the_call
from hookline.api.listing import Back, Id, Listing
from hookline.api.problem import FieldError, Problem, not_found, pointer_of
from hookline.api.services import FromServices, Services
from hookline.connections.catalog.kinds import Call, FieldGuide, Kind, kinds
from hookline.connections.check import check_destination, check_plan
from hookline.connections.model import FILTERS_MAX, WEBHOOKS_MAX, Destination, Filter, WebhookSettings
from hookline.connections.state import Stored
from hookline.features.destinations.health import FailureCause
from hookline.features.destinations.service import failure_causes
from hookline.features.destinations.state import DestinationState, state_of
from hookline.features.events.service import event_log
from hookline.features.insights.service import series_log
from hookline.insights.columns import percentile
from hookline.insights.series_log import SPANS, Range
from hookline.route.filter_trial import (
    EVENTS_DEFAULT,
    EVENTS_MAX,
    SAMPLES_DEFAULT,
    SAMPLES_MAX,
    FilterTrial,
    try_filters,
)


class CatalogKind(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One kind: ``publishedName`` is what the ``integrations`` object of an event calls it. ``origin`` is
    the package that brought it."""

    kind: str
    name: str
    published_name: str
    description: str
    mode: str
    component: str
    source_types: Sequence[str]
    calls: Sequence[Call]
    fields: Sequence[FieldGuide]
    url_prefixes: Sequence[str]
    headers: dict[str, str]
    webhooks_max: int
    settings_schema: dict[str, Any]
    has_icon: bool
    origin: str


class CatalogEntry(CatalogKind, frozen=True, kw_only=True, rename="camel"):
    """One kind with its set-up guide, in Markdown."""

    guide: str


def catalog_kinds() -> list[CatalogKind]:
    """Return the kinds of destination there are."""
    return [CatalogKind(**_facts(kind)) for kind in kinds().values()]


def catalog_entry(id: str) -> CatalogEntry | None:
    """Return one kind; None when there is none of this id."""
    kind = kinds().get(id)
    return None if kind is None else CatalogEntry(guide=kind.guide, **_facts(kind))


@get("/catalog", needs="viewer")
async def list_catalog() -> Listing[CatalogKind]:
    """List the kinds of destination."""
    return Listing(catalog_kinds())


@get("/catalog/{kind:str}", needs="viewer")
async def get_kind(kind: FromPath[str]) -> CatalogEntry:
    """Return one kind of destination with its set-up guide."""
    entry = catalog_entry(kind)
    if entry is None:
        raise not_found("kind of destination", kind)
    return entry


@get("/catalog/{kind:str}/icon.svg", needs="viewer", media_type="image/svg+xml")
async def get_icon(kind: FromPath[str]) -> Response[str]:
    """Return the icon of a kind of destination."""
    found = kinds().get(kind)
    if found is None or not found.icon:
        raise not_found("icon of a kind", kind)
    return Response(found.icon, media_type="image/svg+xml")


def _facts(kind: Kind) -> dict[str, Any]:
    manifest = kind.manifest
    return {
        "kind": kind.id,
        "name": manifest.name,
        "published_name": manifest.published_name,
        "description": manifest.description,
        "mode": manifest.mode,
        "component": manifest.component,
        "source_types": manifest.source_types,
        "calls": manifest.calls,
        "fields": manifest.fields,
        "url_prefixes": manifest.url_prefixes,
        "headers": manifest.headers,
        "webhooks_max": WEBHOOKS_MAX,
        "settings_schema": msgspec.json.schema(WebhookSettings),
        "has_icon": bool(kind.icon),
        "origin": kind.origin,
    }


class Funnel(msgspec.Struct, frozen=True, rename="camel"):
    """The way of the events over the range: ``accepted`` of its sources, kept back by filters, tried for the first
    time, delivered, not delivered; and what is queued now. What neither was tried nor filtered was not meant for it."""

    accepted: int
    filtered: int
    attempted: int
    delivered: int
    failed: int
    waiting: int


class ResponseTimes(msgspec.Struct, frozen=True, rename="camel"):
    """How long successful requests took, in milliseconds; null where there were none."""

    p50: float | None
    p95: float | None
    p99: float | None


class DestinationMetrics(DestinationState, frozen=True, kw_only=True, rename="camel"):
    """How a destination stands, and what became of its events over ``range``. ``failures`` are requests that failed,
    ``errors`` their causes; with ``errorsComplete`` false only the newest were looked at."""

    range: Range
    funnel: Funnel
    failures: int
    retries: int
    response_milliseconds: ResponseTimes
    errors: Sequence[FailureCause]
    errors_complete: bool


@get("/destinations/{id:str}/metrics", needs="viewer")
async def get_destination_metrics(services: FromServices, object_id: Id, range: Back = "1h") -> DestinationMetrics:
    """Return how a destination stands, and what became of its events over a range."""
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return await asyncio.to_thread(metrics_of, services, stored, range)


def metrics_of(services: Services, stored: Stored[Destination], range: Range) -> DestinationMetrics:
    """Look it up; reads files, so not on an event loop."""
    current = state_of(services, stored)
    now = int(time.time())
    sums = series_log(services).sums(stored.object.id, range, now)
    causes = failure_causes(services).of(stored.object.id, (now - SPANS[range].seconds) * 1000)
    funnel = Funnel(
        accepted=series_log(services).accepted(stored.object.sources, range, now),
        filtered=sums.counts["filtered"],
        attempted=sums.counts["attempted"],
        delivered=sums.counts["delivered"],
        failed=max(0, sums.counts["not_delivered"]),
        waiting=current.waiting.events + current.waiting.retrying,
    )
    return DestinationMetrics(
        **msgspec.structs.asdict(current),
        range=range,
        funnel=funnel,
        failures=sums.counts["failures"],
        retries=sums.counts["retries"],
        response_milliseconds=ResponseTimes(*(percentile(sums.response, share) for share in (0.5, 0.95, 0.99))),
        errors=causes.causes,
        errors_complete=causes.complete,
    )


class FilterTest(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Filters to try in place of the saved ones (null: those), on so many events, with so many samples."""

    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=FILTERS_MAX)] | None = None
    events: Annotated[int, msgspec.Meta(ge=1, le=EVENTS_MAX)] = EVENTS_DEFAULT
    samples: Annotated[int, msgspec.Meta(ge=0, le=SAMPLES_MAX)] = SAMPLES_DEFAULT


class FilterTests(Controller):
    """Nothing is changed and nothing is sent."""

    path = "/destinations/{id:str}/filters"

    @post("/test", status_code=200, needs="editor")
    async def test_filters(
        self, services: FromServices, object_id: Id, data: JSONBody[FilterTest | None] = None
    ) -> FilterTrial:
        """Try filters, saved or not yet, on recent events: how many match, and samples before and after."""
        the_call().only_looked = True
        stored = services.store.destination(object_id)
        if stored is None:
            raise not_found("destination", object_id)
        wanted = data or FilterTest()
        destination = stored.object
        if wanted.filters is not None:
            destination = replace(destination, filters=wanted.filters)
        problems = [
            *(each for each in check_destination("", destination) if each.code == "invalid_filter"),
            *check_plan("", destination, services.settings.plan.level),
        ]
        if problems:
            errors = [FieldError(pointer_of(each.path), each.message) for each in problems]
            raise Problem(422, problems[0].code, f"{problems[0]}.", errors)
        return await event_log(services).over_newest(
            lambda records: try_filters(destination, records, wanted.events, wanted.samples)
        )
