"""The job queues people deliver webhooks with today, at the same work on the same machine: Dramatiq, arq, Celery.

An extra of the benchmark, not of the product: each gets an environment of its own in a temporary folder, and all of
them a Redis server each. What is doubtful is decided in their favour: nothing collects, so jobs are put in by a program
that does nothing else, the body is sent as it was put in, nothing is recorded, and they have every core.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hookline.bench import receiver
from hookline.bench.event import ID_PREFIX, SECRET, Ledger, event
from hookline.bench.machine import tool
from hookline.bench.rig import Figures
from hookline.bench.scenarios import e2e
from hookline.bench.service import free_port

JOBS_PER_SECOND = 4_000
"""How many jobs are put into a queue per second of measuring; one that empties sooner is measured until then."""

AHEAD_MAX = 1_000
"""How many jobs may wait in the queue while they are put in and delivered at the same time."""

WARM_UP_JOBS = 500
START_WAIT_SECONDS = 60.0
INSTALL_WAIT_SECONDS = 600.0
STOP_WAIT_SECONDS = 10.0
THREADS = 8
E2E_FAULTS = ("refused", "lost", "duplicates", "wrong_signatures")

_PROGRAM = "peer_jobs.py"


class Peer(NamedTuple):
    """A job queue: what to install, and its workers' command lines (of which there are ``processes``)."""

    name: str
    requirements: tuple[str, ...]
    worker: tuple[str, ...]
    processes: int = 1


class Missing(Exception):
    """Something the comparison needs is not there; the text says what to install."""


def compare(seconds: float) -> Figures:
    """Job queues at the same work end to end, and at deliveries alone out of a full queue, against Hookline."""
    rates: Figures = {}
    for peer in all_peers():
        rates[peer.name] = deliveries_per_second(peer, seconds, full_queue=False)
        rates[f"{peer.name}_full_queue"] = deliveries_per_second(peer, seconds, full_queue=True)
    own = e2e(seconds)
    figures = {"compare_hookline_per_second": own["e2e_per_second"]}
    figures |= {f"compare_{name}_per_second": rate for name, rate in rates.items()}
    figures |= {f"compare_to_{name}_ratio": own["e2e_per_second"] / rate for name, rate in rates.items()}
    return figures | {f"compare_{fault}": own[f"e2e_{fault}"] for fault in E2E_FAULTS}


def all_peers() -> list[Peer]:
    """The peers, each told to use the whole machine."""
    cores = os.cpu_count() or 1
    dramatiq = ("dramatiq", "peer_jobs", "--processes", str(cores), "--threads", str(THREADS))
    celery = ("celery", "--app", "peer_jobs", "worker", "--concurrency", str(2 * cores), "--loglevel", "error")
    alone = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    return [
        Peer("dramatiq", ("dramatiq[redis]==2.2.1", "requests==2.34.2"), dramatiq),
        Peer("arq", ("arq==0.28.0", "aiohttp==3.14.5"), ("arq", "peer_jobs.WorkerSettings"), cores),
        Peer("celery", ("celery[redis]==5.7.0", "requests==2.34.2"), celery + alone),
    ]


