"""What replays are made and watched with, put together."""

from __future__ import annotations

from hookline.api.services import Services, part
from hookline.database.location import location_of
from hookline.features.replays.planner import Planner
from hookline.features.replays.progress import ReplayProgress
from hookline.features.replays.watch import ReplayWatch
from hookline.replays.store import ReplayStore


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
