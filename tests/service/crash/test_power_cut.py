"""The power goes under load: nothing acknowledged is lost; without synchronisation it would be.

Needs root and loop devices; elsewhere the score says so, which is tested too. ``python -m bench.crash`` cuts oftener.
"""

from __future__ import annotations

from bench.crash import loop_disk
from bench.crash.power_cut import control_cuts, drain_cuts, power_cuts

CUTS = 2
EVENTS_PER_SECOND = 500
DRAINED_EVENTS = 10_000
MOMENT_SECONDS_MAX = 2.0
"""On a machine that is busy with other tests; 0.05 is what is promised of a disk that has nothing else to do."""


def test_a_power_cut_loses_nothing() -> None:
    """What was acknowledged before the cut is delivered after it."""
    score = power_cuts(CUTS, EVENTS_PER_SECOND)
    print(f"\n{score}")
    assert score.not_run == loop_disk.unavailable()
    assert score.lost == 0
    assert (score.cycles, score.expected > 0) == ((CUTS, True) if score.not_run is None else (0, False))


def test_a_power_cut_repeats_a_moment_and_not_a_day() -> None:
    """What was delivered long before the cut does not come again; the crash report measures how short the moment is."""
    score = drain_cuts(1, DRAINED_EVENTS)
    print(f"\n{score}")
    assert score.not_run == loop_disk.unavailable()
    assert score.lost == 0
    assert all(seconds < MOMENT_SECONDS_MAX for seconds in score.repeated_seconds)
    assert len(score.repeated_seconds) == (1 if score.not_run is None else 0)


def test_without_synchronisation_it_does() -> None:
    """The same cut with fsync turned off loses events: the cut is a real one."""
    score = control_cuts(1, EVENTS_PER_SECOND)
    print(f"\n{score}")
    assert score.loses_on_purpose
    assert (score.lost > 0) is (score.not_run is None)
