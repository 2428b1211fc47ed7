"""How many people each audience and computed trait has: counted beside, in short steps, and remembered.

A million members take a fifth of a second to count, too long for a page and for one read of the database. So a page
gets what was counted last, and what is no longer right is counted for the next look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from hookline.features.people.log import ProfileLog, ProfileReader
from hookline.people.definitions.definition import Key
from hookline.people.sync.results import Counted

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
