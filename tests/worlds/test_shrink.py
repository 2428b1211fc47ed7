"""Shrinking: a failing plan keeps only the faults that it needs to fail."""

from __future__ import annotations

import msgspec

from tests.worlds.plan import Plan, plan_of
from tests.worlds.run import Result
from tests.worlds.shrink import RUNS_MAX, shrink


def plan_with(count: int) -> Plan:
    plan = next(plan for plan in map(plan_of, range(1_000)) if len(plan.faults) >= count)
    return msgspec.structs.replace(plan, faults=plan.faults[:count])


def failing_when(needed: set[float], runs: list[int]) -> object:
    def run(plan: Plan) -> Result:
        runs.append(len(plan.faults))
        wrong = ("wrong",) if needed <= {fault.at for fault in plan.faults} else ()
        return Result(plan.seed, wrong, 0, 0, 0, 1, 0.0, "", {})

    return run


def test_only_what_is_needed_is_left() -> None:
    """Two of ten faults make it fail: these two are found, within the bound."""
    plan, runs = plan_with(10), []
    needed = {plan.faults[2].at, plan.faults[7].at}
    kept, result = shrink(plan, failing_when(needed, runs))  # type: ignore[arg-type]
    assert kept == (2, 7)
    assert result.violations
    assert len(runs) <= RUNS_MAX


def test_a_run_that_needs_no_fault_keeps_none() -> None:
    """What fails without any fault is shrunk to nothing."""
    kept, result = shrink(plan_with(6), failing_when(set(), []))  # type: ignore[arg-type]
    assert (kept, result.violations) == ((), ("wrong",))


def test_a_plan_is_the_same_for_its_seed_and_keeps_by_index() -> None:
    """The seed alone decides the plan; leaving faults out leaves the others as they are."""
    plan = plan_of(7)
    assert plan == plan_of(7)
    assert plan.only((0,)).faults == plan.faults[:1]
    assert plan.only((0,)).bursts == plan.bursts
