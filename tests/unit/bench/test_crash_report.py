"""The crash report's verdict: losses, slow restarts, broken promises and a tame control run make it fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from bench.crash import power_cut
from bench.crash.report import KINDS, Asked, crash_page
from bench.crash.scene import Score

GOOD = Score(kind=power_cut.KIND, cycles=200, expected=10_000, duplicates=5, restart_seconds=(0.9, 1.0, 1.4))


def passed(*scores: Score) -> bool:
    """The verdict on these scores."""
    return crash_page(scores, Asked(cycles=200)).passed


def test_good_scores_pass() -> None:
    """Duplicates are counted and allowed; the page says what so many cycles without a loss prove."""
    page = crash_page([GOOD], Asked(cycles=200))
    assert page.passed
    assert "| power cut | 200 | 10,000 | 0 | 5 | 0.050% | 1.00 s | 1.40 s |" in page.markdown()
    assert "for 200 power cuts, fewer than 1.5%" in page.markdown()


@pytest.mark.parametrize(
    "broken",
    [
        {"lost": 1},
        {"expected": 0},
        {"restart_seconds": (2.1, 2.2)},
        {"repeated_seconds": (0.01, 0.2, 0.3)},
        {"failures": ("a role died",)},
    ],
    ids=lambda broken: next(iter(broken)),
)
def test_whatever_is_broken_fails_it(broken: dict[str, Any]) -> None:
    """One loss, nothing measured, slow restarts, or a promise broken: the report fails."""
    assert not passed(GOOD, msgspec.structs.replace(GOOD, **broken))


def test_a_control_run_has_to_lose() -> None:
    """Without synchronisation losses are the proof that the cut bites; none of them fails the report."""
    control = Score(kind=power_cut.CONTROL_KIND, cycles=5, expected=100, lost=40, loses_on_purpose=True)
    assert passed(GOOD, control)
    assert not passed(GOOD, msgspec.structs.replace(control, lost=0))


def test_what_was_not_run_is_said_and_decides_nothing() -> None:
    """A machine that cannot do something gets a report that says so in one line."""
    page = crash_page([GOOD, Score(kind="clock jumps", not_run="needs a library")], Asked(cycles=200))
    assert page.passed
    assert "| clock jumps | needs a library |" in page.markdown()


def test_every_kind_has_cycles() -> None:
    """However few cycles are asked for, each kind of damage is measured, the control run included."""
    assert len(Asked(cycles=1).amounts()) == len(Asked(cycles=500).amounts()) == len(KINDS)
