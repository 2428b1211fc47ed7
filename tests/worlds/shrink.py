"""Makes a failing run smaller: leaves out faults as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

from tests.worlds.plan import Plan
from tests.worlds.run import Result

RUNS_MAX = 120


def shrink(plan: Plan, run: Callable[[Plan], Result]) -> tuple[tuple[int, ...], Result]:
    """The faults, by index, that are enough for the run to fail, and its result; ``plan`` fails with all of them."""
    kept = tuple(range(len(plan.faults)))
    failing, left = run(plan), RUNS_MAX
    step = max(1, len(kept) // 2)
    while step and left > 0:
        at = 0
        while at < len(kept) and left > 0:
            fewer = kept[:at] + kept[at + step :]
            left -= 1
            result = run(plan.only(fewer))
            if result.violations:
                kept, failing = fewer, result
            else:
                at += step
        step //= 2
    return kept, failing
