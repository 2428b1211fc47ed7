"""One receiver far away with a backlog, and with a replay: how many deliveries a second are under way to it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench import away
from hookline.bench import machine
from hookline.bench.event import destination, one_receiver, source
from hookline.bench.machine import wait_until
from hookline.bench.rig import BATCH, BATCH_CONNECTIONS, Figures, Rig, rig

BACKLOG = 120_000
CASES = {"100_ms": (0.1, None), "300_ms": (0.3, None), "300_ms_2000_allowed": (0.3, 2_000)}
"""Round trip in seconds, and ``maxConcurrency``."""
QUICKENS_SECONDS = 5.0
"""The rate is that of the ten seconds from then on."""
MEASURED_SECONDS = 10.0
REPLAYED = 100_000
START_SECONDS = 60.0
DRAIN_SECONDS = 180.0


def far(_: float) -> Figures:
    """Deliveries a second from the fifth second of a backlog on, and of a replay when there is nothing else."""
    figures: Figures = {}
    for case, (seconds, allowed) in CASES.items():
        figures |= {f"far_{case}_{name}": value for name, value in _backlog(seconds, allowed).items()}
    return figures | {"far_100_ms_replay_per_second": _replay(0.1)}


def _backlog(seconds: float, allowed: int | None) -> Figures:
    def connections(port: int) -> dict[str, Any]:
        made = destination("receiver", port)
        if allowed is not None:
            made["delivery"] = {"maxConcurrency": allowed}
        return {"sources": [source()], "destinations": [made]}

    with rig(connections=connections) as bench, _receiver(bench, seconds):
        sender = bench.service.processes()["deliver"]
        os.kill(sender, signal.SIGSTOP)
        bench.load(connections=BATCH_CONNECTIONS, seconds=DRAIN_SECONDS, batch=BATCH, events_max=BACKLOG)
        os.kill(sender, signal.SIGCONT)
        wait_until(lambda: bench.received() > 0, START_SECONDS, "the first delivery")
        time.sleep(QUICKENS_SECONDS)
        before, began = bench.received(), time.monotonic()
        time.sleep(MEASURED_SECONDS)
        rate = (bench.received() - before) / (time.monotonic() - began)
        return {"per_second": rate, "deliver_mb": machine.memory_of(sender).rss / 1e6}


def _replay(seconds: float) -> float:
    with rig(connections=one_receiver) as bench, _receiver(bench, seconds):
        bench.load(connections=BATCH_CONNECTIONS, seconds=DRAIN_SECONDS, batch=BATCH, events_max=REPLAYED)
        wait_until(lambda: bench.received() >= REPLAYED, DRAIN_SECONDS, "all deliveries")
        before, began = bench.received(), time.monotonic()
        bench.service.api("POST", "replays", {"destination": "receiver"})
        wait_until(lambda: bench.received() >= before + REPLAYED, DRAIN_SECONDS, "the replay")
        return REPLAYED / (time.monotonic() - began)


@contextmanager
def _receiver(bench: Rig, seconds: float) -> Iterator[None]:
    process = subprocess.Popen(away.command(bench, seconds), stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: machine.listens(bench.port), START_SECONDS, "the receiver")
        yield
    finally:
        process.terminate()
        process.wait()
