"""Play the faults, show what came of them, and write the report; ends with 1 when anything is lost or an aim missed."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from hookline.bench.machine import leave_on_sigterm
from tests.faults.embedded import Embedded
from tests.faults.load import Scenario
from tests.faults.network import FAR_ADDRESS, NEAR_ADDRESS, Network, why_not
from tests.faults.pooler import new_pooler
from tests.faults.report import Outcome, page, write_charts
from tests.faults.scenarios import SCENARIOS
from tests.faults.stage import PARTITIONS, Stage
from tests.kafka.cluster import Cluster, Place
from tests.postgres import PostgresServer

WORKERS = 2
ERROR_CHARACTERS = 300


def main() -> int:
    """Read the options and do it."""
    options = _options()
    leave_on_sigterm()
    known = _read(options.json)
    chosen = [each for each in SCENARIOS if not options.only or each.name in options.only]
    for scenario in chosen:
        if options.resume and scenario.name in known and known[scenario.name].balance is not None:
            continue
        before = known.get(scenario.name) if options.add else None
        outcome = _outcome(scenario, options, before.times if before is not None else 0)
        known[scenario.name] = before.plus(outcome) if before is not None else outcome
        if options.json is not None:
            options.json.parent.mkdir(parents=True, exist_ok=True)
            options.json.write_bytes(msgspec.json.format(msgspec.json.encode(known)) + b"\n")
        page({scenario.name: known[scenario.name]}, PARTITIONS, options.session, charts=False).print()
    if options.write is not None:
        page(known, PARTITIONS, options.session, charts=True).write(options.write)
        write_charts(known, options.write.parent)
    played = {each.name: known[each.name] for each in chosen}
    return int(not page(played, PARTITIONS, options.session, charts=False).passed)


def _outcome(scenario: Scenario, options: argparse.Namespace, injected_before: int) -> Outcome:
    times, rate = options.times or scenario.times, options.rate or scenario.rate
    print(f"{time.strftime('%H:%M:%S')} {scenario.name}: {scenario.title}, {times} times", file=sys.stderr, flush=True)
    given = {
        "seconds_max": options.minutes * 60,
        "lasting_seconds": options.lasting,
        "injected_before": injected_before,
    }
    try:
        return play(scenario, times, options.session, rate=rate, **given)
    except Exception as error:  # noqa: BLE001 - the border of the loop: the other scenarios still count
        failure = f"given up: {str(error)[:ERROR_CHARACTERS]}"
        return Outcome(name=scenario.name, rate=rate, times=times, balance=None, failures=(failure,))


def play(scenario: Scenario, times: int, session: str, **given: Any) -> Outcome:
    """Start everything, play a scenario under load, count; ``given`` is as a Load takes it."""
    if scenario.is_cut and (reason := why_not()) is not None:
        raise RuntimeError(f"not played: {reason}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hookline-faults-")))
        stage = Embedded(folder, **given) if scenario.is_embedded else _stage(stack, scenario, folder, session, given)
        stack.enter_context(stage)
        stage.start_load()
        try:
            scenario.play(stage, times)
        except TimeoutError as error:  # stuck: what was acknowledged is counted all the same
            stage.failures.append(str(error))
        counted = stage.settle()
        failures = stage.failures + [f"an unexpected error: {trace}" for trace in stage.tracebacks()]
        for name in ("unexpected", "wrong_signatures"):
            if number := getattr(counted, name):
                failures.append(f"{number:,} {name.replace('_', ' ')}")
        return Outcome(
            name=scenario.name, rate=stage.rate, times=len(stage.injections), balance=counted, failures=tuple(failures)
        )


def _stage(
    stack: contextlib.ExitStack, scenario: Scenario, folder: Path, session: str, given: Mapping[str, Any]
) -> Stage:
    places = [Place()] * 3
    if scenario.is_cut:
        network = stack.enter_context(Network())
        places = [Place(NEAR_ADDRESS), Place(NEAR_ADDRESS), Place(FAR_ADDRESS, network.within)]
    cluster = stack.enter_context(Cluster(folder / "kafka", places))
    server = PostgresServer()
    stack.callback(server.remove)
    pooler = stack.enter_context(new_pooler(server)) if scenario.is_pooled else None
    own: dict[str, Any] = {
        "workers": WORKERS,
        "session": session,
        "pooler": pooler,
        "has_audience": scenario.has_audience,
    }
    return Stage(folder, cluster, server, **own, **given)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults",
        description=__doc__,
        epilog="scenarios: " + "; ".join(f"{each.name} ({each.title}, {each.times} times)" for each in SCENARIOS),
    )
    names = [each.name for each in SCENARIOS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="play this one; may be repeated")
    parser.add_argument("--times", type=int, help="how often each fault is injected, in place of its own number")
    parser.add_argument("--rate", type=float, help="events per second, in place of each fault's own")
    parser.add_argument("--lasting", type=float, metavar="SECONDS", help="of each trouble, in place of its own time")
    parser.add_argument("--session", default="10s", help="deliver.session_timeout (%(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="of each scenario, after which nothing more is injected"
    )
    parser.add_argument(
        "--add", action="store_true", help="go on where what --json has of a fault ended, and count to it"
    )
    parser.add_argument("--resume", action="store_true", help="leave out what --json has: go on after an interruption")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep outcomes here; those of scenarios not played now stay"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the page, its charts beside it")
    return parser.parse_args()


def _read(path: Path | None) -> dict[str, Outcome]:
    if path is None or not path.exists():
        return {}
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Outcome])


if __name__ == "__main__":
    sys.exit(main())
