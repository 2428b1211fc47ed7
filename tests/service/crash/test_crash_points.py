"""kill -9 at every named point between two durable steps, under load: nothing acknowledged is lost.

One service and one ledger live through all of it; each test arms one point, waits until it killed its process, kills
everything else as well, starts again and balances the ledger. How each is reached: ``bench/crash/points.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.crash.points import POINTS, crash_at_point
from bench.crash.scene import Scene

EVENTS_PER_SECOND = 2_000


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A service with two destinations, so that one may hang; at the end duplicates are counted and printed."""
    with Scene(EVENTS_PER_SECOND) as running:
        running.service.start()
        yield running
        running.service.stop()
        print(f"\n{len(POINTS)} crash points: {running.ledger.balance()}")


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_there_loses_nothing(scene: Scene, point: str) -> None:
    """The process dies exactly there, everything is killed, and after the start all acknowledged events arrive."""
    crash_at_point(scene, point)
    assert scene.ledger.balance().lost == ()
