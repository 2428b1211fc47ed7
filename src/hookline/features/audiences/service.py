"""Show and sync audiences and traits: counts of members, requests, and their database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hookline.api.services import Services, part
from hookline.connections.store import Store
from hookline.database.location import Schema, location_of
from hookline.database.open import ensure
from hookline.database.sqlite import DatabaseError, DatabaseTooNew, engine
from hookline.features.people.service import ProfileLog, ProfileReader, profile_log
from hookline.people.definitions.definition import Key
from hookline.people.previews.requests import PreviewRequests
from hookline.people.sync.results import Counted, SyncRequests
from hookline.settings import Settings
from hookline.telemetry.log import logger

PATIENCE_SECONDS = 0.02
"""What a page waits: few members are counted by then."""
GOOD_SECONDS_MIN = 2.0
"""A number is taken for right so long, or for a hundred times as long as counting took."""
GOOD_PER_SECOND_COUNTED = 100
REMEMBERED_MAX = 4_000


class CountRequest(NamedTuple):
    """What is to be counted: the value, as JSON, that stands for none, and the number of the last sync."""

    empty: str
    sync: int


class _CachedCount(NamedTuple):
    people: int
    sync: int
    good_until: float


class MemberCounts:
    """Used on the event loop."""

    def __init__(self, profiles: ProfileLog) -> None:
        self._profiles = profiles
        self._known: dict[Key, _CachedCount] = {}
        self._counting: asyncio.Task[None] | None = None

    async def of(self, wanted: Mapping[Key, CountRequest]) -> dict[Key, int]:
        """Return the numbers that are known; those of others will be, a moment later."""
        now = time.monotonic()
        stale = {key: each for key, each in wanted.items() if not self._is_good(key, each, now)}
        if stale and (self._counting is None or self._counting.done()):
            self._counting = asyncio.create_task(self._count(stale))
        if stale and self._counting is not None:
            done, _ = await asyncio.wait([self._counting], timeout=PATIENCE_SECONDS)
            for task in done:
                task.result()
        return {key: self._known[key].people for key in wanted if key in self._known}

    def _is_good(self, key: Key, wanted: CountRequest, now: float) -> bool:
        known = self._known.get(key)
        return known is not None and known.sync == wanted.sync and known.good_until > now

    async def _count(self, wanted: Mapping[Key, CountRequest]) -> None:
        for key, (empty, sync) in wanted.items():
            began, people, after = time.monotonic(), 0, 0
            while (step := await self._profiles.read(partial(_step, key=key, empty=empty, after=after))) is not None:
                people += step.people
                if step.last is None:
                    break
                after = step.last
            now = time.monotonic()
            good = max(GOOD_SECONDS_MIN, GOOD_PER_SECOND_COUNTED * (now - began))
            self._known.pop(key, None)
            self._known[key] = _CachedCount(people, sync, now + good)
            while len(self._known) > REMEMBERED_MAX:
                del self._known[next(iter(self._known))]


def _step(reader: ProfileReader, key: Key, empty: str, after: int) -> Counted:
    return reader.sync_states.count(key, empty, after)


POLL_SECONDS = 0.5
MARK = "profiles.wanted"
"""The file that says so to the supervisor where the database is none."""


class DefinitionWatch:
    """Looks until there is one; what was made stays."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._location = location_of(settings, "profiles")
        self._mark = settings.data_path / MARK if isinstance(self._location, Schema) else self._location
        self._store = store
        self._previews = PreviewRequests(settings.data_path / "run")

    async def run_forever(self) -> None:
        """Look until it is there; it stays."""
        failed = False
        while not self._mark.exists():
            try:
                self.look()
            except (engine.Error, OSError, DatabaseError) as error:
                if not failed:
                    logger().warning(
                        "profiles_not_made", error=str(error), next_step="it is tried again until it works"
                    )
                failed = True
            await asyncio.sleep(POLL_SECONDS)
        if failed:
            logger().info("profiles_made")

    def look(self) -> None:
        """Make it if it is asked for."""
        if self._store.in_force("audience") or self._store.in_force("computedTrait") or self._is_preview_asked():
            with suppress(DatabaseTooNew):  # then it is made, and profiles stand by
                ensure(self._location, "profiles")
            self._mark.touch()

    def _is_preview_asked(self) -> bool:
        return bool(self._previews.asked(int(time.time() * 1000)))


@part
def preview_requests(services: Services) -> PreviewRequests:
    """Return how previews are asked for."""
    return PreviewRequests(services.settings.data_path / "run")


@part
def sync_requests(services: Services) -> SyncRequests:
    """Return how syncs are asked for."""
    return SyncRequests(services.settings.data_path / "run")


@part
def member_counts(services: Services) -> MemberCounts:
    """Return how many members audiences have."""
    return MemberCounts(profile_log(services))


@part
def definition_watch(services: Services) -> DefinitionWatch:
    """Return what makes the database of people once it is needed."""
    return DefinitionWatch(services.settings, services.store)
