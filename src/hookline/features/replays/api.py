"""``/api/v1/replays``: send stored events again, after a look at how many that are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import msgspec
from litestar import Controller, Response, delete, get, patch, post
from litestar.params import JSONBody

from hookline.api.audit.log import AuditChange
from hookline.api.calls import current_author, note_unchanged, the_call
from hookline.api.handlers import FromServices
from hookline.api.listing import After, Id, Limit, Listing, OfDestination, etag_of, require_match, tagged
from hookline.api.problem import FieldError, Problem, not_found
from hookline.api.services import Services
from hookline.connections.model import Destination, Offsets
from hookline.features.replays.service import (
    ReplayView,
    dry_view_of,
    replay_planner,
    replay_progress,
    replay_store,
    view_of,
)
from hookline.journal.opening import open_reader
from hookline.replays.model import Rate, Replay, ReplayInput, ReplayRequest, State, lane_of, replay_id
from hookline.replays.offset_set import span_of
from hookline.replays.store import TooManyReplays

DRY_RUN_SECONDS = 1.0
"""How long the answer to a dry run is held back for the count."""


class ReplayChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that a PATCH may change. ``rate``: events per second, 0.01 or more; null is no limit."""

    state: Literal["running", "paused", "cancelled"] | msgspec.UnsetType = msgspec.UNSET
    rate: Rate | msgspec.UnsetType | None = msgspec.UNSET


class Replays(Controller):
    """A replay is a lane with an end: it can be paused, resumed and cancelled, and never replaced."""

    path = "/replays"

    @get(needs="viewer")
    async def list_replays(
        self,
        services: FromServices,
        limit: Limit = 50,
        after: After = None,
        destination: OfDestination = None,
    ) -> Listing[ReplayView]:
        """List the replays, newest first."""
        before = None if after is None else lane_of(after)
        if after is not None and before is None:
            raise Problem(400, "invalid_parameter", "Use the value of `after` exactly as the last answer gave it.")
        found = replay_store(services).newest(limit + 1, before, destination)
        page = found[:limit]
        views = [view_of(services, replay) for replay in page]
        return Listing(views, replay_id(page[-1].lane) if len(found) > limit else None)

    @post(needs="editor")
    async def create_replay(self, services: FromServices, data: JSONBody[ReplayInput]) -> Response[ReplayView]:
        """Send stored events again (201), or only count them with `dryRun` (200)."""
        if data.dead_letters is not None:
            raise Problem(422, "invalid_object", "Retry dead letters at /api/v1/dead-letters/retry.")
        if not data.dry_run:
            made = view_of(services, await begin(services, data))
            return Response(made, status_code=201, headers={"Location": f"/api/v1/replays/{made.id}"})
        the_call().only_looked = True
        destination, starts, ends = await _prepared(services, data)
        run = replay_planner(services).dry_run(data, destination, starts, ends)
        await asyncio.to_thread(run.finished.wait, DRY_RUN_SECONDS)
        return Response(dry_view_of(services, run), status_code=200)

    @get("/{id:str}", needs="viewer", tagged=True)
    async def get_replay(self, services: FromServices, id: Id) -> Response[ReplayView]:
        """Return one replay, or a recent dry run, with its progress."""
        run = replay_planner(services).dry_run_of(id)
        if run is not None:
            return Response(dry_view_of(services, run))
        replay = _replay(services, id)
        return tagged(view_of(services, replay), _tag(replay))

    @patch("/{id:str}", needs="editor", tagged=True)
    async def patch_replay(self, services: FromServices, id: Id, data: JSONBody[ReplayChange]) -> Response[ReplayView]:
        """Pause, resume or cancel a replay, or change its rate."""
        view = _change(services, id, data)
        return tagged(view, _tag(_replay(services, id)))

    @post("/{id:str}/pause", status_code=200, needs="editor")
    async def pause_replay(self, services: FromServices, id: Id) -> ReplayView:
        """Pause a replay. Requests in flight are finished."""
        return _change(services, id, ReplayChange(state="paused"))

    @post("/{id:str}/resume", status_code=200, needs="editor")
    async def resume_replay(self, services: FromServices, id: Id) -> ReplayView:
        """Resume a paused replay."""
        return _change(services, id, ReplayChange(state="running"))

    @post("/{id:str}/cancel", status_code=200, needs="editor")
    async def cancel_replay(self, services: FromServices, id: Id) -> ReplayView:
        """Cancel a replay. Events it has not sent yet are not sent; their status says so."""
        return _change(services, id, ReplayChange(state="cancelled"))

    @delete("/{id:str}", needs="editor")
    async def delete_replay(self, services: FromServices, id: Id) -> None:
        """Delete an ended replay from the list."""
        replay = _replay(services, id)
        if not _has_ended(services, replay):
            raise Problem(409, "replay_not_ended", f"Replay {id!r} has not ended; cancel it first.")
        progress = replay_progress(services).of(replay.lane)
        if progress is not None and progress.ended_ms is not None:
            replay_store(services).end(replay.lane, progress.ended_ms)
        replay_store(services).forget(replay.lane)


