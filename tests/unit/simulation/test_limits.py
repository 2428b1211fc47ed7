"""Small limits hold while a run lasts and are gone afterwards, whatever happened."""

from __future__ import annotations

import contextlib

from hookline.deliver import dispatcher as engine
from hookline.deliver import recovery
from hookline.deliver.lanes import breaker, lane, order
from hookline.deliver.read import catch_up, feeder
from hookline.deliver.retry import schedule
from hookline.deliver.retry import scheduler as retries
from hookline.outcomes import progress
from hookline.simulation.limits import SMALL, small_limits


def test_limits_are_small_inside_and_themselves_again_outside() -> None:
    """Every module that has a limit of the table has it small, and gets it back after an error too."""
    before = engine.IN_FLIGHT_MAX, feeder.QUEUE_HIGH, progress.CAPACITY, lane.Lane.__hash__, engine.crash_point
    with contextlib.suppress(RuntimeError), small_limits(lambda name: None):
        assert SMALL["IN_FLIGHT_MAX"] == engine.IN_FLIGHT_MAX
        assert SMALL["QUEUE_HIGH"] == feeder.QUEUE_HIGH
        raise RuntimeError
    after = engine.IN_FLIGHT_MAX, feeder.QUEUE_HIGH, progress.CAPACITY, lane.Lane.__hash__, engine.crash_point
    assert after == before


def test_every_limit_of_the_table_exists() -> None:
    """A constant that was renamed must not silently stay large."""
    modules = (breaker, catch_up, engine, feeder, lane, order, recovery, retries, schedule, progress)
    assert [name for name in SMALL if not any(hasattr(module, name) for module in modules)] == []


def test_crash_points_are_passed_on() -> None:
    """Inside, the code's crash points tell whoever asked."""
    seen: list[str] = []
    with small_limits(seen.append):
        engine.crash_point("deliver.detached")
    assert seen == ["deliver.detached"]
