"""What is damaged: two machines that run everything and further deliver workers, on Kafka and PostgreSQL."""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from hookline.bench.event import source
from hookline.bench.machine import wait_until
from tests.faults.load import AUDIENCE, BACK_SECONDS_MAX, Load
from tests.kafka.cluster import Cluster
from tests.kafka.worker import Worker
from tests.pgbouncer import PgBouncer
from tests.postgres import PostgresServer
from tests.service.harness import Hookline

PARTITIONS = 6
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookline%' ORDER BY 1"
OWNERS = "SELECT partition, worker FROM hookline_deliver.owned"


class Stage(Load):
    """A context manager around everything that runs."""

    def __init__(
        self,
        folder: Path,
        cluster: Cluster,
        server: PostgresServer,
        *,
        workers: int,
        session: str,
        topic: str = "faults",
        pooler: PgBouncer | None = None,
        has_audience: bool = False,
        machines: Sequence[str] = ("first", "second"),
        **given: Any,
    ) -> None:
        """``pooler``: by which everything comes to the server. ``machines``: their names. ``given``: as a Load takes
        it."""
        super().__init__(folder, **given)
        self.topic = topic
        self.cluster, self.server, self.pooler = cluster, server, pooler
        self._numbers = itertools.count()
        url = server.plain_url("postgres")
        settings = {
            "journal.url": cluster.url(topic),
            "journal.partitions": PARTITIONS,
            "database.url": url if pooler is None else pooler.url(url),
            "deliver.session_timeout": session,
            "log.format": "json",
        }
        definitions = {"audiences": [AUDIENCE]} if has_audience else {}
        self.machines = [
            Hookline(folder / name, self._receiving(), sources=[source()], definitions=definitions, settings=settings)
            for name in machines
        ]
        self.workers: list[Worker] = []
        self._workers = workers
        self.session_seconds = float(session.removesuffix("s"))

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        super().__exit__()

    def add_worker(self) -> Worker:
        """One more deliver worker."""
        self.workers.append(Worker(self.folder / f"worker{next(self._numbers)}", self.machines[0], {}))
        return self.workers[-1]

    def roles(self) -> dict[str, int]:
        """The process of each role of each machine, and of each worker."""
        workers = {f"worker {number}": worker.pid for number, worker in enumerate(self.workers) if worker.lives}
        return super().roles() | workers

    def empty(self) -> None:
        """Stop everything, and take away what it stored: the topic, the schemas and the folders."""
        for worker in self.workers:
            worker.end(signal.SIGTERM)
            shutil.rmtree(worker.log.parent / "data", ignore_errors=True)
        for machine in self.machines:
            machine.stop()
            shutil.rmtree(machine.data)
        self.cluster.delete(self.topic)
        for (schema,) in self.server.admin(SCHEMAS):
            self.server.admin(f"DROP SCHEMA {schema} CASCADE")

    def owners(self) -> dict[int, int]:
        """The process that owns each partition; none before the first start has made the table."""
        try:
            found = self.server.run(self.server.url("postgres"), OWNERS)
        except psycopg.errors.UndefinedTable:
            return {}
        return {partition: int(worker.rpartition(":")[2]) for partition, worker in found}

    def wait_for_owners(self) -> None:
        """Wait until every worker that lives owns some partition."""
        pids = {worker.pid for worker in self.workers if worker.process.poll() is None}
        pids |= {machine.role("deliver", required=False) for machine in self.machines}
        wait_until(lambda: set(self.owners().values()) == pids, BACK_SECONDS_MAX, "every worker owns some")

    def _logs(self) -> list[str]:
        return super()._logs() + [worker.log.read_text() for worker in self.workers]

    def _start(self) -> None:
        first, *others = self.machines
        self.start(first)
        for other in others:
            other.launch()
            self.wait_until_collecting(other)
        for _ in range(self._workers):
            self.add_worker()
        self.wait_for_owners()
        if first.definitions:
            self.wait_until_following(first)
