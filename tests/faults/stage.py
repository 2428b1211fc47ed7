"""What is damaged: two machines that run everything and further deliver workers, on Kafka and PostgreSQL, under load.

Sender and receiver are processes of their own; their ledgers are files here.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from hookline.bench import receiver
from hookline.bench.connections import SECRET, destination, source
from hookline.bench.ledger import Ledger
from hookline.bench.service import free_port
from hookline.bench.waiting import wait_until
from tests.faults.balance import Balance, Injection, backlog, balance
from tests.faults.sender import ACKNOWLEDGED
from tests.kafka.cluster import Cluster
from tests.kafka.worker import Worker
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, is_ready

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PARTITIONS = 6
EVENTS_MAX = 4_000_000
LEVEL_SECONDS = 0.5
"""All is well when no more waits, at the sender and in the service, than comes in so long a time."""
BACK_SECONDS_MAX = 120.0
SETTLE_SECONDS_MAX = 120.0
QUIET_SECONDS = 3.0
"""How long to go on listening for duplicates when everything has arrived."""
OWNERS = "SELECT partition, worker FROM hookline_deliver.owned"


class Stage:
    """A context manager around everything that runs."""

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        server: PostgresServer,
        *,
        rate: float,
        workers: int,
        session: str,
        topic: str = "faults",
        seconds_max: float = math.inf,
        pooler: PgBouncer | None = None,
    ) -> None:
        """``seconds_max``: from the start of the load on, until nothing more is injected. ``pooler``: by which
        everything comes to the server."""
        self.cluster, self.server, self.rate, self.pooler = cluster, server, rate, pooler
        self._folder = folder
        self._seconds_max = seconds_max
        self._numbers = itertools.count()
        self._receiver_port = free_port()
        settings = {
            "journal.url": cluster.url(topic),
            "journal.partitions": PARTITIONS,
            "database.url": server.plain_url("postgres")
            if pooler is None
            else pooler.url(server.plain_url("postgres")),
            "deliver.session_timeout": session,
            "log.format": "json",
        }
        self.machines = [
            Hookline(
                folder / name, [destination("receiver", self._receiver_port)], sources=[source()], settings=settings
            )
            for name in ("first", "second")
        ]
        self.workers: list[Worker] = []
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.session_seconds = float(session.removesuffix("s"))
        self.injections: list[Injection] = []

    def __enter__(self) -> Stage:
        self.accepted = Ledger(self._folder / "accepted", EVENTS_MAX)
        self.arrivals = Ledger(self._folder / "arrivals", EVENTS_MAX)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        for machine in self.machines:
            if machine.process is not None:
                machine.kill9()

    def add_worker(self) -> Worker:
        """One more deliver worker."""
        self.workers.append(Worker(self._folder / f"worker{next(self._numbers)}", self.machines[0], {}))
        return self.workers[-1]

    def start_load(self) -> None:
        """Send at the rate from now on, and wait until all of it goes through."""
        ports = ",".join(str(machine.collect_port) for machine in self.machines)
        self._sender = self._program("tests.faults.sender", ports, str(self._folder / "accepted"), str(self.rate))
        self.go_on_for(2.0)
        self.wait_until_level()

    def in_turn(self, things: Sequence[T], times: int) -> Iterator[T]:
        """One after another and again, so many times, or until the time is up."""
        end = time.monotonic() + self._seconds_max
        for number in range(times):
            if time.monotonic() >= end:
                return
            yield things[number % len(things)]

    def inject(self, what: str) -> None:
        """Note that this is about to be done."""
        self.injections.append(Injection(what, time.monotonic()))
        due, open_ = backlog(self.accepted, self.arrivals)
        print(
            f"{time.strftime('%H:%M:%S')} {len(self.injections):3} {what}: {self.accepted.counters[ACKNOWLEDGED]:,}"
            f" acknowledged, {due:,} not yet, {open_:,} under way,"
            f" {self.arrivals.counters[receiver.DUPLICATES]:,} twice",
            file=sys.stderr,
            flush=True,
        )

    def is_level(self) -> bool:
        """Nothing waits but what has only just come."""
        return max(backlog(self.accepted, self.arrivals)) <= self.rate * LEVEL_SECONDS

    def wait_until_level(self) -> None:
        """Wait until the service has caught up; TimeoutError says what waits."""
        try:
            wait_until(self.is_level, BACK_SECONDS_MAX, "everything goes through again")
        except TimeoutError as error:
            due, open_ = backlog(self.accepted, self.arrivals)
            raise TimeoutError(f"{error}: {due:,} events not acknowledged, {open_:,} not arrived") from None

    def owners(self) -> dict[int, int]:
        """The process that owns each partition."""
        found = self.server.run(self.server.url("postgres"), OWNERS)
        return {partition: int(worker.rpartition(":")[2]) for partition, worker in found}

    def wait_for_owners(self) -> None:
        """Wait until every worker that lives owns some partition."""
        pids = {worker.pid for worker in self.workers if worker.process.poll() is None}
        pids |= {machine.role("deliver", required=False) for machine in self.machines}
        wait_until(lambda: set(self.owners().values()) == pids, BACK_SECONDS_MAX, "every worker owns some")

    def go_on_for(self, seconds: float) -> None:
        """Let so much be acknowledged as comes in so many seconds."""
        wanted = self.accepted.counters[ACKNOWLEDGED] + self.rate * seconds
        wait_until(
            lambda: self.accepted.counters[ACKNOWLEDGED] >= wanted or self._sender.poll() is not None,
            BACK_SECONDS_MAX,
            "events are acknowledged",
        )

    def settle(self) -> Balance:
        """End the load, wait for what is missing and for duplicates of it, and count."""
        self._sender.send_signal(signal.SIGTERM)
        if self._sender.wait(SETTLE_SECONDS_MAX) != 0:
            raise RuntimeError("the sender failed")
        counters = self.arrivals.counters
        with contextlib.suppress(TimeoutError):  # the balance tells what is missing
            wait_until(
                lambda: backlog(self.accepted, self.arrivals)[1] == 0,
                SETTLE_SECONDS_MAX,
                "everything has arrived",
                lambda: counters[receiver.RECEIVED],
            )
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: False, QUIET_SECONDS, "another duplicate", lambda: counters[receiver.RECEIVED])
        return balance(self.accepted, self.arrivals, self.rate, self.injections)

    def tracebacks(self) -> list[str]:
        """The first unexpected error that each process's log tells of."""
        logs = [machine.log for machine in self.machines] + [worker.log.read_text() for worker in self.workers]
        return [log[at : at + 2_000] for log in logs if (at := log.find("Traceback (most recent call last)")) >= 0]

    def _start(self) -> None:
        self._program("hookline.bench.receiver", str(self._receiver_port), str(self._folder / "arrivals"), SECRET)
        first, second = self.machines
        first.start()
        second.launch()
        wait_until(lambda: is_ready(second.collect_port), BACK_SECONDS_MAX, "the second collect is ready")
        for _ in range(self._workers):
            self.add_worker()
        self.wait_for_owners()

    def _program(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        self._processes.append(subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=ROOT))
        return self._processes[-1]
