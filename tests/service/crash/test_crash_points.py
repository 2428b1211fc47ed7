"""kill -9 at every named point between two durable steps, under load: nothing acknowledged is lost.

One service and one ledger live through all of it; each test arms a point, waits until it killed its process, kills
everything else as well, goes on with the next point of its row, starts again and balances the ledger. How each is
reached: ``bench/crash/points.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.crash.points import LIVES, POINTS, crash_at_points
from bench.crash.scene import Scene

EVENTS_PER_SECOND = 1_000


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """A service with two destinations, so that one may hang; at the end duplicates are counted and printed."""
    with Scene(EVENTS_PER_SECOND) as running:
        running.service.start()
        yield running
        running.service.stop()
        print(f"\n{len(POINTS)} crash points: {running.ledger.balance()}")


@pytest.mark.parametrize("points", LIVES, ids=" ".join)
def test_a_crash_there_loses_nothing(scene: Scene, points: tuple[str, ...]) -> None:
    """A process dies exactly there and everything is killed, at one point after the other; all acknowledged events
    arrive after the last start."""
    crash_at_points(scene, points)
    assert scene.ledger.balance().lost == ()
