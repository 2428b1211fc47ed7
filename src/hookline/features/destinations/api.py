"""Answer calls about destinations, and act on them: metrics, what a filter would do; pause, resume, try now, new
secrets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from litestar import Controller, get, post
from litestar.params import JSONBody
from msgspec.structs import replace

from hookline.api.audit.log import AuditChange
from hookline.api.calls import current_author, note_unchanged, the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import Back, Id
from hookline.api.problem import FieldError, Problem, not_found, pointer_of
from hookline.api.services import Services, deliver_reader
from hookline.connections.check import check_destination, check_plan
from hookline.connections.edits import Put
from hookline.connections.model import (
    FILTERS_MAX,
    Destination,
    Filter,
    Pause,
    SecretSetting,
)
from hookline.connections.rotation import RotationRefused, end_overlap, new_secret, rotate, setting_to_rotate
from hookline.connections.secrets import redact, stands_for_stored
from hookline.connections.state import Stored
from hookline.features.connections.api.objects import change, refused_as_problem
from hookline.features.connections.service import journal_ends
from hookline.features.destinations.figures import Figures
from hookline.features.destinations.service import lane_watch
from hookline.features.destinations.state import DestinationState, FailureCause, State, causes_of, is_halted, state_of
from hookline.features.events.attempt_search import last_ending
from hookline.features.events.service import event_log
from hookline.features.insights.service import series_log
from hookline.features.replays.service import ask_deliver
from hookline.insights.series import SPANS, Range, percentile
from hookline.route.filter_trial import (
    EVENTS_DEFAULT,
    EVENTS_MAX,
    SAMPLES_DEFAULT,
    SAMPLES_MAX,
    FilterTrial,
    try_filters,
)
from hookline.settings import parse_duration
from hookline.telemetry.log import logger


class Funnel(msgspec.Struct, frozen=True, rename="camel"):
    """The events of the range: ``accepted`` from its sources, stopped by filters, tried for the first time, delivered,
    not delivered. Events that were neither tried nor filtered are queued, or were not routed to it."""

    accepted: int
    filtered: int
    attempted: int
    delivered: int
    failed: int


class ResponseTimes(msgspec.Struct, frozen=True, rename="camel"):
    """Response times of successful requests in milliseconds; null if there were none."""

    p50: float | None
    p95: float | None
    p99: float | None


class DestinationMetrics(DestinationState, frozen=True, kw_only=True, rename="camel"):
    """The state of a destination, and counts of its events over ``range``. ``failures`` are failed requests, ``errors``
    their causes. If ``errorsComplete`` is false, only the newest were examined.
    """

    range: Range
    funnel: Funnel
    failures: int
    retries: int
    response_milliseconds: ResponseTimes
    errors: Sequence[FailureCause]
    errors_complete: bool


@get("/destinations/{id:str}/metrics", needs="viewer")
async def get_destination_metrics(services: FromServices, object_id: Id, range: Back = "1h") -> DestinationMetrics:
    """Return the state of a destination and the counts of its events over a range."""
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return await asyncio.to_thread(metrics_of, services, stored, range)


def metrics_of(services: Services, stored: Stored[Destination], range: Range) -> DestinationMetrics:
    """Look it up; reads files, so not on an event loop."""
    current = state_of(services, stored)
    now = int(time.time())
    sums = series_log(services).sums(stored.object.id, range, now)
    causes = causes_of(deliver_reader(services), stored.object.id, (now - SPANS[range].seconds) * 1000)
    funnel = Funnel(
        accepted=series_log(services).accepted(stored.object.sources, range, now),
        filtered=sums.counts["filtered"],
        attempted=sums.counts["attempted"],
        delivered=sums.counts["delivered"],
        failed=max(0, sums.counts["not_delivered"]),
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
    """Filters to try (null: the saved ones), the number of events to try them on, and the number of samples to
    return."""

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
        """Try filters, saved or not, on recent events: how many match, and samples before and after."""
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


class DisableRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``disable``: whether queued events are still sent (``drain``) or not (``discard``)."""

    waiting: Literal["drain", "discard"] | None = None


class PauseRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``pause``; ``reason`` is shown to teammates."""

    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class ResumeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of ``resume``. Without ``rate``, queued events are sent as fast as the receiver accepts them."""

    rate: Annotated[float, msgspec.Meta(ge=0.01, le=1_000_000)] | None = None


