"""Three real Kafka brokers on loopback in KRaft mode, each a process that a test may stop, kill and start again.

What makes topics on demand is as Apache Kafka has it: one partition, one copy, at the first look for a name. Every
broker is a controller too, so that the cluster lives as long as two of them do. What waits in a broker before it
gives up on another is set short: a test should not wait half a minute for what a failure does. Beside the plain
listener each has one that wants a password over TLS, and one that wants a certificate.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from hookline.bench.service import free_port
from tests.kafka.security import PASSWORD, SCRAM, USER, Certificates, secured_listeners
from tests.service.waiting import wait_until

ROOT = Path(__file__).parents[2]
JARS = (ROOT / "build" / "kafka").resolve()
CLASSES = JARS / "classes.jsa"
"""What a broker loads, as Java has it in memory: with it a broker starts in half the time. The first that ends in peace
writes it; Java passes over what is of other jars or of another Java."""
BROKERS = 3
HEAP = "256m"
START_SECONDS = 180.0
"""Far more than it takes: a busy machine is no failure."""
STOP_SECONDS = 30.0
TERMINATED = 143
"""How Java ends by SIGTERM, with all written that it writes at its end."""

_CLUSTER_ID = "aG9va2xpbmUtdGVzdHMtMQ"
_JAVA = ["java", f"-Xmx{HEAP}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
_SETTINGS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,PASSWORD:SASL_SSL,CERTIFICATE:SSL",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": BROKERS,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    # A killed broker is known to be gone within two seconds.
    "broker.heartbeat.interval.ms": 250,
    "broker.session.timeout.ms": 2_000,
    "controller.quorum.election.timeout.ms": 500,
    "controller.quorum.fetch.timeout.ms": 1_500,
    "replica.lag.time.max.ms": 5_000,
    # Workers of tests are gone soon, and a group that begins waits for nobody.
    "group.min.session.timeout.ms": 1_000,
    "group.initial.rebalance.delay.ms": 0,
    # Access lists hold where there are any: a test that has some of its own is a managed service to its user.
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
    # Records of tests are from 1970: brokers must not look how old they are while a test reads them.
    "log.initial.task.delay.ms": 3_600_000,
    "log.retention.check.interval.ms": 3_600_000,
}


Listener = Literal["PLAINTEXT", "PASSWORD", "CERTIFICATE"]


class Ports(NamedTuple):
    """What a broker listens on: a port by listener."""

    PLAINTEXT: int
    CONTROLLER: int
    PASSWORD: int
    CERTIFICATE: int


class Place(NamedTuple):
    """Where a broker runs: its address, and what is put before its command."""

    host: str = "127.0.0.1"
    within: tuple[str, ...] = ()


class Broker:
    """One broker: its folder, its ports, its process."""

    def __init__(self, folder: Path, number: int, place: Place, ports: Ports, shared: Mapping[str, object]) -> None:
        self.number = number
        self.host = place.host
        self.ports = ports
        self.process: subprocess.Popen[bytes] | None = None
        self._within = place.within
        self._folder = folder
        self._properties = folder / "server.properties"
        self._classes = CLASSES.with_suffix(f".{os.getpid()}-{number}")
        folder.mkdir(parents=True)
        own = {
            "node.id": number,
            "listeners": ",".join(f"{name}://{self.host}:{port}" for name, port in ports._asdict().items()),
            "advertised.listeners": ",".join(
                f"{name}://{self.host}:{port}" for name, port in ports._asdict().items() if name != "CONTROLLER"
            ),
            **shared,
            "log.dirs": folder / "logs",
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in {**_SETTINGS, **own}.items()))

    def format(self) -> subprocess.Popen[bytes]:
        """Begin to prepare the folder for the first start."""
        scram = [f"--add-scram={mechanism}=[name={USER},password={PASSWORD}]" for mechanism in SCRAM]
        return self._run("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties), *scram)

    def start(self, writes_classes: bool = False) -> None:
        """Start the process; it is ready a while later."""
        if not self.is_running:
            option = [f"-XX:ArchiveClassesAtExit={self._classes}"] if writes_classes else []
            self.process = self._run("kafka.Kafka", str(self._properties), options=option)

    def keep_classes(self) -> None:
        """End in peace, and keep for others what was loaded."""
        self.stop()
        if self.process is not None and self.process.returncode == TERMINATED and self._classes.exists():
            self._classes.replace(CLASSES)
        self._classes.unlink(missing_ok=True)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_SECONDS)

    def stop(self) -> None:
        """SIGTERM: the broker hands over what it leads, where someone can take it; killed if that takes long."""
        if self.process is not None and self.is_running:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def pause(self) -> None:
        """SIGSTOP, and wait until it has stopped: for some milliseconds its threads go on, and copy what comes next."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def segment(self, topic: str, partition: int) -> Path:
        """The first file of a partition's records."""
        return self._folder / "logs" / f"{topic}-{partition}" / f"{0:020}.log"

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        """What it printed."""
        return (self._folder / "log").read_text(errors="replace")

    def _run(self, *arguments: str, options: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        if not options and CLASSES.exists():
            options = [f"-XX:SharedArchiveFile={CLASSES}"]
        log4j = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.xml')}"
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*self._within, *_JAVA, *options, log4j, "-cp", f"{JARS}/*", *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={"PATH": os.environ["PATH"]},
                start_new_session=True,
            )


@contextmanager
def standing_still(brokers: Sequence[Broker]) -> Iterator[None]:
    """Have these brokers be there and do nothing meanwhile."""
    for broker in brokers:
        broker.pause()
    try:
        yield
    finally:
        for broker in brokers:
            broker.resume()


