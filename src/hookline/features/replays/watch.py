"""Keeps the replays up to date: notes which have ended, has those counted that are not, forgets the old ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hookline.connections.store import Store
from hookline.database.sqlite import LOCKED_REST, DatabaseAway, engine
from hookline.features.replays.planner import Planner
from hookline.features.replays.progress import ReplayProgress
from hookline.replays.store import ReplayStore
from hookline.settings import Settings
from hookline.telemetry.log import logger

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
