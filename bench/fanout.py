"""Measure the deliveries of an event that goes to twenty destinations, beside those of one that goes to one."""

from __future__ import annotations

import os
import signal
import statistics
from typing import Any

from hookline.bench import machine
from hookline.bench.event import destination, source
from hookline.bench.machine import wait_until
from hookline.bench.rig import BATCH, BATCH_CONNECTIONS, Figures, rig

DESTINATIONS = 20
DELIVERIES = 300_000
"""Of each measurement, however many destinations share them."""
ROUNDS = 5
DRAIN_SECONDS = 120


def fanout(_: float) -> Figures:
    """CPU of ``deliver`` per delivery, to one destination and to twenty, in turn; the medians."""
    one, twenty = zip(*((_cpu_us(1), _cpu_us(DESTINATIONS)) for _ in range(ROUNDS)), strict=True)
    return {
        "fanout_destinations": float(DESTINATIONS),
        "fanout_one_cpu_us_per_delivery": statistics.median(one),
        "fanout_cpu_us_per_delivery": statistics.median(twenty),
        "fanout_ratio": statistics.median(twenty) / statistics.median(one),
    }


def _cpu_us(destinations: int) -> float:
    """Collect a backlog while ``deliver`` stands still, let it go, and return what each delivery cost it."""
    measured, measuring = machine.cores()

    def connections(port: int) -> dict[str, Any]:
        made = [destination(f"receiver-{number}", port) for number in range(destinations)]
        return {"sources": [source()], "destinations": made}

    with rig(connections=connections) as bench:
        bench.start_receiver(core=measuring)
        sender = bench.pin_service(measured)["deliver"]
        os.kill(sender, signal.SIGSTOP)
        events = DELIVERIES // destinations
        bench.load(core=measuring, connections=BATCH_CONNECTIONS, seconds=DRAIN_SECONDS, batch=BATCH, events_max=events)
        before = machine.cpu_seconds(sender)
        os.kill(sender, signal.SIGCONT)
        wanted = (bench.next_number - 1) * destinations
        wait_until(lambda: bench.received() >= wanted, DRAIN_SECONDS, "all deliveries")
        return (machine.cpu_seconds(sender) - before) / wanted * 1e6
