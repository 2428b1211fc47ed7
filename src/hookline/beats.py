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