async def begin_all(services: Services, requests: Sequence[ReplayRequest]) -> list[Replay]:
    """Begin several replays; raise Problem, before any begins, where one of them cannot be."""
    for request in requests:
        require_replayable(services, request)
    try:
        replay_store(services).require_room(len(requests))
    except TooManyReplays as error:
        raise _too_many(error) from None
    return [await begin(services, request) for request in requests]


async def begin(services: Services, request: ReplayRequest) -> Replay:
    """Give a request its lane and have it counted; raise Problem for one that cannot be."""
    destination, starts, ends = await _prepared(services, request)
    state: State = "preparing" if request.by_positions else "running"
    try:
        made = replay_store(services).create(request, services.store.version, starts, ends, current_author(), state)
    except TooManyReplays as error:
        raise _too_many(error) from None
    replay_planner(services).plan(made, destination)
    name = f"replays/{replay_id(made.lane)}"
    fields = msgspec.to_builtins(request).items()
    the_call().changed(name, *(AuditChange(name, path, None, value) for path, value in fields if value is not None))
    return made


def _too_many(error: TooManyReplays) -> Problem:
    return Problem(409, "too_many_replays", f"{error}.")


async def _prepared(services: Services, request: ReplayRequest) -> tuple[Destination, Offsets, Offsets]:
    """Return the destination and the stretch of the journal that a request is about."""
    destination = require_replayable(services, request)
    starts, ends = await asyncio.to_thread(_span, services, request)
    return destination, starts, ends


def require_replayable(services: Services, request: ReplayRequest) -> Destination:
    """Return the destination; raise Problem for a request that cannot be."""
    stored = services.store.destination(request.destination)
    if stored is None:
        detail = f"There is no destination {request.destination!r}."
        raise Problem(422, "unknown_destination", detail, [FieldError("/destination", "unknown")])
    if stored.lane is None:
        detail = f"Destination {request.destination!r} is disabled; enable it, then replay."
        raise Problem(409, "destination_disabled", detail)
    if request.source is not None and services.store.source(request.source) is None:
        detail = f"There is no source {request.source!r}."
        raise Problem(422, "unknown_source", detail, [FieldError("/source", "unknown")])
    if request.since is not None and request.until is not None and request.since >= request.until:
        raise Problem(422, "invalid_object", "`from` must be before `to`.", [FieldError("/from", "not before to")])
    return stored.object


def _span(services: Services, request: ReplayRequest) -> tuple[Offsets, Offsets]:
    journal = open_reader(services.settings.data_path / "journal")
    try:
        return span_of(journal, journal.partitions(), request)
    finally:
        journal.close()


def _change(services: Services, id: str, change: ReplayChange) -> ReplayView:
    replay = _replay(services, id)
    if _has_ended(services, replay) or (replay.state == "cancelled" and change.state != "cancelled"):
        raise Problem(409, "replay_ended", f"Replay {id!r} has ended; create a new one.")
    state = None if change.state is msgspec.UNSET else change.state
    rate = replay.rate if change.rate is msgspec.UNSET else change.rate
    require_match(_tag(replay))
    replay_store(services).want(replay.lane, state, rate)
    fields = (("state", replay.state, state or replay.state), ("rate", replay.rate, rate))
    changed = [AuditChange(f"replays/{id}", *field) for field in fields if field[1] != field[2]]
    if changed:
        the_call().changed(f"replays/{id}", *changed)
    else:
        note_unchanged()
    return view_of(services, _replay(services, id))


def _tag(replay: Replay) -> str:
    """Return which state of a replay this is; how far it has come does not count."""
    return etag_of((replay.state, replay.rate, replay.ended_ms))


def _has_ended(services: Services, replay: Replay) -> bool:
    progress = replay_progress(services).of(replay.lane)
    return replay.ended_ms is not None or (progress is not None and progress.ended_ms is not None)


def _replay(services: Services, id: str) -> Replay:
    lane = lane_of(id)
    found = None if lane is None else replay_store(services).get(lane)
    if found is None:
        raise not_found("replay", id)
    return found
