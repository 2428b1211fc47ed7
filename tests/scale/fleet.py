"""An installation on Kafka and PostgreSQL with several ``deliver`` workers, all of it on this machine."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from hookline.bench.event import Connections, one_receiver
from hookline.bench.machine import wait_until
from hookline.bench.rig import Rig
from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.topic import Watermarks
from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer

MOVE_SECONDS = 120.0
POSTGRES = {
    "shared_preload_libraries": "pg_stat_statements",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "1GB",
    "autovacuum": "on",
}


class Site:
    """Three brokers and a PostgreSQL server; a context manager that starts them and ends them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster(folder / "kafka")
        self.server = PostgresServer(POSTGRES)
        self.server.admin("CREATE EXTENSION pg_stat_statements")
        self._fleets = 0

    def __enter__(self) -> Site:
        try:
            self.cluster.__enter__()
        except BaseException:
            self.server.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.__exit__()
        self.server.remove()

    def processes(self) -> dict[str, int]:
        """Process ids of the brokers and of the server."""
        assert self.server.process is not None
        brokers = {f"broker {each.number}": each.process.pid for each in self.cluster.brokers if each.process}
        return {**brokers, "postgres": self.server.process.pid}

    @contextmanager
    def fleet(
        self,
        workers: int,
        partitions: int,
        connections: Callable[[int], Connections] = one_receiver,
        events_max: int = 1_000_000,
        settings: Mapping[str, str] | None = None,
    ) -> Iterator[Fleet]:
        """So many workers on a topic and a database of their own, each with its share of the partitions."""
        self._fleets += 1
        topic = f"scale-{self._fleets}"
        with self.server.database() as database, TemporaryDirectory(prefix="hookline-scale-") as folder:
            places = {
                "journal.url": self.cluster.url(topic),
                "journal.partitions": str(partitions),
                "database.url": database,
            }
            rig = Rig(
                Path(folder),
                events_max=events_max,
                connections=connections,
                settings={**places, **(settings or {})},
            )
            with Fleet(self, rig, topic, database, partitions) as fleet:
                for _ in range(workers - 1):
                    fleet.add_worker()
                fleet.wait_for_shares()
                yield fleet


class Fleet:
    """``up`` (collect, control and the first worker) and more workers; a context manager."""

    def __init__(self, site: Site, rig: Rig, topic: str, database: str, partitions: int) -> None:
        self.site = site
        self.rig = rig
        self.topic = topic
        self.database = database
        self._partitions = partitions
        self._others: list[tuple[Path, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> Fleet:
        self.rig.service.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for _, process in self._others:
            process.send_signal(signal.SIGTERM)
        for _, process in self._others:
            try:
                process.wait(MOVE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if error is not None:
            error.add_note(f"the service's log ends:\n{self.rig.service.log[-2_000:]}")
        self.rig.stop()

    def add_worker(self) -> None:
        """Start one more ``deliver``, with a data folder of its own."""
        data = self.rig.folder / f"worker{len(self._others) + 2}"
        settings = {**self.rig.service.settings, "data-dir": str(data)}
        command = [sys.executable, "-P", "-m", "hookline.cli.main", "deliver"]
        with (self.rig.folder / f"{data.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*command, *(f"--{name}={value}" for name, value in settings.items())],
                cwd=self.rig.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._others.append((data, process))

    def workers(self) -> dict[str, int]:
        """Process ids of the workers by name."""
        first = self.rig.service.processes()["deliver"]
        others = {f"deliver {number}": process.pid for number, (_, process) in enumerate(self._others, 2)}
        return {"deliver 1": first, **others}

    def processes(self) -> dict[str, int]:
        """Process ids of everything that is measured, by name."""
        roles = self.rig.service.processes()
        return {**{role: roles[role] for role in ("collect", "control")}, **self.workers(), **self.site.processes()}

    def wait_for_shares(self) -> None:
        """Wait until every worker owns as many partitions as any other."""
        pids = set(self.workers().values())
        share = self._partitions // len(pids)
        wait_until(
            lambda: Counter(self.owners().values()) == dict.fromkeys(pids, share),
            MOVE_SECONDS,
            f"{share} partitions each",
        )

    def ends(self) -> dict[str, int]:
        """How many events each worker's partitions have had."""
        names = {pid: name for name, pid in self.workers().items()}
        ends = dict.fromkeys(names.values(), 0)
        watermarks = Watermarks(KafkaAddress(self.site.cluster.addresses, self.topic))
        for partition, pid in self.owners().items():
            ends[names[pid]] += watermarks.of(partition)[1]
        watermarks.close()
        return ends

    def owners(self) -> dict[int, int]:
        """The process that owns each partition."""
        rows = self.site.server.run(self.database, "SELECT partition, worker FROM hookline_deliver.owned")
        return {partition: int(worker.rpartition(":")[2]) for partition, worker in rows}

    def journal_bytes(self) -> int:
        """What the brokers keep of the topic on disk, all copies together."""
        return sum(path.stat().st_size for path in self.site.folder.glob(f"kafka/*/logs/{self.topic}-*/*.log"))

    def database_size(self) -> tuple[int, int, int]:
        """Bytes of the database, rows in its tables, and connections to it."""
        size = (
            "SELECT pg_database_size(current_database()), (SELECT sum(n_live_tup) FROM pg_stat_user_tables),"
            " (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid())"
        )
        size_bytes, rows, connections = self.site.server.run(self.database, size)[0]
        return int(size_bytes), int(rows or 0), int(connections)
