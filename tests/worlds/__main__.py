"""``python -m tests.worlds``: seeded runs of the delivery code; a failing one is made smaller.

``--seed N`` replays one run, ``--keep 0,3`` with only those of its faults; ``--seeds COUNT`` runs many, ``--first N``
says from where; ``--plain`` leaves the features out. Exit code 1 when anything was wrong.
"""

from __future__ import annotations

import argparse
import sys

from tests.worlds.plan import Plan, plain_plan_of, plan_of
from tests.worlds.run import Result, run
from tests.worlds.shrink import shrink


def main(arguments: list[str]) -> int:
    """Run what was asked for; return the exit code."""
    found = _parser().parse_args(arguments)
    plan_for = plain_plan_of if found.plain else plan_of
    if found.seed is not None:
        plan = plan_for(found.seed)
        kept = tuple(range(len(plan.faults))) if found.keep is None else found.keep
        result = run(plan.only(kept))
        _tell(plan, kept, result)
        return int(bool(result.violations))
    failed = 0
    for seed in range(found.first, found.first + found.seeds):
        plan = plan_for(seed)
        if run(plan).violations:
            failed += 1
            _tell(plan, *shrink(plan, run))
    print(f"{found.seeds} runs, {failed} failed")
    return int(bool(failed))


def replay(plan: Plan, kept: tuple[int, ...]) -> str:
    """The one line that repeats a run."""
    keep = f" --keep {','.join(map(str, kept))}" if kept else ""
    plain = "" if plan.features == plan_of(plan.seed).features else " --plain"
    return f"python -m tests.worlds --seed {plan.seed}{keep}{plain}"


def _tell(plan: Plan, kept: tuple[int, ...], result: Result) -> None:
    print(
        f"seed {plan.seed}: {result.events} events, {result.requests} requests, {result.lives} lives of the role, "
        f"{result.seconds:.0f} s, {' '.join(plan.features) or 'plain'}, trace {result.trace}"
    )
    for index in kept:
        fault = plan.faults[index]
        print(f"  {index}: at {fault.at:.3f} s {fault.kind} {fault.what} d{fault.target} {fault.amount:g}")
    for violation in result.violations:
        print(f"  WRONG {violation}")
    if result.violations:
        print(f"  replay: {replay(plan, kept)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.worlds")
    parser.add_argument("--seed", type=int, help="replay this one run")
    parser.add_argument("--keep", type=_numbers, help="with only these of its faults")
    parser.add_argument("--seeds", type=int, default=100, help="how many runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--plain", action="store_true", help="without filters, replays and the other features")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
