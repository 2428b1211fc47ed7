"""Make replays and watch them: how far each is, and its end."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from hookline.api.services import Services, part
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation, location_of
from hookline.database.read_only import ReadOnly
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, engine
from hookline.features.replays.planner import Planner
from hookline.replays.store import ReplayStore
from hookline.settings import Settings
from hookline.telemetry.log import logger

SPEED_SECONDS = 30.0
"""The speed of a replay is that of its last so many seconds."""


class Progress(NamedTuple):
    """The counts of one replay; ``state`` is ``running``, ``done`` or ``cancelled``."""

    state: str
    delivered: int
    failed: int
    started_ms: int
    ended_ms: int | None
    reason: str | None
    retrying: int


class ReplayProgress:
    """Reads the counts, and remembers a few for the speed. Times are monotonic seconds."""

    def __init__(self, location: DatabaseLocation, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = ReadOnly(location)
        self._clock = clock
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def of(self, lane: int) -> Progress | None:
        """Return the counts of a replay; None before it begins."""
        connection = self._database.open()
        if connection is None:
            return None
        row = connection.execute(
            "SELECT state, delivered, failed, started_at, ended_at, reason,"
            " (SELECT count(*) FROM retries WHERE retries.lane = replays.lane) FROM replays WHERE lane = ?",
            (lane,),
        ).fetchone()
        return Progress(*row) if row else None

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
        self._database.close()


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
            await asyncio.sleep(POLL_SECONDS)

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
            stored = self._connections.destination(replay.request.destination)
            if replay.total is None and stored is not None and replay.state != "cancelled":
                self._planner.plan(replay, stored.object)
        # What the journal no longer keeps, nobody can ask about any more.
        self._store.forget_ended_before(self._steady_ms() - self._kept_ms)


@part
def replay_store(services: Services) -> ReplayStore:
    """Return the replays that were asked for."""
    return ReplayStore(location_of(services.settings, "control"), steady_ms=services.store.steady_ms)


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