class TryAsked(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of ``try``. ``tries`` says what is sent now. ``oldest``: the oldest queued event and, if it is
    accepted, the others. ``retries``: all events that wait for a retry."""

    id: str
    state: State
    tries: Literal["oldest", "retries"]
    figures: Figures


class Pausing(Controller):
    """A paused destination parks its events; nothing is lost, and they are sent when it is resumed."""

    path = "/destinations"

    @post("/{id:str}/disable", status_code=200, needs="editor")
    async def disable_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[DisableRequest | None] = None
    ) -> DestinationState:
        """Disable a destination. `waiting` says what happens to queued events: `drain` sends them, `discard` does
        not."""
        asked = data or DisableRequest()
        _disable(services, object_id, await _state(services, object_id), asked.waiting)
        return await _state(services, object_id)

    @post("/{id:str}/pause", status_code=200, needs="editor")
    async def pause_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[PauseRequest | None] = None
    ) -> DestinationState:
        """Pause a destination: its events are queued until it is resumed. Requests in flight are finished."""
        asked = data or PauseRequest()
        pause = Pause(since=services.store.now_ms(), steady_since=services.store.steady_ms(), reason=asked.reason)
        refused_as_problem(
            lambda: services.store.pause(object_id, pause, current_author(), lambda: journal_ends(services.settings))
        )
        return await _state(services, object_id)

    @post("/{id:str}/resume", status_code=200, needs="editor")
    async def resume_destination(
        self, services: FromServices, object_id: Id, data: JSONBody[ResumeRequest | None] = None
    ) -> DestinationState:
        """Resume a paused destination: send its queued events, at most `rate` per second."""
        asked, author = data or ResumeRequest(), current_author()
        refused_as_problem(
            lambda: services.store.resume(object_id, asked.rate, author, lambda: journal_ends(services.settings))
        )
        lane_watch(services).resumed(object_id)
        return await _state(services, object_id)

    @post("/{id:str}/try", status_code=202, needs="editor")
    async def try_destination(self, services: FromServices, object_id: Id) -> TryAsked:
        """Send the waiting events of a destination now, without waiting for the breaker, retries or `Retry-After`."""
        current = await _state(services, object_id)
        stored = services.store.destination(object_id)
        if stored is None or stored.lane is None or stored.lane.paused is not None:
            detail = f"{object_id} is {current.state}: nothing is sent to it; resume or enable it first."
            raise Problem(409, "not_delivering", detail)
        count = current.figures.open
        if not count:
            ending = await last_ending(services, object_id) or "The next one is sent when it arrives."
            raise Problem(409, "nothing_waits", f"No event waits for {object_id} now. {ending}")
        lane = stored.lane.number
        ask_deliver(services, lambda store: store.try_lane(lane, current_author()))
        target = f"destinations/{object_id}"
        the_call().changed(target, AuditChange(target, "tried", None, count))
        tries: Literal["oldest", "retries"] = "oldest" if is_halted(current) else "retries"
        return TryAsked(object_id, current.state, tries, current.figures)


def _disable(services: Services, object_id: str, current: DestinationState, choice: str | None) -> None:
    """Do what was chosen; raise a problem that says what waits when nothing was."""
    figures = current.figures
    count = figures.open
    if choice is None and count:
        about = "" if figures.queued_exact else "at most "
        detail = f"{about.capitalize()}{count} event{' waits' if count == 1 else 's wait'} for {object_id}"
        detail += f", the oldest since {figures.oldest_at}" if figures.oldest_at else ""
        # Who reads this has called the API, or typed a command.
        detail += ". Choose what happens to them with waiting (--waiting on the command line): drain still sends them, "
        detail += "discard does not (a replay can). Or pause the destination instead."
        raise Problem(409, "waiting_events", detail)
    stored, settings, author = services.store.destination(object_id), services.settings, current_author()
    if stored is None or (stored.lane is None and not stored.object.enabled):
        note_unchanged()
        return
    if choice == "drain" and stored.lane is not None:
        refused_as_problem(lambda: services.store.drain(object_id, author, lambda: journal_ends(settings)))
    elif stored.lane is not None and stored.lane.until is not None:
        note_unchanged()
        if choice == "discard":
            refused_as_problem(lambda: services.store.end_drain(object_id, author, lambda: journal_ends(settings)))
    else:
        change(services, [Put(replace(stored.object, enabled=False))])


async def _state(services: Services, object_id: str) -> DestinationState:
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return await asyncio.to_thread(state_of, services, stored, True)


OVERLAP = "24h"
STATUS_OF_REFUSAL = {
    "nothing_to_rotate": 422,
    "setting_not_named": 422,
    "invalid_overlap": 422,
    "secret_unchanged": 422,
    "rotation_running": 409,
    "nothing_rotating": 409,
}


class RotateRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The time for which both secrets are used (such as ``24h``), the new secret (generated if left out), and the
    setting, if the destination has two secrets.
    """

    overlap: str = OVERLAP
    secret: str | None = None
    setting: SecretSetting | None = None


class EndOverlapRequest(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The setting whose overlap ends. Without it, all overlaps end."""

    setting: SecretSetting | None = None


class RotatedSecret(msgspec.Struct, frozen=True, rename="camel"):
    """The destination after the rotation. ``secret`` is the new secret if Hookline generated it; it is shown only in
    this answer."""

    destination: Destination
    setting: SecretSetting
    secret: str | None = None


class SecretRotation(Controller):
    """Replacing a destination's secret without one failed event."""

    path = "/destinations/{id:str}"

    @post("/rotate-secret", status_code=200, needs="editor")
    async def rotate_secret(
        self, services: FromServices, object_id: Id, data: JSONBody[RotateRequest | None] = None
    ) -> RotatedSecret:
        """Rotate the signing secret. Until the overlap ends, requests are signed with both secrets."""
        wanted = data or RotateRequest()
        overlap_seconds = _seconds(wanted.overlap)
        if wanted.secret is not None and stands_for_stored(wanted.secret):
            raise _refusal(RotationRefused("secret_unchanged", "that stands for the secret in use; give another one"))
        version, destination = _destination(services, object_id)
        try:
            setting = setting_to_rotate(destination, wanted.setting)
            secret = wanted.secret if wanted.secret is not None else new_secret(setting)
            rotated = rotate(destination, setting, secret, overlap_seconds, services.store.steady_ms())
        except RotationRefused as refused:
            raise _refusal(refused) from None
        shown = _put(services, rotated, version)
        until = rotated.rotations[-1].until
        logger().info("secret_rotated", destination=object_id, setting=setting, overlap_until=until)
        return RotatedSecret(shown, setting, secret if wanted.secret is None else None)

    @post("/end-overlap", status_code=200, needs="editor")
    async def end_overlap(
        self, services: FromServices, object_id: Id, data: JSONBody[EndOverlapRequest | None] = None
    ) -> Destination:
        """End the overlap: sign only with the new secret from now on."""
        wanted = data or EndOverlapRequest()
        version, destination = _destination(services, object_id)
        try:
            ended = end_overlap(destination, wanted.setting, services.store.steady_ms())
        except RotationRefused as refused:
            raise _refusal(refused) from None
        shown = _put(services, ended, version)
        logger().info("secret_overlap_ended", destination=object_id, setting=wanted.setting)
        return shown


def _destination(services: Services, object_id: str) -> tuple[int, Destination]:
    version = services.store.version
    stored = services.store.destination(object_id)
    if stored is None:
        raise not_found("destination", object_id)
    return version, stored.object


def _put(services: Services, destination: Destination, version: int) -> Destination:
    store = services.store
    edit, author = Put(destination, rotating=True), current_author()
    refused_as_problem(
        lambda: store.change([edit], author, None, lambda: journal_ends(services.settings), expected_version=version)
    )
    return redact(destination, now_ms=store.now_ms())


def _seconds(overlap: str) -> float:
    try:
        return parse_duration(overlap)
    except ValueError as error:
        detail = f"The overlap {overlap!r} cannot be used: {error}."
        raise Problem(422, "invalid_overlap", detail, [FieldError("/overlap", str(error))]) from None


def _refusal(refused: RotationRefused) -> Problem:
    sentence = str(refused)
    return Problem(STATUS_OF_REFUSAL[refused.code], refused.code, f"{sentence[:1].upper()}{sentence[1:]}.")
