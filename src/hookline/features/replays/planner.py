"""Counts replays in a thread of its own: those asked for as a dry run, and those that are to be sent.

A step of each in turn; what a replay comes to is written into the store, what a dry run comes to is kept in memory.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event

from hookline.connections.model import Destination, Offsets
from hookline.database.location import location_of
from hookline.features.replays.planning import Planning
from hookline.replays.model import Replay, ReplayRequest
from hookline.replays.store import ReplayStore
from hookline.settings import Settings
from hookline.telemetry.log import logger

DRY_RUNS_KEPT = 100
RETRY_SECONDS = 30.0
"""A count that failed is tried again after this."""


class DryRun:
    """A request that was only counted; ``state`` is ``counting``, ``counted`` or ``failed``."""

    def __init__(self, id: str, request: ReplayRequest, planning: Planning) -> None:
        self.id = id
        self.request = request
        self.planning = planning
        self.state = "counting"
        self.at_ms = time.time_ns() // 1_000_000
        self.finished = Event()


class Planner:
    """Dry runs and counts under way. Its methods may be called from any thread."""

    def __init__(self, settings: Settings, store: ReplayStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replay-planner")
        self._dry_runs: OrderedDict[str, DryRun] = OrderedDict()
        self._numbers = count(1)
        self._counting: dict[int, Planning] = {}
        self._failed: dict[int, float] = {}
        self._closed = False

    def dry_run(self, request: ReplayRequest, destination: Destination, starts: Offsets, ends: Offsets) -> DryRun:
        """Begin to count what a request comes to."""
        planning = self._planning(request, destination, starts, ends)
        made = DryRun(f"dry-{next(self._numbers)}", request, planning)
        self._dry_runs[made.id] = made
        while len(self._dry_runs) > DRY_RUNS_KEPT:
            self._dry_runs.popitem(last=False)

        def finish(error: Exception | None) -> None:
            made.state = "counted" if error is None else "failed"
            made.finished.set()

        # A dry run that nobody can ask for any more is given up.
        self._go(planning.steps(), finish, lambda: made.id in self._dry_runs)
        return made

    def dry_run_of(self, id: str) -> DryRun | None:
        """Return a dry run of the last hundred."""
        return self._dry_runs.get(id)

    def plan(self, replay: Replay, destination: Destination) -> None:
        """Begin to count a replay, and to find its events where single ones are meant, unless that is under way."""
        lane = replay.lane
        if lane in self._counting or self._clock() - self._failed.get(lane, -RETRY_SECONDS) < RETRY_SECONDS:
            return
        planning = self._planning(replay.request, destination, replay.starts, replay.ends)
        self._counting[lane] = planning

        def finish(error: Exception | None) -> None:
            if error is not None:
                self._failed[lane] = self._clock()
            elif planning.places is not None:
                self._store.prepare(lane, planning.places)
            else:
                self._store.plan(lane, planning.count)
            self._counting.pop(lane, None)

        self._go(planning.steps(), finish, lambda: True)

    def planning_of(self, lane: int) -> Planning | None:
        """Return how far the count of a replay is; None when it is not being counted."""
        return self._counting.get(lane)

    def close(self) -> None:
        """Stop counting; idempotent."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _planning(self, request: ReplayRequest, destination: Destination, starts: Offsets, ends: Offsets) -> Planning:
        deliver = location_of(self._settings, "deliver")
        return Planning(self._settings.data_path, deliver, request, destination, starts, ends)

    def _go(
        self, steps: Iterator[None], finish: Callable[[Exception | None], None], is_wanted: Callable[[], bool]
    ) -> None:
        def step() -> None:
            if self._closed or not is_wanted():
                return
            try:
                next(steps)
            except StopIteration:
                self._finish(finish, None)
            except Exception as error:  # noqa: BLE001 - one count that fails must not end the thread's others
                logger().error("replay_count_failed", exc_info=error)
                self._finish(finish, error)
            else:
                self._submit(step)

        self._submit(step)

    def _finish(self, finish: Callable[[Exception | None], None], error: Exception | None) -> None:
        try:
            finish(error)
        except Exception as failure:  # noqa: BLE001 - as above; the count is made again later
            logger().error("replay_count_not_saved", exc_info=failure)
            if error is None:
                finish(failure)

    def _submit(self, step: Callable[[], None]) -> None:
        try:
            self._thread.submit(step)
        except RuntimeError:  # it is being closed
            self._closed = True
