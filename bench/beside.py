"""What people cost the deliveries: the same load without definitions, and with twenty audiences and ten computed traits
that keep the profiles role at work beside it."""

from __future__ import annotations

import time
from typing import Any

from bench.crowd import NAMES
from hookline.bench import machine
from hookline.bench.event import Connections, one_receiver
from hookline.bench.machine import wait_until
from hookline.bench.rig import BATCH, Figures, Rig, rig

PEOPLE = 100_000
NEVER = 10_000
"""Nobody does it so often: what is told to destinations would be another load."""
CAUGHT_UP_SECONDS = 300.0
HALF_CONNECTIONS = 32


def beside(seconds: float) -> Figures:
    """End to end, saturated and at half of what it reaches by itself, without people and with them."""
    with rig() as bench:
        figures, rate = _measured(bench, "alone", seconds, None)
    with rig(connections=with_people) as bench:
        _wait_for_profiles(bench)
        found, _ = _measured(bench, "beside", seconds, rate / 2)
        figures |= found
        figures["beside_lag_events"] = bench.service.metric("hookline_profiles_lag_events")
        began = time.monotonic()
        wait_until(lambda: not bench.service.metric("hookline_profiles_lag_events"), CAUGHT_UP_SECONDS, "caught up")
        figures["beside_caught_up_seconds"] = time.monotonic() - began
        applied = bench.service.metric("hookline_profiles_applied_total")
        figures["beside_not_applied_lost"] = float(bench.service.events_accepted()) - applied
    for figure in ("per_second", "half_load_p50_ms", "half_load_p99_ms"):
        figures[f"beside_{figure.replace('_ms', '')}_ratio"] = figures[f"beside_{figure}"] / figures[f"alone_{figure}"]
    return figures


def with_people(port: int) -> Connections:
    """One receiver, and definitions that ask for thirty features, three of each event's name, and find nobody."""
    never = {"count": {"gte": NEVER}, "within": "90d"}
    audiences: list[dict[str, Any]] = []
    for number, name in enumerate(NAMES):
        audiences.append(_definition(f"often_{number}", condition={"event": name, **never}))
        large = {"event": name, "where": "properties.total >= 100", **never}
        audiences.append(_definition(f"large_{number}", condition=large))
    traits = [
        _definition(f"sum_{number}", event=name, aggregate="sum", property="properties.total", within="90d")
        for number, name in enumerate(NAMES)
    ]
    return one_receiver(port) | {"audiences": audiences, "computedTraits": traits}


def _definition(name: str, **rest: object) -> dict[str, Any]:
    return {"id": name, "name": name, "destinations": ["receiver"], "syncEvery": "24h", **rest}


def _wait_for_profiles(bench: Rig) -> None:
    wait_until(lambda: "profiles" in bench.service.processes(), CAUGHT_UP_SECONDS, "profiles started")
    time.sleep(2.0)  # its start is not what is measured


def _measured(bench: Rig, name: str, seconds: float, half: float | None) -> tuple[Figures, float]:
    bench.start_receiver()
    bench.saturate(1.0, people=PEOPLE)  # warm-up
    deliver = bench.service.processes()["deliver"]
    used = machine.cpu_seconds(deliver)
    saturated, rate = bench.saturate(seconds, people=PEOPLE)
    used = machine.cpu_seconds(deliver) - used
    first = bench.next_number
    at_half = bench.load(
        connections=HALF_CONNECTIONS, seconds=seconds, batch=BATCH, rate=half or rate / 2, people=PEOPLE
    )
    bench.drain(bench.next_number - 1)
    seen, overall = bench.delivered(BATCH, first), bench.delivered(BATCH)
    p50, p99, _, _ = seen.latency_seconds
    return {
        f"{name}_per_second": rate,
        f"{name}_deliver_cpu_us_per_event": used / max(1, saturated.accepted) * 1e6,
        f"{name}_half_load_per_second": at_half.accepted / at_half.seconds,
        f"{name}_half_load_p50_ms": p50 * 1000,
        f"{name}_half_load_p99_ms": p99 * 1000,
        f"{name}_half_load_accept_p99_ms": at_half.latency_seconds[1] * 1000,
        f"{name}_refused": float(saturated.refused + at_half.refused),
        f"{name}_lost": float(overall.lost),
        f"{name}_duplicates": float(overall.duplicates),
        f"{name}_wrong_signatures": float(overall.wrong_signatures),
    }, rate
