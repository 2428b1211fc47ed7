"""``/api/v1/destinations/{id}/metrics``: how a destination stands, and what became of its events over a range."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec
from litestar import get

from hookline.api.listing import Back, Id
from hookline.api.problem import not_found
from hookline.api.services import FromServices, Services
from hookline.connections.model import Destination
from hookline.connections.state import Stored
from hookline.features.destinations.health import FailureCause
from hookline.features.destinations.service import failure_causes
from hookline.features.destinations.state import DestinationState, state_of
from hookline.features.insights.service import series_log
from hookline.insights.percentile import percentile
from hookline.insights.resolutions import SPANS, Range


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
