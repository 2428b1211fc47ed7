"""Measure what a disk costs whose flushes take longer than this machine's: calls, batches, and deliveries end to end.

strace makes each ``fdatasync`` and ``fsync`` of the service last longer; other system calls run as ever.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.job_queues import Missing
from hookline.bench.machine import tool
from hookline.bench.rig import BATCH, BATCH_CONNECTIONS, Figures, rig

DELAYS_MS = (0, 2, 10)
RATE = 200.0
"""Single calls a second, for latencies that no load has a part in."""
CONNECTIONS = 512
"""Calls that wait at once: one flush is for all of them."""
FLUSHES = 200


def slow_disk(seconds: float) -> Figures:
    """Rates and latencies of acceptance and end to end, with flushes that take 0, 2 and 10 ms longer."""
    if tool("strace") is None:
        raise Missing("slow flushes need strace; install it (Debian: apt-get install strace)")
    figures: Figures = {"slow_disk_fdatasync_ms": _fdatasync_ms()}
    for delay in DELAYS_MS:
        figures |= {f"slow_disk_{delay}ms_{name}": value for name, value in _measure(_within(delay), seconds).items()}
    return figures


def _within(delay_ms: int) -> Sequence[str]:
    """Return the command around the service; strace is there without a delay too, so that only the delay differs."""
    traced = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, "-e", "trace=fdatasync,fsync"]
    return [*traced, "-e", f"inject=fdatasync,fsync:delay_enter={delay_ms}ms"] if delay_ms else traced


def _measure(within: Sequence[str], seconds: float) -> Figures:
    with rig(within=within) as bench:
        bench.start_receiver()
        bench.saturate(1.0)  # warm-up
        single = bench.load(connections=CONNECTIONS, seconds=seconds)
        bench.drain(bench.next_number - 1)
        batches = bench.load(connections=BATCH_CONNECTIONS, seconds=seconds, batch=BATCH)
        bench.drain(bench.next_number - 1)
        _, rate = bench.saturate(seconds)
        first = bench.next_number
        calm = bench.load(connections=CONNECTIONS, seconds=seconds, rate=RATE)
        bench.drain(bench.next_number - 1)
        delivered, overall = bench.delivered(1, first), bench.delivered(1)
    return {
        "single_per_second": single.accepted / single.seconds,
        "single_p50_ms": single.latency_seconds[0] * 1000,
        "single_p99_ms": single.latency_seconds[1] * 1000,
        "batch_events_per_second": batches.accepted / batches.seconds,
        "e2e_per_second": rate,
        "calm_accept_p50_ms": calm.latency_seconds[0] * 1000,
        "calm_accept_p99_ms": calm.latency_seconds[1] * 1000,
        "calm_deliver_p50_ms": delivered.latency_seconds[0] * 1000,
        "calm_deliver_p99_ms": delivered.latency_seconds[1] * 1000,
        "lost": float(overall.lost),
    }


def _fdatasync_ms() -> float:
    """Return how long this machine's own flush of 4 KiB takes, the median."""
    with tempfile.TemporaryFile(dir=Path.cwd()) as file:
        times = []
        for _ in range(FLUSHES):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000
