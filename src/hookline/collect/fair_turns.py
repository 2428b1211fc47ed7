"""Fair shares of the loop's time at intake: a source that floods waits for itself, and nobody else waits for it.

While the requests of one source alone come in, each is taken in the turn of the loop it arrives in; that costs one
comparison. Once several sources send, each has a share of every turn. What is beyond it, and all batches, waits in its
source's queue and is worked off between turns, a few hundred microseconds at a time and source by source, so that a
request of anybody else never waits for more than one such slice.

How much may wait is bounded in bytes, the last quarter for sources below an even share; what does not fit is answered
503 before it costs anything.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from hookline.collect.clients import is_fair

Who = object
"""Whose a request is: its source's id, or its address while the source is not known."""

TURN_MICROSECONDS = 400.0
"""What the requests of one source may take of a turn that others wait in."""
REQUEST_MICROSECONDS = 30.0
BYTES_PER_MICROSECOND = 32
"""What a request takes, roughly: events of 500 bytes take some 15 µs each, and each call some more."""
SLICE_SECONDS = 0.0003
TURN_SECONDS = 0.0003
"""Of each turn, for what waits in queues, while others send."""
QUIET_TURN_SECONDS = 0.005
"""The same, once nobody else has sent anything for ``CONTENDED_SECONDS``."""
CONTENDED_SECONDS = 1.0
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Bodies of all requests that wait for their turn."""
WAITING_OVERHEAD_BYTES = 1_024
"""What a request that waits takes beside its body."""


class _Work(NamedTuple):
    steps: Iterator[None]
    bytes: int


class _Queue:
    """What waits of one source, oldest first."""

    __slots__ = ("bytes", "work")

    def __init__(self) -> None:
        self.bytes = 0
        self.work: deque[_Work] = deque()


class FairTurns:
    """Decides who is taken at once, and works off what waits; everything on one loop."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.last: Who = None
        """Whose request came last; while ``contended`` is false and it stays the same, nothing has to be asked."""
        self.contended = False
        self.waiting_bytes = 0
        self._clock = clock
        self._contended_until = 0.0
        self._spent: dict[Who, float] = {}
        self._queues: OrderedDict[Who, _Queue] = OrderedDict()
        self._scheduled = False

    def must_wait(self, who: Who, body_bytes: float) -> bool:
        """Return whether a request is beyond its source's share of this turn; count it if it is not."""
        if who is not self.last:
            self.contended = self.contended or self.last is not None
            self.last = who
            self._contended_until = self._clock() + CONTENDED_SECONDS
        if not self.contended:
            return False
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._end_turn)
        spent = self._spent.get(who, 0.0) + REQUEST_MICROSECONDS + body_bytes / BYTES_PER_MICROSECOND
        if spent > TURN_MICROSECONDS or who in self._queues:
            return True
        self._spent[who] = spent
        return False

    def add(self, who: Who, steps: Iterator[None], body_bytes: int) -> bool:
        """Have a request worked off step by step, behind those of its source that wait; False when too much does."""
        work = _Work(steps, body_bytes + WAITING_OVERHEAD_BYTES)
        queue = self._queues.get(who) or _Queue()
        total, holders = self.waiting_bytes + work.bytes, len(self._queues | {who: queue})
        if not is_fair(queue.bytes + work.bytes, holders, total, WAITING_BYTES_MAX):
            return False
        self._queues.setdefault(who, queue)
        queue.work.append(work)
        queue.bytes += work.bytes
        self.waiting_bytes = total
        return True

    def run_turn(self) -> bool:
        """Work off what one turn allows; return whether more waits."""
        self._spent.clear()
        now = self._clock()
        is_quiet = now >= self._contended_until
        turn_ends = now + (QUIET_TURN_SECONDS if is_quiet else TURN_SECONDS)
        while self._queues and now < turn_ends:
            who, queue = next(iter(self._queues.items()))
            now = self._run_slice(queue, now + SLICE_SECONDS)
            if queue.work:
                self._queues.move_to_end(who)
            else:
                del self._queues[who]
        if not self._queues and is_quiet:
            self.contended = False
        return bool(self._queues)

    def _run_slice(self, queue: _Queue, ends: float) -> float:
        now = ends
        while queue.work:
            work = queue.work[0]
            if next(work.steps, _ENDED) is _ENDED:
                queue.work.popleft()
                queue.bytes -= work.bytes
                self.waiting_bytes -= work.bytes
            now = self._clock()
            if now >= ends:
                break
        return now

    def _end_turn(self) -> None:
        self._scheduled = self.run_turn()
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._end_turn)


_ENDED = object()