def deliveries_per_second(peer: Peer, seconds: float, *, full_queue: bool) -> float:
    """How many signed events a second the peer posts; RuntimeError when it does other work.

    With a full queue only the posting counts: all jobs are put in before the clock starts and Redis keeps nothing on
    disk. Without, the peer does what Hookline does end to end: jobs are put in while others are delivered, as fast as
    the workers keep up, and each is on disk before the one who put it in goes on.
    """
    redis = tool("redis-server")
    if redis is None:
        raise Missing("the comparison needs redis-server: install it (Debian: apt-get install redis-server)")
    with TemporaryDirectory(prefix="hookline-bench-") as name:
        folder = Path(name)
        bin_folder = _install(peer, folder)
        jobs = max(1, round(seconds * JOBS_PER_SECOND))
        arrivals = Ledger(folder / "arrivals", jobs + 1)
        redis_port, receiver_port = free_port(), free_port()
        environment = _environment(peer, redis_port, receiver_port)
        disk = ("--appendonly", "no") if full_queue else ("--appendonly", "yes", "--appendfsync", "always")
        stores = (redis, "--bind", "127.0.0.1", "--save", "", *disk, "--dir", name, "--port", str(redis_port))
        receives = (sys.executable, "-P", "-m", "hookline.bench.receiver", str(receiver_port))
        with _running(stores, folder, None), _running((*receives, str(folder / "arrivals"), SECRET), folder, None):
            _wait_listening(redis_port)
            _wait_listening(receiver_port)
            puts = (str(bin_folder / "python"), _PROGRAM, str(jobs))
            if full_queue:
                subprocess.run([*puts, "0"], cwd=folder, env=environment, check=True, stdin=subprocess.DEVNULL)
            worker = (str(bin_folder / peer.worker[0]), *peer.worker[1:])
            with ExitStack() as running:
                if not full_queue:
                    running.enter_context(_running((*puts, str(AHEAD_MAX)), folder, environment))
                for _ in range(peer.processes):
                    running.enter_context(_running(worker, folder, environment))
                rate = _rate(arrivals, jobs, seconds, folder)
        if arrivals.counters[receiver.WRONG_SIGNATURE] or arrivals.counters[receiver.UNNUMBERED]:
            raise RuntimeError(f"{peer.name} does not send what Hookline sends")
        return rate


def _install(peer: Peer, folder: Path) -> Path:
    """Make the peer's environment; return where its programs are."""
    shutil.copy(Path(__file__).with_name(_PROGRAM), folder)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(folder / "venv")], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise Missing("the comparison needs Python's venv with pip (Debian: apt-get install python3-venv)")
    bin_folder = folder / "venv" / "bin"
    pip = [str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run(
        [*pip, *peer.requirements], capture_output=True, text=True, timeout=INSTALL_WAIT_SECONDS, check=False
    )
    if installed.returncode:
        raise Missing(f"pip could not install {', '.join(peer.requirements)}:\n{installed.stderr[-2000:]}")
    return bin_folder


def _environment(peer: Peer, redis_port: int, receiver_port: int) -> dict[str, str]:
    template = event(0).replace(b"%b%010d" % (ID_PREFIX, 0), b"%b%%010d" % ID_PREFIX)
    return {
        **os.environ,
        "PEER": peer.name,
        "PEER_REDIS": f"redis://127.0.0.1:{redis_port}/0",
        "PEER_RECEIVER": f"http://127.0.0.1:{receiver_port}/hook",
        "PEER_SECRET": SECRET,
        "PEER_EVENT": template.decode(),
    }


@contextmanager
def _running(command: tuple[str, ...], folder: Path, environment: dict[str, str] | None) -> Iterator[None]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        for wanted in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, wanted)
                process.wait(STOP_WAIT_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue


def _wait_listening(port: int) -> None:
    deadline = time.monotonic() + START_WAIT_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens on port {port}")


def _rate(arrivals: Ledger, jobs: int, seconds: float, folder: Path) -> float:
    """Arrivals a second once every worker is likely to be up, over the time given or until the queue is empty."""
    received = receiver.RECEIVED
    deadline = time.monotonic() + START_WAIT_SECONDS
    while arrivals.counters[received] < min(WARM_UP_JOBS, jobs // 2):
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"hardly anything was delivered:\n{(folder / 'log').read_text(errors='replace')[-2000:]}"
            )
        time.sleep(0.001)
    before, began = int(arrivals.counters[received]), time.monotonic()
    while arrivals.counters[received] < jobs and time.monotonic() - began < seconds:
        time.sleep(0.001)
    return (int(arrivals.counters[received]) - before) / (time.monotonic() - began)