class Cluster:
    """Three brokers; a context manager that starts them and ends them."""

    def __init__(
        self, folder: Path, places: Sequence[Place] = (Place(),) * BROKERS, settings: Mapping[str, object] | None = None
    ) -> None:
        """``settings`` are brokers' own, in place of those above."""
        if not (JARS / ".made-of").exists():
            raise AssertionError("no Kafka to test with: sh scripts/kafka-jars.sh fetches it or says why it cannot")
        ports = [Ports(*(free_port() for _ in Ports._fields)) for _ in range(BROKERS)]
        each = list(zip(range(1, BROKERS + 1), places, ports, strict=True))
        voters = ",".join(f"{number}@{place.host}:{port.CONTROLLER}" for number, place, port in each)
        self.certificates = Certificates(folder / "certificates")
        shared = {**secured_listeners(self.certificates), "controller.quorum.voters": voters, **(settings or {})}
        self._asking: AdminClient | None = None
        self._writes_classes = not CLASSES.exists()
        self.brokers = [Broker(folder / str(number), number, place, port, shared) for number, place, port in each]

    def __enter__(self) -> Cluster:
        for formatting in [broker.format() for broker in self.brokers]:
            assert formatting.wait(START_SECONDS) == 0, self.logs
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._writes_classes:
            self.brokers[0].keep_classes()
        for broker in self.brokers:
            broker.kill()

    @property
    def addresses(self) -> str:
        """``host:port`` of every broker, comma-separated."""
        return self.listening("PLAINTEXT")

    def listening(self, listener: Listener) -> str:
        """``host:port`` of every broker's listener of this name, comma-separated."""
        return ",".join(f"{broker.host}:{getattr(broker.ports, listener)}" for broker in self.brokers)

    def url(self, topic: str, listener: Listener = "PLAINTEXT") -> str:
        """The ``journal.url`` of a topic here."""
        return f"kafka://{self.listening(listener)}/{topic}"

    def start(self) -> None:
        """Start whichever brokers do not run, and wait until all are members."""
        for broker in self.brokers:
            broker.start(self._writes_classes and broker is self.brokers[0])
        self.wait_for(BROKERS)

    def kill(self) -> None:
        """SIGKILL for all at once."""
        for broker in self.brokers:
            broker.kill()

    def wait_for(self, brokers: int) -> None:
        """Wait until so many brokers are members and no partition lacks a leader or a replica in sync with it."""
        wait_until(lambda: self._is_whole(brokers), START_SECONDS, f"{brokers} brokers; their logs end:\n{self.logs}")

    def lead_as_preferred(self) -> None:
        """Have each broker lead again what it led at first; wait until no partition has another leader."""

        def is_so() -> bool:
            self._admin().elect_leaders(ElectionType.PREFERRED).result(START_SECONDS)
            topics = self._admin().list_topics(timeout=START_SECONDS).topics.values()
            partitions = [each for topic in topics for each in topic.partitions.values()]
            return all(each.leader == each.replicas[0] for each in partitions)

        wait_until(is_so, START_SECONDS, "every broker leads what it led")

    def leader(self, topic: str, partition: int) -> Broker:
        """The broker that leads a partition."""
        metadata = self._admin().list_topics(topic, timeout=START_SECONDS).topics[topic].partitions[partition]
        return self.brokers[metadata.leader - 1]

    def copies(self, topic: str) -> list[int]:
        """How many brokers have each partition of a topic."""
        partitions = self._admin().list_topics(timeout=START_SECONDS).topics[topic].partitions
        return [len(partitions[number].replicas) for number in sorted(partitions)]

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until no broker knows it."""
        self._admin().delete_topics([topic])[topic].result(START_SECONDS)
        wait_until(lambda: not any(self._who_knows(topic)), START_SECONDS, f"no {topic}")

    def create(self, topic: str, partitions: int, copies: int) -> None:
        """Make a topic and wait until each broker knows it: any of them may be asked next."""
        self._admin().create_topics([NewTopic(topic, partitions, copies)])[topic].result(START_SECONDS)
        wait_until(lambda: all(self._who_knows(topic)), START_SECONDS, f"{topic} at each broker")

    def _who_knows(self, topic: str) -> list[bool]:
        # A client that is new asks the one broker it was told of.
        admins = [AdminClient({"bootstrap.servers": address}) for address in self.addresses.split(",")]
        return [topic in admin.list_topics(timeout=START_SECONDS).topics for admin in admins]

    @property
    def logs(self) -> str:
        """The end of what each broker printed."""
        return "\n".join(broker.log[-2_000:] for broker in self.brokers)

    def _is_whole(self, brokers: int) -> bool:
        try:
            metadata = self._admin().list_topics(timeout=2)
        except KafkaException:
            return False
        partitions = [each for topic in metadata.topics.values() for each in topic.partitions.values()]
        # A topic that a late look of some client's made has one copy, and none of the others can lead it.
        partitions = [each for each in partitions if metadata.brokers.keys() & set(each.replicas)]
        in_sync = min(brokers, BROKERS)
        return len(metadata.brokers) == brokers and all(
            each.leader > 0 and len(each.isrs) >= min(in_sync, len(each.replicas)) for each in partitions
        )

    def _admin(self) -> AdminClient:
        if self._asking is None:
            self._asking = AdminClient({"bootstrap.servers": self.addresses, "log_level": 0})
        return self._asking
