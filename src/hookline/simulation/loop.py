"""The event loop of one simulated process: what asyncio needs, on the scheduler's time, without sockets and threads.

When the process dies, everything it had planned dies with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from inspect import CORO_CREATED, getcoroutinestate
from typing import Any, cast

from hookline.simulation.scheduler import Call, Scheduler

Work = Callable[[Callable[[], object], "asyncio.Future[Any]"], None]
"""Does what a thread would do, now or later, and settles the future."""


class SimulatedLoop:
    """One life of one process. ``work`` stands for its threads."""

    def __init__(self, scheduler: Scheduler, work: Work, on_error: Callable[[BaseException | str], None]) -> None:
        self.dead = False
        self._scheduler = scheduler
        self._work = work
        self._on_error = on_error
        self._begun: list[Coroutine[Any, Any, object]] = []
        self._readers: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def die(self) -> None:
        """The process is gone, and what it had just begun will never run."""
        self.dead = True
        for coroutine in self._begun:
            if getcoroutinestate(coroutine) == CORO_CREATED:
                coroutine.close()

    @property
    def for_asyncio(self) -> asyncio.AbstractEventLoop:
        """This loop, where asyncio wants one: it asks for nothing that is not here."""
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        """Seconds of the simulated monotonic clock."""
        return self._scheduler.clock.seconds

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """Call in this moment, after what was asked for before."""
        return self._scheduler.soon(Call(self, callback, args, context))

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        """Call after some seconds."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        """Call at a time of the monotonic clock."""
        return self._scheduler.at(when, Call(self, callback, args, context))

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self.for_asyncio)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        """Run a coroutine."""
        self._begun = [each for each in self._begun if getcoroutinestate(each) == CORO_CREATED]
        self._begun.append(coro)
        return asyncio.Task(coro, loop=self.for_asyncio, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Have the work done as the simulated machine does it; what is nobody's thread in particular at once."""
        future = self.create_future()
        if executor is None:
            future.set_result(func(*args))
        else:
            self._work(lambda: func(*args), future)
        return future

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:
        """Remember who is to be woken; ``wake`` wakes."""
        self._readers.append((callback, args))

    def remove_reader(self, fd: Any) -> bool:
        """Wake nobody any more."""
        self._readers.clear()
        return True

    def wake(self) -> None:
        """Something arrived for whoever reads."""
        for callback, args in self._readers:
            self.call_soon(callback, *args)

    def run(self, main: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a process's main coroutine; when it ends by an error the world is told."""
        task = self.create_task(main)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.dead:
            self._on_error(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """An error that nobody takes care of is an error of the code under test, unless the process is gone."""
        if not self.dead:
            self._on_error(context.get("exception") or str(context.get("message")))

    def get_debug(self) -> bool:
        """Never in debug mode."""
        return False

    def is_running(self) -> bool:
        """As long as the process lives."""
        return not self.dead

    def is_closed(self) -> bool:
        """When the process is gone."""
        return self.dead
