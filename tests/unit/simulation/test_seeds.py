"""Seeded runs of the whole deliver role with faults: nothing lost, starved, unbounded, early or late.

``HOOKLINE_TEST_SIMULATION_SEEDS`` sets how many seeds are run, ``HOOKLINE_TEST_SIMULATION_FIRST`` from where.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from hookline.simulation.__main__ import replay
from hookline.simulation.plan import plan_of
from hookline.simulation.run import run
from hookline.simulation.shrink import shrink

SEEDS = int(os.environ.get("HOOKLINE_TEST_SIMULATION_SEEDS", "300"))
FIRST = int(os.environ.get("HOOKLINE_TEST_SIMULATION_FIRST", "0"))
SEEDS_PER_TEST = 15
FOUND = (8, 65, 109, 173, 307)
"""Seeds that find what was wrong once, or what was broken on purpose."""


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, SEEDS_PER_TEST))
def test_seeds_find_nothing_wrong(first: int) -> None:
    """Whatever strikes, every invariant holds; a failing seed is made smaller and says how to repeat it."""
    for seed in range(first, min(first + SEEDS_PER_TEST, FIRST + SEEDS)):
        check(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_mended(seed: int) -> None:
    """Each defect that a seed has found keeps its seed."""
    check(seed)


def test_a_seed_is_the_same_run_everywhere() -> None:
    """Another process with other string hashes and addresses sends the same requests at the same moments."""
    seed = next(seed for seed in range(100) if run(plan_of(seed)).lives > 2)
    code = (
        "from hookline.simulation.plan import plan_of\n"
        "from hookline.simulation.run import run\n"
        f"print(run(plan_of({seed})).trace)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert other.stdout.strip() == run(plan_of(seed)).trace


def test_runs_meet_what_they_are_for() -> None:
    """Within a few seeds every kind of fault strikes, processes die many times, and requests flow."""
    results = [run(plan_of(seed)) for seed in range(12)]
    counts = {kind for result in results for kind in result.counts}
    assert {"kill", "power_cut", "crash_point", "receiver", "change", "pause"} <= counts
    assert sum(result.lives for result in results) > 20
    assert sum(result.requests for result in results) > 2_000


def check(seed: int) -> None:
    plan = plan_of(seed)
    result = run(plan)
    if result.violations:
        kept, smaller = shrink(plan, run)
        pytest.fail("\n".join([*smaller.violations, f"replay: {replay(seed, kept)}"]))
