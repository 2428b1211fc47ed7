"""Ten thousand HTTPS receivers, each an origin of its own that gets an event every few seconds and is 50 ms away.

nginx ends their TLS, and hands requests to a receiver that answers late.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.service.deliver.certificates import Authority

from bench import away
from bench.job_queues import Missing
from hookline.bench import machine
from hookline.bench.event import destination, source, write_key
from hookline.bench.machine import wait_until
from hookline.bench.rig import Figures, Rig, rig

ORIGINS = 10_000
FIRST_PORT = 10_081
"""Behind the last port that receivers may not have, and below those that systems give to connections."""
RATE = 2_000.0
"""Events a second over all: each origin gets one every five seconds."""
AWAY_SECONDS = 0.05
OPEN_FILES = 15_000
"""Of one process, at most."""
SERVERS = 4
"""So many nginx share the ports, for each is a file that is open."""
START_SECONDS = 120.0
DRAIN_SECONDS = 60.0
CONFIG = """
daemon off; pid {folder}/pid; worker_processes 1; worker_rlimit_nofile {files}; error_log {folder}/error.log crit;
events {{ worker_connections {files}; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  ssl_certificate {pair}; ssl_certificate_key {pair}; ssl_protocols TLSv1.3; keepalive_timeout {kept};
  upstream away {{ server 127.0.0.1:{away}; keepalive 1024; keepalive_requests 1000000; }}
  server {{ listen 127.0.0.1:{first}-{last} ssl backlog=64; keepalive_requests 1000000;
    location / {{ proxy_pass http://away; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
"""
LEAVES_OPEN = {"sparse": "75s", "kept": "75s 75s"}
"""What nginx says of connections at rest: nothing, so that they are closed after 4 s, or that it keeps them 75 s."""
CLOSING = "1s"
"""Receivers that close connections before the next event: every round connects to all of them anew."""
CLOSING_ORIGINS = 1_000
CLOSING_SECONDS = 2.5
"""From one event of an origin to its next."""
CLOSING_ROUNDS = (10, 50, 100)
"""After which ``deliver`` is weighed."""


def origins(seconds: float, count: int = ORIGINS) -> Figures:
    """Latency from acceptance to arrival, the processor's time of each delivery, and what ``deliver`` holds; with
    connections that are made for almost every event, and with connections that are kept. Then what it holds after a
    hundred rounds of connecting to all of a thousand receivers anew."""
    figures: Figures = {"origins": float(count)}
    for case, kept in LEAVES_OPEN.items():
        figures |= {f"origins_{case}_{name}": value for name, value in _measured(seconds, count, kept).items()}
    return figures | {f"origins_closing_{name}": value for name, value in _closing().items()}


def _closing() -> Figures:
    with _stage(CLOSING_ORIGINS, CLOSING) as bench:
        sender, figures, before = bench.service.processes()["deliver"], {}, 0
        for rounds in CLOSING_ROUNDS:
            seconds = (rounds - before) * CLOSING_SECONDS
            bench.load(connections=16, sources=CLOSING_ORIGINS, seconds=seconds, rate=CLOSING_ORIGINS / CLOSING_SECONDS)
            _drain(bench)
            figures[f"after_{rounds}_rounds_mb"] = machine.memory_of(sender).rss / 1e6
            before = rounds
        overall = bench.delivered(1)
        return figures | {
            "delivered": float(overall.received),
            "lost": float(overall.lost),
            "duplicates": float(overall.duplicates),
        }


@contextmanager
def _stage(count: int, kept: str) -> Iterator[Rig]:
    with tempfile.TemporaryDirectory(prefix="hookline-origins-") as folder:
        authority = Authority(Path(folder))
        settings = {"deliver.ca-file": str(authority.file)}
        _allow_files()
        with (
            rig(connections=partial(_connections, count), settings=settings) as bench,
            _receivers(Path(folder), bench, authority, kept, count),
        ):
            yield bench


def _measured(seconds: float, count: int, kept: str) -> Figures:
    with _stage(count, kept) as bench:
        sender = bench.service.processes()["deliver"]
        # One round for everybody to be connected to and verified in full.
        bench.load(connections=16, sources=count, seconds=count / RATE, rate=RATE)
        _drain(bench)
        early = machine.memory_of(sender).rss
        first, cpu = bench.next_number, machine.cpu_seconds(sender)
        bench.load(connections=16, sources=count, seconds=seconds, rate=RATE)
        _drain(bench)
        cpu_us = (machine.cpu_seconds(sender) - cpu) / (bench.next_number - first) * 1e6
        seen, overall = bench.delivered(1, first), bench.delivered(1)
        return {
            "delivered": float(overall.received),
            "lost": float(overall.lost),
            "duplicates": float(overall.duplicates),
            "wrong_signatures": float(overall.wrong_signatures),
            "p50_ms": seen.latency_seconds[0] * 1000,
            "p99_ms": seen.latency_seconds[1] * 1000,
            "p999_ms": seen.latency_seconds[2] * 1000,
            "cpu_us_per_delivery": cpu_us,
            "after_first_round_mb": early / 1e6,
            "at_end_mb": machine.memory_of(sender).rss / 1e6,
        }


def _allow_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES:
        raise Missing(f"this needs processes with {OPEN_FILES} open files (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, hard))


def _connections(count: int, _: int) -> dict[str, Any]:
    """A source and a destination for each origin."""
    made: list[dict[str, Any]] = []
    for number in range(count):
        made.append(destination(f"receiver-{number:05}", 0, [f"source-{number:05}"]))
        made[-1]["settings"]["webhooks"][0]["url"] = f"https://127.0.0.1:{FIRST_PORT + number}/hook"
    return {
        "sources": [source(f"source-{number:05}", write_key(number)) for number in range(count)],
        "destinations": made,
    }


@contextmanager
def _receivers(folder: Path, bench: Rig, authority: Authority, kept: str, count: int) -> Iterator[None]:
    program = machine.tool("nginx")
    if program is None:
        raise Missing("this needs nginx")
    pair = authority.server_file("127.0.0.1")
    commands = [away.command(bench, AWAY_SECONDS)]
    ports = range(FIRST_PORT, FIRST_PORT + count)
    for share in (ports[n * count // SERVERS : (n + 1) * count // SERVERS] for n in range(SERVERS)):
        own = folder / str(share[0])
        own.mkdir()
        (own / "nginx.conf").write_text(
            CONFIG.format(
                folder=own, files=OPEN_FILES, pair=pair, kept=kept, away=bench.port, first=share[0], last=share[-1]
            )
        )
        commands.append([program, "-c", str(own / "nginx.conf"), "-p", str(own), "-e", str(own / "error.log")])
    processes = [subprocess.Popen(each, stdin=subprocess.DEVNULL) for each in commands]
    try:
        wait_until(lambda: machine.listens(ports[-1]), START_SECONDS, "nginx")
        yield
    finally:
        for each in processes:
            each.terminate()
            each.wait()


def _drain(bench: Rig) -> None:
    wait_until(lambda: bench.received() >= bench.next_number - 1, DRAIN_SECONDS, "all deliveries")
