"""Have what a process does again and again fall on the same moments.

An idle process is woken by nothing else, and a wake costs as much as most of what is done then: the system has put the
core to sleep, and others have used its cache meanwhile.
"""

from __future__ import annotations

import asyncio

EARLY_SHARE = 0.1
"""Of the time between two beats: a timer may end this much too early and is not taken for one of the beat before."""


def seconds_to_beat(every_seconds: float) -> float:
    """Return how long it is to the next multiple of this time on the running loop's clock."""
    if every_seconds <= 0:
        return 0.0
    left = every_seconds - asyncio.get_running_loop().time() % every_seconds
    return left if left > every_seconds * EARLY_SHARE else left + every_seconds


async def next_beat(every_seconds: float) -> None:
    """Sleep until then."""
    await asyncio.sleep(seconds_to_beat(every_seconds))


class Bell:
    """Calls somebody who rests until the next beat, or has not begun to; for one, and the loop's thread."""

    def __init__(self) -> None:
        self._is_rung = False
        self._resting: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """End the rest, or the next one."""
        self._is_rung = True
        _end(self._resting)

    async def rest(self, every_seconds: float) -> None:
        """Sleep until the next beat, or until it rings."""
        if not self._is_rung:
            loop = asyncio.get_running_loop()
            self._resting = loop.create_future()
            timer = loop.call_later(seconds_to_beat(every_seconds), _end, self._resting)
            try:
                await self._resting
            finally:
                timer.cancel()
        self._is_rung = False


def _end(resting: asyncio.Future[None] | None) -> None:
    if resting is not None and not resting.done():
        resting.set_result(None)
