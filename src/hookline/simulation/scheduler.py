"""What happens when in a simulated world: one queue of calls in the order of simulated time, one thread.

Calls for the same moment run in the order in which they were made, so a run is the same every time.
"""

from __future__ import annotations

import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from hookline.simulation.clock import SimulatedClock

if TYPE_CHECKING:
    from hookline.simulation.loop import SimulatedLoop

CALLS_PER_MOMENT_MAX = 1_000_000


class Crashed(BaseException):
    """The process ends at a named crash point: nothing that follows in it happens."""

    def __init__(self, point: str) -> None:
        super().__init__(point)
        self.committed = point == "deliver.after_checkpoint"
        """Whether the database has the checkpoint that was being saved."""


class NeverRests(Exception):
    """Calls follow each other without time passing."""


class Call:
    """One call to be made; ``loop`` is the process it belongs to, None for the world outside."""

    __slots__ = ("_context", "_function", "_given", "cancelled", "loop")

    def __init__(
        self,
        loop: SimulatedLoop | None,
        function: Callable[..., object],
        given: tuple[object, ...] = (),
        context: Context | None = None,
    ) -> None:
        self.loop = loop
        self._function = function
        self._given = given
        self._context = context
        self.cancelled = False

    def cancel(self) -> None:
        """Do not make the call."""
        self.cancelled = True

    def make(self) -> None:
        """Make the call, unless it was cancelled or its process is gone."""
        loop = self.loop
        if self.cancelled or (loop is not None and loop.dead):
            return
        events._set_running_loop(None if loop is None else loop.for_asyncio)
        try:
            if self._context is None:
                self._function(*self._given)
            else:
                self._context.run(self._function, *self._given)
        except Crashed:
            pass  # whoever raised it has ended the process
        except Exception as error:
            if loop is None:
                raise
            loop.call_exception_handler({"message": "a callback raised", "exception": error})
        finally:
            events._set_running_loop(None)


class Scheduler:
    """Makes calls when their time has come; time passes only here."""

    def __init__(self, clock: SimulatedClock) -> None:
        self.clock = clock
        self._soon: deque[Call] = deque()
        self._later: list[tuple[float, int, Call]] = []
        self._count = 0
        self.coarse_seconds = 0.0
        """Above 0, waiting ends only at multiples of this: for stretches in which hardly anything happens."""

    def soon(self, call: Call) -> Call:
        """Make the call in this moment, after those that were asked for before."""
        self._soon.append(call)
        return call

    def at(self, seconds: float, call: Call) -> Call:
        """Make the call at a time of the monotonic clock."""
        if self.coarse_seconds and call.loop is not None:
            seconds = -(-seconds // self.coarse_seconds) * self.coarse_seconds
        self._count += 1
        heapq.heappush(self._later, (seconds, self._count, call))
        return call

    def after(self, seconds: float, function: Callable[..., object], *given: Any) -> Call:
        """Make a call of the world outside after some seconds."""
        return self.at(self.clock.seconds + seconds, Call(None, function, given))

    def run_until(self, seconds: float) -> None:
        """Let time pass to this moment."""
        soon, later, clock = self._soon, self._later, self.clock
        self._settle()
        while later and later[0][0] <= seconds:
            when, _, call = heapq.heappop(later)
            if when > clock.seconds:
                clock.seconds = when
            call.make()
            if soon:
                self._settle()
        clock.seconds = max(clock.seconds, seconds)

    def run_for(self, seconds: float) -> None:
        """Let some seconds pass."""
        self.run_until(self.clock.seconds + seconds)

    def _settle(self) -> None:
        """Make the calls of this moment, and those they ask for."""
        soon, left = self._soon, CALLS_PER_MOMENT_MAX
        while soon:
            soon.popleft().make()
            left -= 1
            if not left:
                raise NeverRests(f"{CALLS_PER_MOMENT_MAX} calls without time passing")
