"""Make replays, watch them, and show each as the API has it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from hookline.api.problem import Problem
from hookline.api.services import Services, deliver_reader, part
from hookline.beats import next_beat
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, engine
from hookline.events.timestamps import iso
from hookline.features.fleet.service import role_metrics
from hookline.features.replays.planning import DryRun, Planner, SampleEvent
from hookline.limits import LIMITS
from hookline.outcomes.reader import DeliverReader, SavedReplay
from hookline.replays.model import Replay, ReplayRequest
from hookline.replays.store import ReplayStore, TooManyActions
from hookline.settings import Settings
from hookline.telemetry.log import logger

SPEED_SECONDS = 30.0
"""The speed of a replay is that of its last so many seconds."""


class ReplayProgress:
    """Reads the counts, and remembers a few for the speed. Times are monotonic seconds."""

    def __init__(self, location: DatabaseLocation, clock: Callable[[], float] = time.monotonic) -> None:
        self._deliver = DeliverReader(location)
        self._clock = clock
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def of(self, lane: int) -> SavedReplay | None:
        """Return the counts of a replay; None before it begins."""
        return self._deliver.replay(lane)

    def note(self, lane: int, done: int) -> None:
        """Remember how far a running replay is now."""
        now, seen = self._clock(), self._seen.setdefault(lane, deque())
        seen.append((now, done))
        while now - seen[0][0] > SPEED_SECONDS:
            seen.popleft()

    def forget(self, lane: int) -> None:
        """It has ended, or is paused: its speed so far says nothing any more."""
        self._seen.pop(lane, None)

    def per_second(self, lane: int) -> float | None:
        """Events per second of late; None while that cannot be said."""
        seen = self._seen.get(lane)
        if not seen or len(seen) < 2:
            return None
        (first, before), (last, after) = seen[0], seen[-1]
        return (after - before) / (last - first) if after > before and last > first else None

    def close(self) -> None:
        """Close the file; idempotent."""
        self._deliver.close()


POLL_SECONDS = 1.0


class ReplayWatch:
    """Looks about once a second; without open replays a look is two short queries."""

    def __init__(
        self,
        settings: Settings,
        connections: Store,
        store: ReplayStore,
        planner: Planner,
        progress: ReplayProgress,
        steady_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._kept_ms = int(settings.retention.events * 1000)
        self._connections = connections
        self._store = store
        self._planner = planner
        self._progress = progress
        self._steady_ms = steady_ms
        self._ended: set[int] = set()

    async def run_forever(self) -> None:
        """Look once a second until cancelled."""
        while True:
            began = time.monotonic()
            try:
                self.look()
            except DatabaseAway:  # it was said; whoever else uses the event loop comes first now
                await asyncio.sleep(LOCKED_REST * (time.monotonic() - began))
            except (engine.Error, OSError) as error:
                logger().warning("replay_watch_failed", error=str(error), next_step="it looks again in a second")
            await next_beat(POLL_SECONDS)

    def look(self) -> None:
        """Look once."""
        ended_before, self._ended = self._ended, set()
        for replay in self._store.open_ones():
            progress = self._progress.of(replay.lane)
            if progress is not None and progress.ended_ms is not None:
                self._ended.add(replay.lane)
                if replay.lane in ended_before:  # by now it is on the disk: a power cut cannot take it back
                    self._store.end(replay.lane, progress.ended_ms)
                    self._progress.forget(replay.lane)
                continue
            if progress is not None and replay.state == "running":
                self._progress.note(replay.lane, progress.delivered + progress.failed)
            else:
                self._progress.forget(replay.lane)
            if replay.state == "preparing" and replay.total is not None:
                self._store.plan(replay.lane, replay.total)  # an earlier version counted it and did not let it begin
            stored = self._connections.destination(replay.request.destination)
            if replay.total is None and stored is not None and replay.state != "cancelled":
                self._planner.plan(replay, stored.object)
        # What the journal no longer keeps, nobody can ask about any more.
        self._store.forget_ended_before(self._steady_ms() - self._kept_ms)


@part
def replay_store(services: Services) -> ReplayStore:
    """Return the replays that were asked for."""
    return ReplayStore(
        location_of(services.settings, "control"),
        steady_ms=services.store.steady_ms,
        last_action=lambda: deliver_reader(services).last_action(),
    )


def ask_deliver(services: Services, ask: Callable[[ReplayStore], int]) -> int:
    """Ask deliver for a discard or a retry; return its number. Raise Problem where too many wait already."""
    try:
        return ask(replay_store(services))
    except TooManyActions as error:
        raise Problem(409, "too_many_actions", f"{error}.") from None


@part
def replay_planner(services: Services) -> Planner:
    """Return what counts a replay before it runs."""
    return Planner(services.settings, replay_store(services))


@part
def replay_progress(services: Services) -> ReplayProgress:
    """Return how far replays are."""
    return ReplayProgress(location_of(services.settings, "deliver"))


@part
def replay_watch(services: Services) -> ReplayWatch:
    """Return what ends replays that are done."""
    return ReplayWatch(
        services.settings,
        services.store,
        replay_store(services),
        replay_planner(services),
        replay_progress(services),
        services.store.steady_ms,
    )


ANSWER_SECONDS_GUESSED = 0.05
"""How long a receiver takes, as long as none has been asked."""

ViewState = Literal[
    "counting", "counted", "failed", "preparing", "queued", "running", "paused", "cancelling", "cancelled", "done"
]


class ReplayView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A replay and its progress. ``request`` is as it was asked for. ``total`` is how many events it comes to, null
    until they are counted (``counted`` of ``toCount`` so far), or the replay is done without; ``done`` = ``delivered``
    + ``failed``. Times in seconds are estimates."""

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
    total = replay.total
    if total is None and state == "done" and planning is None:  # it ended before the count began: nobody counts it now
        total = delivered + failed
    left = None if total is None else max(0, total - delivered - failed)
    return ReplayView(
        id=replay.id,
        state=state,
        dry_run=False,
        destination=replay.request.destination,
        request=replay.request,
        rate=replay.rate,
        total=total,
        counted=None if planning is None else planning.scanned,
        to_count=None if planning is None else planning.of,
        done=delivered + failed,
        delivered=delivered,
        failed=failed,
        retrying=deliver_reader(services).retry_count(replay.lane) if progress else 0,
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
    if reached is None and replay.ended_ms is not None:  # deliver's database went back: nothing is sent a second time
        return "done"
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
    possible = LIMITS.full_allowance / max(seconds, 0.001)
    return possible if rate is None else min(possible, rate)
