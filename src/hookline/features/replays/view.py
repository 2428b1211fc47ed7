"""A replay, or a dry run of one, as the API shows it."""

from __future__ import annotations

from typing import Literal

import msgspec

from hookline.api.services import Services
from hookline.events.timestamps import iso
from hookline.features.fleet.service import role_metrics
from hookline.features.replays.planner import DryRun
from hookline.features.replays.planning import SampleEvent
from hookline.features.replays.service import replay_planner, replay_progress
from hookline.limits import LIMITS
from hookline.replays.model import Replay, ReplayRequest

ANSWER_SECONDS_GUESSED = 0.05
"""How long a receiver takes, as long as none has been asked."""

ViewState = Literal[
    "counting", "counted", "failed", "preparing", "queued", "running", "paused", "cancelling", "cancelled", "done"
]


class ReplayView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """``request`` is as it was asked for. ``total`` is how many events it comes to, null until they are counted
    (``counted`` of ``to_count`` so far); ``done`` = ``delivered`` + ``failed``. Times in seconds are estimates."""

    id: str
    state: ViewState
    dry_run: bool
    destination: str
    request: ReplayRequest
    rate: float | None
    total: int | None
    counted: int | None = None
    to_count: int | None = None
    done: int = 0
    delivered: int = 0
    failed: int = 0
    retrying: int = 0
    eta_seconds: float | None = None
    sample: tuple[SampleEvent, ...] = ()
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    reason: str | None = None


def view_of(services: Services, replay: Replay) -> ReplayView:
    """Show a replay as it stands now."""
    progress = replay_progress(services).of(replay.lane)
    planning = replay_planner(services).planning_of(replay.lane)
    delivered, failed = (progress.delivered, progress.failed) if progress else (0, 0)
    ended_ms = replay.ended_ms if progress is None else progress.ended_ms
    state = _state(replay, None if progress is None else progress.state)
    left = None if replay.total is None else max(0, replay.total - delivered - failed)
    return ReplayView(
        id=replay.id,
        state=state,
        dry_run=False,
        destination=replay.request.destination,
        request=replay.request,
        rate=replay.rate,
        total=replay.total,
        counted=None if planning is None else planning.scanned,
        to_count=None if planning is None else planning.of,
        done=delivered + failed,
        delivered=delivered,
        failed=failed,
        retrying=progress.retrying if progress else 0,
        eta_seconds=_eta(services, replay, left) if state in ("running", "queued") else None,
        created_at=iso(replay.at_ms),
        started_at=None if progress is None else iso(progress.started_ms),
        ended_at=None if ended_ms is None else iso(ended_ms),
        reason=None if progress is None else progress.reason,
    )


def dry_view_of(services: Services, run: DryRun) -> ReplayView:
    """Show a dry run as far as it is."""
    planning, counted = run.planning, run.state == "counted"
    return ReplayView(
        id=run.id,
        state=run.state,  # type: ignore[arg-type]  # three of the states
        dry_run=True,
        destination=run.request.destination,
        request=run.request,
        rate=run.request.rate,
        total=planning.count if counted else None,
        counted=planning.scanned,
        to_count=planning.of,
        eta_seconds=_seconds(planning.count, _speed_guessed(services, run.request.rate)) if counted else None,
        sample=tuple(planning.sample),
        created_at=iso(run.at_ms),
        reason="it could not be counted; the log says why" if run.state == "failed" else None,
    )


def _state(replay: Replay, reached: str | None) -> ViewState:
    if reached == "done":
        return "done"
    if reached == "cancelled":
        return "cancelled"
    if replay.state == "cancelled":
        return "cancelling" if replay.ended_ms is None else "cancelled"
    if replay.state == "paused":
        return "paused"
    if not replay.is_prepared:
        return "preparing"
    return "queued" if reached is None else "running"


def _eta(services: Services, replay: Replay, left: int | None) -> float | None:
    if left is None:
        return None
    speed = replay_progress(services).per_second(replay.lane) or _speed_guessed(services, replay.rate)
    return _seconds(left, speed)


def _seconds(events: int, per_second: float) -> float:
    return round(events / per_second, 1)


def _speed_guessed(services: Services, rate: float | None) -> float:
    """Return what the receivers' answers so far allow, and the rate."""
    report = role_metrics(services).reports().get("deliver")
    times = report.values.get("hookline_deliver_request_seconds") if report is not None else None
    answers = sum(times["buckets"].values()) if times else 0
    seconds = times["sum"] / answers if times and answers else ANSWER_SECONDS_GUESSED
    possible = LIMITS.replay_in_flight_max / max(seconds, 0.001)
    return possible if rate is None else min(possible, rate)
