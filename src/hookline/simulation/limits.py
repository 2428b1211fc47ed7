"""The delivery code's limits made small, so that a short run reaches every one of them; and its crash points armed.

Applies to this process while the context lasts: simulations run in one thread, one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

from hookline.deliver import checkpointer, recovery, replays
from hookline.deliver import dispatcher as engine
from hookline.deliver.lanes import breaker, lane, order, replay_lane
from hookline.deliver.read import catch_up, feeder
from hookline.deliver.retry import failures, schedule
from hookline.deliver.retry import scheduler as retries
from hookline.journal.local import next_segment, partition
from hookline.journal.local import recovery as journal_recovery
from hookline.outcomes import progress

SMALL: dict[str, float] = {
    "QUEUE_LOW": 4,
    "QUEUE_HIGH": 8,
    "RETRY_ROWS_MAX": 24,
    "HELD_MAX": 4,
    "IN_FLIGHT_MAX": 24,
    "SICK_IN_FLIGHT_MAX": 6,
    "LINGERING_MAX": 4,
    "CURSORS_MAX": 2,
    "OPEN_FAILURES": 6,
    "OPEN_SECONDS": 1.0,
    "NARROW_FAILURES": 3,
    "NARROW_ALLOWANCE": 2,
    "FIRST_ALLOWANCE": 2,
    "FULL_ALLOWANCE": 8,
    "ALLOWANCE_MAX": 12,
    "CAPACITY": 1_024,
    "FULL_AT": 1_024 - 256,
    "LATE_MS_MAX": 5_000,
}
"""Constants of the delivery code and the values they have in a simulated run."""
SMALL_REPLAYS: dict[str, float] = {"RUNNING_MAX": 2, "IN_FLIGHT_MAX": 4}
"""The same for replays."""

_DELIVER = (
    breaker,
    catch_up,
    checkpointer,
    engine,
    failures,
    feeder,
    lane,
    order,
    recovery,
    retries,
    schedule,
    progress,
)
_REPLAYS = (replays, replay_lane)
_WITH_CRASH_POINTS = (catch_up, checkpointer, engine, feeder, replays, partition, next_segment, journal_recovery)


@contextmanager
def small_limits(crash_point: Callable[[str], None]) -> Iterator[None]:
    """Run with small limits; ``crash_point`` is told of every named point that is passed."""
    changed: list[tuple[ModuleType | type, str, object]] = []

    def change(owner: ModuleType | type, name: str, value: object) -> None:
        changed.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    try:
        for modules, values in ((_DELIVER, SMALL), (_REPLAYS, SMALL_REPLAYS)):
            for module in modules:
                for name, value in values.items():
                    if hasattr(module, name):
                        change(module, name, value)
        for module in _WITH_CRASH_POINTS:
            change(module, "crash_point", crash_point)
        yield
    finally:
        for owner, name, before in reversed(changed):
            setattr(owner, name, before)
