"""The wall clock is set while events wait: retries, windows, pauses and what is called back go on as they were."""

from __future__ import annotations

import pytest

from hookline.connections.model import Pause
from hookline.limits import LIMITS
from tests.unit.deliver.rig import START_MS, Rig, destination, source

HOUR = 3_600
DAY = 24 * HOUR
JUMPS = pytest.mark.parametrize("jump", [HOUR, -HOUR, 40 * DAY, -40 * DAY, -START_MS // 1000])
WINDOW_SECONDS = 4 * HOUR


def begin(rig: Rig, events: int) -> None:
    """Start with one destination and so many events on their way."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(events)))
    rig.turn()


def statuses(rig: Rig) -> list[str]:
    """What became of what was given up."""
    rig.checkpoint()
    return [status for (status,) in rig.role.store._read.execute("SELECT status FROM dead_letters")]


@JUMPS
@pytest.mark.parametrize("restarts", [False, True])
def test_a_retry_is_sent_in_its_time(rig: Rig, jump: int, restarts: bool) -> None:
    """It neither starves nor expires, in the same process or the next one."""
    begin(rig, 1)
    rig.answer_all(503)
    rig.checkpoint()
    rig.clock.set_by_ms = jump * 1000
    if restarts:
        rig.restart()
    rig.pass_time(2.0)
    assert len(rig.network.waiting) == 1
    rig.answer_all(200)
    assert statuses(rig) == []


@JUMPS
def test_the_window_ends_after_its_hours(rig: Rig, jump: int) -> None:
    """An event that keeps failing is given up when its four hours have passed, not before and not never."""
    begin(rig, 1)
    rig.answer_all(503)
    rig.clock.set_by_ms = jump * 1000
    for _ in range(WINDOW_SECONDS // 700 - 1):
        rig.checkpoint()
        rig.pass_time(700.0)
        rig.answer_all(503)
    assert statuses(rig) == []
    for _ in range(3):
        rig.checkpoint()
        rig.pass_time(700.0)
        rig.answer_all(503)
    assert statuses(rig) == ["expired"]


@JUMPS
def test_what_is_shown_is_the_wall_clock(rig: Rig, jump: int) -> None:
    """Of an attempt and of the next one people see times as their clocks have them."""
    rig.clock.set_by_ms = jump * 1000
    begin(rig, 1)
    rig.answer_all(503)
    rig.checkpoint()
    ((at, next_at),) = rig.role.store._read.execute("SELECT at, next_at FROM attempts").fetchall()
    assert abs(at - rig.clock.now_ms()) < 1_000
    assert 0 <= next_at - rig.clock.now_ms() <= 1_000


@JUMPS
@pytest.mark.parametrize("restarts", [False, True])
def test_a_pause_lasts_as_long_as_it_does(rig: Rig, jump: int, restarts: bool) -> None:
    """Its time does not count for the window, and the clock that was set meanwhile does not either."""
    begin(rig, 1)
    rig.answer_all(503)
    rig.checkpoint()
    pause = Pause(since=rig.clock.now_ms(), steady_since=rig.clock.steady_ms())
    rig.store.pause("crm", pause, "test", rig.appender.ends)
    rig.follow()
    rig.clock.set_by_ms = jump * 1000
    rig.pass_time(5.0 * HOUR)
    if restarts:
        rig.restart()
    rig.store.resume("crm", None, "test", rig.appender.ends)
    rig.follow()
    rig.checkpoint()
    rig.pass_time(1.0)
    rig.answer_all(503)
    assert statuses(rig) == []
    rig.checkpoint()
    rig.pass_time(WINDOW_SECONDS + 700.0)
    rig.answer_all(503)
    assert statuses(rig) == ["expired"]


@JUMPS
def test_what_an_outage_burned_comes_back(rig: Rig, jump: int) -> None:
    """All that a run of refusals gave up waits again when the breaker opens, and is sent when the receiver is back."""
    begin(rig, 200)
    for _ in range(LIMITS.narrow_failures):
        rig.answer(rig.network.waiting[0], 401)
    rig.checkpoint()
    rig.clock.set_by_ms = jump * 1000
    rig.pass_time(11.0)
    rig.answer_all(401)
    rig.checkpoint()
    assert rig.lane("crm").breaker.state == "open"
    rig.come_to_rest()
    assert statuses(rig) == []


def test_rows_of_a_clock_that_is_known_no_more_come_near(rig: Rig) -> None:
    """A due time that lies farther ahead than any can be is none: with the next start it is due."""
    begin(rig, 1)
    rig.answer_all(503)
    rig.checkpoint()
    rig.role.store._write.execute("UPDATE retries SET due = due + ?, first_at = first_at + ?", (DAY * 1000, DAY * 1000))
    rig.restart()
    rig.pass_time(0.1)
    assert len(rig.network.waiting) == 1
