"""What one hostile source costs ten honest ones: their answer times alone, and beside somebody who sends as fast as one
core can, in turn small calls and gzip batches as large as collect takes them.

``python bench/floods.py PORT SECONDS`` is the hostile sender; it prints what it was answered as JSON.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import cast

import uvloop

from hookline.bench import machine
from hookline.bench.event import Connections, authorization, destination, event, source, write_key
from hookline.bench.rig import Figures, Rig, rig

HONEST = 10
HONEST_PER_SECOND = 300.0
"""Calls of all ten: much less than a core takes, so that what they wait for is the flood."""
HONEST_CONNECTIONS = 40
HOSTILE_KEY = "wk_hostile"
SMALL_CONNECTIONS = 64
LARGE_CONNECTIONS = 16
LARGE_EVENTS = 1_000
"""Of 485 bytes each: nearly the largest batch."""
IDLE_NICENESS = 19
"""The flood comes from another machine in earnest: here it must not take the honest sender's processor."""


def floods(seconds: float) -> Figures:
    """Ten honest sources alone and beside the hostile one, single calls and batches of twenty in turn."""
    figures: Figures = {}
    with rig(connections=eleven_sources) as bench:
        measured, measuring = machine.cores()
        os.kill(bench.pin_service(measured)["deliver"], signal.SIGSTOP)  # the sender is another measurement
        _honest(bench, "warm_up", 1.0, measuring)
        figures |= _honest(bench, "alone", seconds, measuring)
        hostile = _start_hostile(bench.service.collect_port, seconds + 2.0, measuring)
        time.sleep(1.0)
        figures |= _honest(bench, "beside", seconds, measuring)
        answers: dict[str, int] = json.loads(hostile.communicate()[0])
    figures["hostile_events_per_second"] = answers.pop("events") / (seconds + 2.0)
    figures["hostile_taken_requests"] = answers.pop("200", 0)
    figures["hostile_turned_away_requests"] = sum(answers.values())
    for name in ("p50", "p99"):
        figures[f"beside_{name}_ratio"] = figures[f"beside_{name}_ms"] / figures[f"alone_{name}_ms"]
    return figures


def eleven_sources(port: int) -> Connections:
    """Ten sources, the hostile one, and a receiver that is never asked."""
    honest = [source(f"honest-{number}", write_key(number)) for number in range(HONEST)]
    names = [each["id"] for each in honest]
    return {
        "sources": [*honest, source("hostile", HOSTILE_KEY)],
        "destinations": [destination("receiver", port, names)],
    }


def _honest(bench: Rig, name: str, seconds: float, core: int) -> Figures:
    result = bench.load(
        core=core, connections=HONEST_CONNECTIONS, seconds=seconds, sources=HONEST, rate=HONEST_PER_SECOND
    )
    p50, p99, _, longest = result.latency_seconds
    return {
        f"{name}_p50_ms": p50 * 1000,
        f"{name}_p99_ms": p99 * 1000,
        f"{name}_max_ms": longest * 1000,
        f"{name}_refused": float(result.refused),
        f"{name}_broken_connections": float(result.broken_connections),
    }


def _start_hostile(port: int, seconds: float, core: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", __file__, str(port), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    machine.pin(process.pid, core)
    os.setpriority(os.PRIO_PROCESS, process.pid, IDLE_NICENESS)
    return process


class _Flood(asyncio.Protocol):
    """One connection that sends the same request again as soon as it is answered, and a new one when it is closed."""

    def __init__(self, request: bytes, events: int, answers: Counter[str]) -> None:
        self._request = request
        self._events = events
        self._answers = answers
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        if not end or len(body) < int(length or 0):
            return
        self._buffer = b""
        status = head[9:12].decode()
        self._answers[status] += 1
        self._answers["events"] += self._events if status == "200" else 0
        self._transport.write(self._request)


async def _flood(port: int, seconds: float) -> Counter[str]:
    answers: Counter[str] = Counter(events=0)
    small = _request("/v1/track", event(1))
    batch = gzip.compress(b'{"batch":[' + b",".join(map(event, range(LARGE_EVENTS))) + b"]}", 1)
    large = _request("/v1/batch", batch, b"Content-Encoding: gzip\r\n")
    loop = asyncio.get_running_loop()
    for number in range(SMALL_CONNECTIONS + LARGE_CONNECTIONS):
        request, events = (small, 1) if number < SMALL_CONNECTIONS else (large, LARGE_EVENTS)
        await loop.create_connection(lambda r=request, n=events: _Flood(r, n, answers), "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(seconds)
    return answers


def _request(path: str, body: bytes, headers: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: bench\r\nAuthorization: %b\r\n%bContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        authorization(HOSTILE_KEY),
        headers,
        len(body),
        body,
    )


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_flood(int(sys.argv[1]), float(sys.argv[2])))))
