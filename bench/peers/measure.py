"""One service in one round: started, watched at rest, paced, saturated, killed; what each step found, by name."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import uvloop

from bench.peers import stores, traffic
from bench.peers.amqp import Publisher
from bench.peers.services import MARK, Hookline, Outpost, Peer
from bench.peers.traffic import Scene
from hookline.bench.load import percentiles
from hookline.bench.machine import wait_until
from hookline.bench.scenarios import Nginx
from hookline.bench.service import free_port

REST_SECONDS = 2.0
"""What a start does in the background ends within these."""
PACE_PER_SECOND = 200.0
WARM_UP_EVENTS = 200
KILLED_EVENTS = 5_000
KILLED_PER_SECOND = 2_000.0
KILLED_AT = KILLED_EVENTS // 2
STRAGGLER_SECONDS = 150.0
LATE_SECONDS = 1.0
"""After the last event, for those that arrive twice."""
DRAIN_SECONDS = 180.0
QUEUED_EVENTS_PER_SECOND = 8_000
"""Published to a queue per second of measuring: half of what comes through, so that it is soon delivered."""
BATCH_CONNECTIONS = 8
_PACED_FIRST = 1_000_000_000
"""Numbers that wrk does not reach: a repeated id may be dropped."""
_KILLED_FIRST = 2_000_000_000
_QUEUED_FIRST = 3_000_000_000


class Figures(msgspec.Struct, kw_only=True):
    """What a round found of one service; None where it has no such way."""

    version: str
    accepted_per_second: float
    delivered_per_second: float
    fast_accepted_per_second: float | None
    fast_delivered_per_second: float | None
    cpu_seconds_per_thousand: float
    fast_cpu_seconds_per_thousand: float | None
    p50_seconds: float
    p99_seconds: float
    idle_bytes: int
    loaded_bytes: int
    start_seconds: float
    killed_accepted: int
    killed_lost: int
    killed_twice: int
    straggler_seconds: float


def measure(peer: Peer, folder: Path, seconds: float) -> Figures:
    """Take all measurements of a service that has been entered but not started."""
    port = free_port()
    began = time.monotonic()
    peer.start()
    started = time.monotonic() - began
    peer.connect(port)
    time.sleep(REST_SECONDS)
    idle = stores.memory_bytes(peer.roots())
    p50, p99 = uvloop.run(_paced(peer, port, seconds))
    nginx = _nginx(folder, port)
    try:
        plain = _saturated(peer, nginx, folder, seconds)
        fast = _fast(peer, nginx, folder, seconds)
        loaded = stores.memory_bytes(peer.roots())
    finally:
        nginx.stop()
    killed = uvloop.run(_killed(peer, port))
    return Figures(
        version=peer.version(),
        accepted_per_second=plain[0],
        delivered_per_second=plain[1],
        cpu_seconds_per_thousand=plain[2],
        fast_accepted_per_second=fast and fast[0],
        fast_delivered_per_second=fast and fast[1],
        fast_cpu_seconds_per_thousand=fast and fast[2],
        p50_seconds=p50,
        p99_seconds=p99,
        idle_bytes=idle,
        loaded_bytes=loaded,
        start_seconds=started,
        killed_accepted=killed[0],
        killed_lost=killed[1],
        killed_twice=killed[2],
        straggler_seconds=killed[3],
    )


def _nginx(folder: Path, port: int) -> Nginx:
    """nginx in the receiver's place; its own counters are on a port beside it."""
    config = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 100000000; keepalive_timeout 600s; client_body_buffer_size 64k;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location = /status {{ stub_status; }} }}
  server {{ listen 127.0.0.1:{hook_port} backlog=1024; location / {{ return 200; }} }}
}}
"""
    return Nginx(folder / "nginx", config, hook_port=port)


async def _paced(peer: Peer, port: int, seconds: float) -> tuple[float, float]:
    """p50 and p99 from sending to arrival at a rate that every service keeps up with."""
    async with Scene(port) as scene:
        calls, first = peer.calls(), _PACED_FIRST + WARM_UP_EVENTS
        await scene.send(calls, range(_PACED_FIRST, first), PACE_PER_SECOND)
        last = first + round(PACE_PER_SECOND * seconds)
        await scene.send(calls, range(first, last), PACE_PER_SECOND)
        found = scene.traffic
        if (
            not await scene.wait(lambda: not found.missing(), DRAIN_SECONDS)
            or len(found.accepted) < last - _PACED_FIRST
        ):
            raise RuntimeError(f"{peer.name}: {len(found.accepted)} accepted, {len(found.missing())} not delivered")
        measured = percentiles([found.arrived[number] - found.sent[number] for number in range(first, last)])
    return measured[0], measured[1]


def _saturated(peer: Peer, nginx: Nginx, folder: Path, seconds: float) -> tuple[float, float, float]:
    """Accepted and delivered a second, one event in a request, and CPU seconds per thousand."""
    cpu, before, began = stores.cpu_seconds(peer.roots()), _count(nginx), time.monotonic()
    accepted, taken = traffic.saturate(folder, peer.calls(), peer.connections, seconds)
    return accepted / taken, *_drained(peer, nginx, before + accepted, accepted, cpu, began)


def _fast(peer: Peer, nginx: Nginx, folder: Path, seconds: float) -> tuple[float, float, float] | None:
    """The same by the fastest way in: None where that is the ordinary one."""
    cpu, before, began = stores.cpu_seconds(peer.roots()), _count(nginx), time.monotonic()
    if isinstance(peer, Hookline):
        # Their ids are new ones: others than those of single calls, which would be dropped as repeats.
        calls = peer.batches()
        renamed = calls._replace(body=calls.body.replace(b'"messageId":"bench-', b'"messageId":"batch-'))
        accepted, taken = traffic.saturate(folder, renamed, BATCH_CONNECTIONS, seconds)
    elif isinstance(peer, Outpost):
        accepted = round(QUEUED_EVENTS_PER_SECOND * seconds)
        numbers = range(_QUEUED_FIRST, _QUEUED_FIRST + accepted)
        message, publisher = peer.message(), Publisher(peer.rabbitmq_port)
        publisher.publish(peer.queue, (message.replace(MARK, b"%010d" % number) for number in numbers))
        publisher.close()
        taken = time.monotonic() - began
    else:
        return None
    return accepted / taken, *_drained(peer, nginx, before + accepted, accepted, cpu, began)


def _drained(peer: Peer, nginx: Nginx, wanted: int, events: int, cpu: float, began: float) -> tuple[float, float]:
    """Wait for all deliveries: how many a second, and CPU seconds per thousand."""
    wait_until(lambda: _count(nginx) >= wanted, DRAIN_SECONDS, "all deliveries", progress=lambda: _count(nginx) // 100)
    rate = events / (time.monotonic() - began)
    time.sleep(LATE_SECONDS)  # attempts are written to stores after the deliveries
    return rate, (stores.cpu_seconds(peer.roots()) - cpu) / events * 1000


def _count(nginx: Nginx) -> int:
    return nginx.requests() or 0


async def _killed(peer: Peer, port: int) -> tuple[int, int, int, float]:
    """kill -9 in the middle: accepted, lost, arrived twice, seconds from ready to the last that was accepted before."""
    async with Scene(port) as scene:
        found = scene.traffic
        numbers = range(_KILLED_FIRST, _KILLED_FIRST + KILLED_EVENTS)
        await scene.send(peer.calls(), numbers, KILLED_PER_SECOND, until=lambda: len(found.accepted) >= KILLED_AT)
        await asyncio.to_thread(peer.kill)
        before = set(found.accepted)
        await asyncio.to_thread(peer.start)  # the receiver answers meanwhile
        ready = time.monotonic()
        after = numbers[len(found.sent) :]
        await scene.send(peer.calls(), after, KILLED_PER_SECOND)
        await scene.wait(lambda: not found.missing(), STRAGGLER_SECONDS)
        last = max((found.arrived[number] for number in before if number in found.arrived), default=ready)
        await scene.wait(lambda: False, LATE_SECONDS)
        return len(found.accepted), len(found.missing()), found.twice(), max(0.0, last - ready)
