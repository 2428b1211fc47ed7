"""The stores that peers need, from their distribution's packages: each in a folder and on a port of its own, with what
it writes flushed to disk as in production."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.postgres import PostgresServer

from bench.job_queues import Missing
from hookline.bench import machine
from hookline.bench.machine import wait_until
from hookline.bench.service import free_port

START_SECONDS = 60.0
STOP_SECONDS = 20.0
RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""Debian's own program on the PATH changes to another user, who may not write here."""
POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "shared_buffers": "512MB",  # the usual rule is a quarter of the memory; no table here grows beyond it
    "max_connections": "300",
    "max_wal_size": "4GB",  # seldom a checkpoint in a measurement
    "min_wal_size": "512MB",
    "wal_compression": "on",
}


class Program:
    """A process and all that it starts, with its output in ``log``."""

    def __init__(
        self, folder: Path, name: str, command: tuple[str, ...], environment: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._name = name
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; nothing is waited for."""
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**os.environ, **(self._environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait(self, ready: Callable[[], bool], seconds: float = START_SECONDS) -> None:
        """Wait until ``ready()`` is true; RuntimeError with its last words when it ends before."""

        def up() -> bool:
            if not self.running:
                raise RuntimeError(f"{self._name} ended:\n{self.log[-3000:]}")
            return ready()

        wait_until(up, seconds, f"{self._name} ready")

    @property
    def log(self) -> str:
        """Return what it printed."""
        return (self._folder / f"{self._name}.log").read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Return the id of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it and what is of its group with -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it; with -9 what does not end."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        for wanted in (how, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, wanted)
                self._process.wait(STOP_SECONDS)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        self._process = None


def family(roots: list[int]) -> list[int]:
    """Return these processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    for process in machine.processes():
        children.setdefault(process.parent, []).append(process.pid)
    found, left = [], list(roots)
    while left:
        pid = left.pop()
        found.append(pid)
        left += children.get(pid, [])
    return found


def cpu_seconds(roots: list[int]) -> float:
    """Return the processor time of these processes and their descendants, of those that have ended too."""
    ticks = 0
    for pid in family(roots):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])  # its own and that of children it has waited for
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_bytes(roots: list[int]) -> int:
    """Return the memory of these processes and their descendants; a page that several share counts once."""
    return sum(machine.memory_of(pid).pss for pid in family(roots))


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that flushes every commit."""
    server = PostgresServer(POSTGRES_SETTINGS)
    try:
        yield server
    finally:
        server.remove()


@contextmanager
def redis(folder: Path) -> Iterator[tuple[Program, int]]:
    """A Redis server with its append-only file, flushed each second: its makers' advice between always and never."""
    program = machine.tool("redis-server")
    if program is None:
        raise Missing("the peers need redis-server: install it (Debian: apt-get install redis-server)")
    port = free_port()
    disk = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
    server = Program(
        folder, "redis", (program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), *disk)
    )
    server.start()
    try:
        server.wait(lambda: machine.listens(port))
        yield server, port
    finally:
        server.stop()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[tuple[Program, int]]:
    """A RabbitMQ broker with a node name, ports and a cookie of its own."""
    mapper = machine.tool("epmd")
    if not RABBITMQ.exists() or mapper is None:
        raise Missing("Outpost needs RabbitMQ: install it (Debian: apt-get install rabbitmq-server)")
    port, mapper_port, distribution_port = free_port(), free_port(), free_port()
    (folder / "plugins").write_text("[].\n")
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\nloopback_users = none\n")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper_port),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_LOGS": "-",
    }
    names = Program(folder, "epmd", (mapper, "-port", str(mapper_port), "-address", "127.0.0.1"), environment)
    broker = Program(folder, "rabbitmq", (str(RABBITMQ),), environment)
    names.start()
    try:
        names.wait(lambda: machine.listens(mapper_port))
        broker.start()
        broker.wait(lambda: machine.listens(port))
        yield broker, port
    finally:
        broker.stop()
        names.stop()


def flush_seconds(folder: Path) -> float:
    """Return how long the disk takes for a write of 4 KiB and ``fdatasync``: the median of 500."""
    taken = []
    with (folder / "flushed").open("wb", buffering=0) as file:
        for _ in range(500):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    (folder / "flushed").unlink()
    return sorted(taken)[250]
