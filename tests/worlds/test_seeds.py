"""Seeded runs of the whole deliver role with faults: nothing lost, wants_slot, unbounded, early or late.

``HOOKLINE_TEST_SIMULATION_SEEDS`` sets how many seeds are run, ``HOOKLINE_TEST_SIMULATION_FIRST`` from where.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.__main__ import replay
from tests.worlds.plan import LATER_FROM, MAPPED_FROM, Plan, plain_plan_of, plan_of
from tests.worlds.run import run
from tests.worlds.shrink import shrink

SEEDS = int(os.environ.get("HOOKLINE_TEST_SIMULATION_SEEDS", "30"))
FIRST = int(os.environ.get("HOOKLINE_TEST_SIMULATION_FIRST", "0"))
SEEDS_PER_TEST = 10
ROOT = Path(__file__).parents[2]
FOUND = (8, 65, 109, 173, 307, 5017, 5266, 6664)
"""Seeds of plain runs that find what was wrong once, or what was broken on purpose."""
FOUND_WITH_FEATURES = (
    *(1047, 1076, 1231, 1260, 1272, 2681, 20025, 70080, 90003),
    *(20411, 21752, 21766, 21890, 22155, 22745, 22750),
    *(310218, 1007127, 1017235, 1020383, 1020483, 1020550, 1020649, 1020706, 1020964, 1020981, 1021256),
    *(1024217, 1025296, 1060021, 1061105, 2000822, 2000926, 2004719, 1029568, 2016322),
    *(400010, 400032, 400048, 402093, 402180, 404012, 404059, 410421, 501023, 501130),
    *(50739, 51855, 52031, 52953, 100650, 100694, 101130, 101175, 101327, 102467, 103708, 104171, 200050, 200457),
)
"""The same of runs with filters, replays and the like."""


def groups(first: int, count: int) -> list[range]:
    """Seeds in ranges of what one test runs."""
    end = first + count
    return [range(each, min(each + SEEDS_PER_TEST, end)) for each in range(first, end, SEEDS_PER_TEST)]


@pytest.mark.parametrize(
    "seeds",
    [*groups(FIRST, SEEDS), *groups(LATER_FROM + FIRST, SEEDS // 2), *groups(MAPPED_FROM + FIRST, SEEDS // 2)],
    ids=str,
)
def test_seeds_find_nothing_wrong(seeds: range) -> None:
    """Whatever strikes, every invariant holds; a failing seed is made smaller and says how to repeat it."""
    for seed in seeds:
        check(plan_of(seed))


@pytest.mark.parametrize("plan", [*map(plain_plan_of, FOUND), *map(plan_of, FOUND_WITH_FEATURES)])
def test_what_was_found_once_stays_mended(plan: Plan) -> None:
    """Each defect that a seed has found keeps its seed."""
    check(plan)


def test_a_seed_is_the_same_run_everywhere() -> None:
    """Another process with other string hashes and addresses sends the same requests at the same moments."""
    seed = next(seed for seed in range(100) if run(plan_of(seed)).lives > 2)
    code = f"from tests.worlds.plan import plan_of\nfrom tests.worlds.run import run\nprint(run(plan_of({seed})).trace)"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True, cwd=ROOT
    )
    assert other.stdout.strip() == run(plan_of(seed)).trace


def test_runs_meet_what_they_are_for() -> None:
    """Within a few seeds every kind of fault strikes, processes die many times, and requests flow."""
    results = [run(plan_of(seed)) for seed in range(12)]
    counts = {kind for result in results for kind in result.counts}
    assert {"kill", "power_cut", "crash_point", "receiver", "change", "pause", "drain", "replay"} <= counts
    assert sum(result.lives for result in results) > 20
    assert sum(result.requests for result in results) > 2_000


def check(plan: Plan) -> None:
    result = run(plan)
    if result.violations:
        kept, smaller = shrink(plan, run)
        pytest.fail("\n".join([*smaller.violations, f"replay: {replay(plan, kept)}"]))
