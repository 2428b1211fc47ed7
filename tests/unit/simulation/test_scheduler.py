"""Simulated time: calls in the order of their time, processes whose calls end with them, no loop without time."""

from __future__ import annotations

import asyncio

import pytest

from hookline.simulation import scheduler as module
from hookline.simulation.scheduler import Call, Crashed, NeverRests, Scheduler, SimulatedClock, SimulatedLoop


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(SimulatedClock())


def loop_of(scheduler: Scheduler, errors: list[object]) -> SimulatedLoop:
    return SimulatedLoop(scheduler, lambda work, future: future.set_result(work()), errors.append)


def test_calls_come_in_the_order_of_their_time(scheduler: Scheduler) -> None:
    """The clock stands at each call's moment, and at the end where it was told to stop."""
    seen: list[tuple[str, float]] = []
    scheduler.after(2.0, lambda: seen.append(("late", scheduler.clock.seconds)))
    scheduler.after(1.0, lambda: seen.append(("early", scheduler.clock.seconds)))
    scheduler.run_for(5.0)
    assert seen == [("early", 1_001.0), ("late", 1_002.0)]
    assert scheduler.clock.seconds == 1_005.0


def test_a_coarse_scheduler_rounds_up_what_processes_wait_for(scheduler: Scheduler) -> None:
    """A process wakes at the next multiple; the world outside is as exact as ever."""
    woken: list[float] = []
    scheduler.coarse_seconds = 2.0
    loop_of(scheduler, []).call_later(0.3, lambda: woken.append(scheduler.clock.seconds))
    scheduler.after(0.5, lambda: woken.append(scheduler.clock.seconds))
    scheduler.run_for(3.0)
    assert woken == [1_000.5, 1_002.0]


def test_a_dead_process_does_nothing_more(scheduler: Scheduler) -> None:
    """Calls and tasks of a loop end with it, silently."""
    errors: list[object] = []
    loop = loop_of(scheduler, errors)

    async def work() -> None:
        await asyncio.sleep(1.0)
        errors.append("it went on")

    loop.run(work())
    scheduler.run_for(0.5)
    loop.die()
    scheduler.run_for(2.0)
    assert not errors


def test_asyncio_runs_on_simulated_time(scheduler: Scheduler) -> None:
    """Tasks sleep, wait and use threads' work without a second passing outside."""
    done: list[tuple[int, float]] = []
    loop = loop_of(scheduler, [])

    async def work() -> None:
        await asyncio.sleep(3_600)
        number = await asyncio.get_running_loop().run_in_executor(None, lambda: 7)
        done.append((number, asyncio.get_running_loop().time()))

    loop.run(work())
    scheduler.run_for(4_000)
    assert done == [(7, 4_600.0)]


def test_an_error_of_a_process_is_told(scheduler: Scheduler) -> None:
    """An error in a callback or at the end of the main coroutine reaches whoever watches."""
    errors: list[object] = []
    loop = loop_of(scheduler, errors)

    async def fail() -> None:
        raise ValueError("main")

    loop.call_soon(lambda: 1 // 0)
    loop.run(fail())
    scheduler.run_for(1.0)
    assert [type(error) for error in errors] == [ZeroDivisionError, ValueError]


def test_a_crash_ends_the_call_alone(scheduler: Scheduler) -> None:
    """What a crash point raises goes no further than its call."""
    seen: list[str] = []

    def crash() -> None:
        raise Crashed("deliver.after_checkpoint")

    scheduler.soon(Call(None, crash))
    scheduler.soon(Call(None, seen.append, ("next",)))
    scheduler.run_for(1.0)
    assert seen == ["next"]
    assert Crashed("deliver.after_checkpoint").committed
    assert not Crashed("deliver.before_checkpoint").committed


def test_calls_without_end_are_noticed(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that always asks for another one stops the run."""
    monkeypatch.setattr(module, "CALLS_PER_MOMENT_MAX", 100)

    def again() -> None:
        scheduler.soon(Call(None, again))

    again()
    with pytest.raises(NeverRests):
        scheduler.run_for(1.0)


def test_the_wall_clock_jumps_alone() -> None:
    """Setting the wall clock back leaves the monotonic one."""
    clock = SimulatedClock()
    before = clock.now_ms()
    clock.jump(-3.0)
    assert (clock.now_ms() - before, clock.monotonic()) == (-3_000, 1_000.0)
