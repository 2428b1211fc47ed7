"""kill -9 at random moments under load: nothing acknowledged is lost, only what was in flight repeated.

The cycles are those of ``python -m bench.crash``; ``pytest tests/service/crash --cycles 1000`` for the long run.
"""

from __future__ import annotations

import pytest
from bench.crash.kills import kills_in_recovery, random_kills, role_kills
from bench.crash.scene import Score

EVENTS_PER_SECOND = 1_000
UPTIME_SECONDS_MAX = 1.5
"""Every kind of moment comes within it, for the slowest of what repeats does so each second; the bench gives twice."""


def assert_sound(score: Score) -> None:
    """Nothing was lost, and what came twice was on the wire when something was killed."""
    print(f"\n{score}")
    assert score.expected > 0
    assert score.lost == 0
    assert score.failures == ()


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_kills_lose_nothing(request: pytest.FixtureRequest) -> None:
    """Everything killed a random time after it is ready, again and again: none lost, few sent twice."""
    cycles = int(request.config.getoption("--cycles", default=8))
    assert_sound(random_kills(cycles, EVENTS_PER_SECOND, UPTIME_SECONDS_MAX))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kills_during_recovery() -> None:
    """Killed again 0 to 0.5 s into each start, before it is ready: no crash loop, nothing lost."""
    assert_sound(kills_in_recovery(3, EVENTS_PER_SECOND))


@pytest.mark.parametrize("role", ["collect", "deliver"])
def test_a_killed_role_loses_nothing(role: str) -> None:
    """kill -9 of one role under load: its supervisor brings it back, the others go on, nothing is lost."""
    assert_sound(role_kills(3, EVENTS_PER_SECOND, role))
