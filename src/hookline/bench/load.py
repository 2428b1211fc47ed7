"""The benchmark's load generator: numbered events over keep-alive connections, closed loop or open loop.

Runs as ``python -m hookline.bench.load SPEC_JSON`` and prints its result as JSON. Closed loop: every connection sends
its next request when the answer is there. Open loop: requests become due at a fixed rate whatever the answers do, and
latency counts from the moment a request was due. ``window`` bounds how many events may be under way (closed loop;
numbers start at 1).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from hookline.bench.event import Ledger, Requests

TICK_SECONDS = 0.001
DRAIN_SECONDS = 10.0
OK = b"HTTP/1.1 200"
SOME_REJECTED = b'"rejected": [{'
REFUSAL_BYTES_MAX = 300


class Spec(msgspec.Struct, kw_only=True, frozen=True):
    """Hold what to send."""

    port: int
    connections: int
    batch: int = 0
    sources: int = 1
    people: int = 1
    first: int = 0
    seconds: float = 5.0
    events_max: int
    rate: float | None = None
    window: int | None = None
    accepted: str
    arrivals: str


class Result(msgspec.Struct, kw_only=True, frozen=True):
    """Hold what came of it. Latencies are those of requests: p50, p99, p99.9 and the longest."""

    sent: int
    accepted: int
    refused: int
    first_refusal: str | None
    broken_connections: int
    seconds: float
    late_max_seconds: float
    latency_seconds: tuple[float, float, float, float]


class Connection(asyncio.Protocol):
    """One connection; ``pending`` is the request under way as (first number, due time)."""

    __slots__ = ("_buffer", "_load", "_transport", "due", "first")

    def __init__(self, load: Load) -> None:
        self._load = load
        self._buffer = b""
        self.first = -1
        self.due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own class is no subclass of it
        self._load.idle.append(self)

    def send(self, first: int, due: float, request: bytes) -> None:
        self.first, self.due = first, due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        head_end = data.find(b"\r\n\r\n")
        at = data.find(b"ontent-", 0, head_end + 1)  # either spelling of the header's first letter
        while at >= 0 and data[at + 7 : at + 14].lower() != b"length:":
            at = data.find(b"ontent-", at + 7, head_end)
        if head_end < 0 or len(data) < head_end + 4 + int(data[at + 14 : data.find(b"\r", at)]):
            self._buffer = data
            return
        self._buffer = b""
        first, self.first = self.first, -1
        accepted = data.startswith(OK) and SOME_REJECTED not in data
        if not accepted and self._load.first_refusal is None:
            self._load.first_refusal = data[:REFUSAL_BYTES_MAX].decode("latin-1")
        self._load.answered(self, first, accepted)

    def connection_lost(self, error: Exception | None) -> None:
        self._load.lost(self)

    def close(self) -> None:
        self._transport.abort()


def percentiles(values: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the values' p50, p99, p99.9 and maximum; zeros when there are none."""
    if not values:
        return 0.0, 0.0, 0.0, 0.0
    ordered = sorted(values)
    last = len(ordered) - 1
    return ordered[last // 2], ordered[last * 99 // 100], ordered[last * 999 // 1000], ordered[last]


class Load:
    """One run of the generator."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._requests = Requests(f"127.0.0.1:{spec.port}", spec.batch, spec.sources, spec.people)
        self._accepted = Ledger(Path(spec.accepted))
        self._arrivals = Ledger(Path(spec.arrivals))
        self._next = spec.first
        self._limit = spec.first + spec.events_max - self._requests.events
        self._due: deque[float] = deque()
        self._stopping = False
        self.idle: deque[Connection] = deque()
        self.latencies: list[float] = []
        self.accepted = self.refused = self.broken = self.open = 0
        self.late_max_seconds = 0.0
        self.first_refusal: str | None = None

    async def run(self) -> Result:
        """Send for the given time, wait for the last answers, and sum up."""
        loop = asyncio.get_running_loop()
        links = [
            (await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._spec.port))[1]
            for _ in range(self._spec.connections)
        ]
        began = time.monotonic()
        if self._spec.rate is None:
            await self._closed(began)
        else:
            await self._open(began, self._spec.rate)
        seconds = time.monotonic() - began
        self._stopping = True
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.open and time.monotonic() < deadline:  # noqa: ASYNC110 - no test per answer on the hot path
            await asyncio.sleep(0.01)
        broken = self.broken
        for link in links:
            link.close()
        return Result(
            sent=self._next - self._spec.first,
            accepted=self.accepted,
            refused=self.refused,
            first_refusal=self.first_refusal,
            broken_connections=broken,
            seconds=seconds,
            late_max_seconds=self.late_max_seconds,
            latency_seconds=percentiles(self.latencies),
        )

    async def _closed(self, began: float) -> None:
        while not self._stopping and time.monotonic() - began < self._spec.seconds:
            while self.idle and self._may_send():
                self._send(self.idle.popleft(), time.monotonic())
            await asyncio.sleep(TICK_SECONDS if self._spec.window else 0.05)
            if self._next > self._limit:
                break

    async def _open(self, began: float, rate: float) -> None:
        interval = self._requests.events / rate
        due = began
        while (now := time.monotonic()) - began < self._spec.seconds and self._next <= self._limit:
            while due <= now:
                self._due.append(due)
                due += interval
            while self._due and self.idle and self._next <= self._limit:
                self._send(self.idle.popleft(), self._due.popleft())
            await asyncio.sleep(TICK_SECONDS)

    def _may_send(self) -> bool:
        if self._stopping or self._next > self._limit:
            return False
        window = self._spec.window
        return window is None or self._next - 1 - self._arrivals.counters[0] < window

    def _send(self, connection: Connection, due: float) -> None:
        first = self._next
        self._next += self._requests.events
        self.open += 1
        self.late_max_seconds = max(self.late_max_seconds, time.monotonic() - due)
        connection.send(first, due, self._requests.request(first))

    def answered(self, connection: Connection, first: int, accepted: bool) -> None:
        """Take down the answer and give the connection its next request."""
        now = time.monotonic()
        self.open -= 1
        if accepted:
            self.accepted += self._requests.events
            self._accepted.times[first] = now
            self.latencies.append(now - connection.due)
        else:
            self.refused += 1
        if self._due:
            self._send(connection, self._due.popleft())
        elif self._spec.rate is None and self._may_send():
            self._send(connection, now)
        else:
            self.idle.append(connection)

    def lost(self, connection: Connection) -> None:
        """A connection ended; what was under way on it counts as not accepted."""
        self.broken += 1
        if connection.first >= 0:
            self.open -= 1


if __name__ == "__main__":
    load = Load(msgspec.json.decode(sys.argv[1], type=Spec))
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(load.run())))
