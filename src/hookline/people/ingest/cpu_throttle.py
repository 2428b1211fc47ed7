"""Room for the others: the longer this process had to wait for a processor, the longer it rests after a step.

A process of the lowest priority still takes what the others leave for a moment, and with it their caches: at saturation
that costs a fifth of the deliveries. Where the machine is not busy, it has not waited and does not rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

LOWEST_PRIORITY = 19
RESTS = 10.0
"""Seconds of rest per second that was waited, and at most per second that was worked: a twelfth of a processor is left
where the machine is busy for good."""
BUSY_WAITS = 0.25
"""Seconds waited per second worked from which on the machine is busy."""
MEMORY_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Linux: what a container may use in bytes, or ``max``."""
TIMES = Path("/proc/self/schedstat")
"""Linux: nanoseconds on a processor, nanoseconds of waiting for one, and how often."""


def lower_priority() -> None:
    """Let the calling thread, and those that it starts, take a processor only while nobody else wants it."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, LOWEST_PRIORITY)
    if hasattr(os, "SCHED_IDLE"):  # Linux: below every priority
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def processors() -> int:
    """Return how many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return how much memory this process may use: the machine's, or a container's where that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # no such file, or no limit
        limits.append(int(MEMORY_LIMIT.read_text()))
    return min(limits)


class OrdinaryThread:
    """A thread with the priority of whoever makes it: for what may not wait behind everybody."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="profiles-erasing")
        self._thread.submit(bool).result()  # started now: whoever starts it passes the priority on

    def run(self, work: Callable[[], Result]) -> Result:
        """Wait for the work, which is done in the thread; raise what it raises."""
        return self._thread.submit(work).result()

    def close(self) -> None:
        """End the thread; idempotent."""
        self._thread.shutdown()


class Times(NamedTuple):
    """Hold what the main thread had so far, in seconds."""

    worked: float = 0.0
    waited: float = 0.0


class CpuThrottle:
    """Used from the main thread; where the system does not tell who waits, nobody rests."""

    def __init__(self, times: Path = TIMES) -> None:
        self.is_busy = False
        """Whether others wanted the processors before the last call of ``rest_seconds``."""
        self._path = times
        self._last = self._times()

    def rest_seconds(self) -> float:
        """Return how long to rest for what was worked and waited since the last call."""
        before, self._last = self._last, self._times()
        waited, worked = self._last.waited - before.waited, self._last.worked - before.worked
        self.is_busy = waited > BUSY_WAITS * worked
        return RESTS * min(waited, worked)

    def _times(self) -> Times:
        try:
            worked, waited, _ = self._path.read_text().split()
        except (OSError, ValueError):
            return Times()
        return Times(int(worked) / 1e9, int(waited) / 1e9)
