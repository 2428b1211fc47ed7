"""Many deliver processes on Kafka and PostgreSQL: partitions go from one to another, and nothing is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from hookline.journal.kafka.address import KafkaAddress
from hookline.journal.kafka.backend import group_of_topic
from tests.kafka.cluster import Cluster, standing_still
from tests.kafka.test_service import Sender
from tests.kafka.worker import Worker
from tests.postgres import PostgresServer
from tests.service.client import send
from tests.service.harness import Hookline, Receiver, Reply, wait_until, webhook

PARTITIONS = 6
SESSION = "3s"
MOVE_SECONDS = 60.0
IN_FLIGHT = 8
PAUSE_SECONDS = 0.01
"""Between two events: workers that come and go need the processor more."""
OWNERS = "SELECT partition, epoch, worker FROM hookline_deliver.owned ORDER BY partition"


class Fleet:
    """A front (collect, control and the first worker), more workers, and who of them owns what."""

    def __init__(
        self, front: Hookline, server: PostgresServer, database_url: str, folder: Path, address: KafkaAddress
    ) -> None:
        self.front = front
        self._address = address
        self.workers: list[Worker] = []
        self._server = server
        self._database_url = database_url
        self._folder = folder

    def add(self, **environment: str) -> Worker:
        """Start one more worker."""
        self.workers.append(Worker(self._folder / f"worker{len(self.workers)}", self.front, environment))
        return self.workers[-1]

    def owners(self) -> dict[int, int]:
        """The process that owns each partition."""
        return {row[0]: int(row[2].rpartition(":")[2]) for row in self._server.run(self._database_url, OWNERS)}

    def wait_for_owners(self, *pids: int) -> None:
        """Wait until all partitions are owned, by these and each of them some."""
        wait_until(lambda: sorted(self.owners()) == list(range(PARTITIONS)), MOVE_SECONDS, "every partition is owned")
        wait_until(lambda: set(self.owners().values()) == set(pids), MOVE_SECONDS, f"owned by {pids}")

    def shown(self) -> dict[int, int]:
        """The process that owns each partition, as the API tells."""
        partitions = self.front.api("GET", "workers").json["partitions"]
        owners = {each["partition"]: each["worker"] for each in partitions if each["worker"] is not None}
        return {partition: int(worker.rpartition(":")[2]) for partition, worker in owners.items()}

    def column(self, query: str) -> list[Any]:
        """The first column of what a query finds in deliver's database."""
        return [row[0] for row in self._server.run(self._database_url, query)]

    def positions(self) -> dict[int, int]:
        """The saved place of each partition."""
        query = "SELECT partition, next_offset FROM hookline_deliver.checkpoints"
        return {row[0]: row[1] for row in self._server.run(self._database_url, query)}

    def committed(self) -> dict[int, int]:
        """The group's offsets, as displays of lag know them."""
        topic = self._address.topic
        consumer = Consumer(self._address.client(group_id=group_of_topic(topic)))
        found = consumer.committed([TopicPartition(topic, partition) for partition in range(PARTITIONS)], timeout=10)
        consumer.close()
        return {position.partition: position.offset for position in found}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server."""
    running = PostgresServer(in_memory=True)
    try:
        yield running
    finally:
        running.remove()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A healthy receiver."""
    with Receiver() as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer) -> Iterator[Callable[..., Fleet]]:
    """Start a front on a topic and a database of its own; everything ends with the test."""
    made: list[Fleet] = []
    with server.database() as database_url:

        def make(*destinations: dict[str, Any], **others: str) -> Fleet:
            settings = {
                "journal.url": cluster.url(topic),
                "journal.partitions": PARTITIONS,
                "database.url": database_url,
                "deliver.session_timeout": SESSION,
                "deliver.retry_max": "1s",
                "deliver.timeout": "30s",  # a worker that stood still finds the answers it waited for
                "log.format": "json",
                **others,
            }
            front = Hookline(tmp_path / "front", destinations, settings=settings)
            made.append(Fleet(front, server, database_url, tmp_path, KafkaAddress(cluster.addresses, topic)))
            front.start()
            made[-1].wait_for_owners(front.role("deliver"))
            return made[-1]

        yield make
        for each in made:
            for worker in each.workers:
                if worker.process.poll() is None:
                    worker.end(signal.SIGKILL)
                assert "Traceback (most recent call last)" not in worker.log.read_text(), worker.log.read_text()[-4000:]
            each.front.kill9()
            assert "Traceback (most recent call last)" not in each.front.log, each.front.log[-4000:]


def test_workers_come_and_go_and_nothing_is_lost(fleet: Callable[..., Fleet], receiver: Receiver) -> None:
    """While events flow a second and third worker join, one is told to end and one is killed: all is delivered."""
    all_of_them = fleet(webhook("crm", receiver.url()))
    first = all_of_them.front.role("deliver")
    sender = Sender(all_of_them.front, users=30)
    stop = threading.Event()

    def go_on() -> None:
        while not stop.wait(PAUSE_SECONDS):
            sender.send(1)

    sending = threading.Thread(target=go_on)
    sending.start()
    try:
        second = all_of_them.add()
        all_of_them.wait_for_owners(first, second.pid)
        third = all_of_them.add()
        all_of_them.wait_for_owners(first, second.pid, third.pid)
        wait_until(lambda: all_of_them.shown() == all_of_them.owners(), MOVE_SECONDS, "the operator sees who owns what")
        assert f":{third.pid}</bdi>" in _first_page(all_of_them.front)
        second.end(signal.SIGTERM)
        all_of_them.wait_for_owners(first, third.pid)
        wait_until(
            lambda: set(all_of_them.shown().values()) == {first, third.pid}, MOVE_SECONDS, "and that one has left"
        )
        third.end(signal.SIGKILL)
        all_of_them.wait_for_owners(first)
    finally:
        stop.set()
        sending.join()
    _wait_for_all(receiver, sender)
    assert {request.message_id for request in receiver.requests} == {message for _, message in sender.acknowledged}
    wait_until(lambda: all_of_them.committed() == all_of_them.positions(), what="the group's offsets are the places")


def test_a_worker_that_stood_still_sends_and_writes_nothing_of_what_others_own(
    fleet: Callable[..., Fleet], receiver: Receiver
) -> None:
    """SIGSTOP for longer than the session: when it goes on, its queue is somebody else's, and it comes back as new."""
    all_of_them = fleet(webhook("crm", receiver.url(), delivery={"maxConcurrency": IN_FLIGHT}))
    first = all_of_them.front.role("deliver")
    second = all_of_them.add()
    all_of_them.wait_for_owners(first, second.pid)
    receiver.respond = lambda request: Reply(delay_seconds=0.4)
    sender = Sender(all_of_them.front, users=30)
    sender.send(240)
    wait_until(lambda: len(receiver.requests) >= 4 * IN_FLIGHT, what="both are at it")
    os.kill(second.pid, signal.SIGSTOP)
    all_of_them.wait_for_owners(first)
    receiver.respond = lambda request: Reply()
    _wait_for_all(receiver, sender)
    wait_until(lambda: sum(all_of_them.positions().values()) >= 240, what="every place is saved")
    positions, requests = all_of_them.positions(), len(receiver.requests)
    os.kill(second.pid, signal.SIGCONT)
    wait_until(lambda: "partitions_lost" in second.log.read_text(), MOVE_SECONDS, "it hears that it owns nothing")
    all_of_them.wait_for_owners(first, second.pid)
    assert all_of_them.positions() == positions
    assert len(receiver.requests) == requests
    # Sent twice is what was in flight when it stopped, and what it had no time to save.
    assert requests - 240 <= 2 * IN_FLIGHT
    sender.send(30)
    _wait_for_all(receiver, sender)


def test_a_worker_ends_although_its_brokers_are_gone_for_good(
    fleet: Callable[..., Fleet], receiver: Receiver, cluster: Cluster
) -> None:
    """Brokers stand still, which a client cannot tell from slow ones: told to end it ends, and of itself."""
    all_of_them = fleet(webhook("crm", receiver.url()))
    worker = all_of_them.add()
    all_of_them.wait_for_owners(all_of_them.front.role("deliver"), worker.pid)
    with standing_still(cluster.brokers):
        worker.end(signal.SIGTERM)
        assert worker.process.returncode == 0, worker.log.read_text()[-4000:]
        assert all_of_them.front.stop() == 0
    assert "end_forced" not in worker.log.read_text() + all_of_them.front.log


def test_retries_dead_letters_and_repeats_follow_a_partition(fleet: Callable[..., Fleet], receiver: Receiver) -> None:
    """A worker dies with rows that wait for a retry: others try them; what was given up or seen before is known."""
    all_of_them = fleet(webhook("crm", receiver.url()))
    front = all_of_them.front
    first = front.role("deliver")
    second = all_of_them.add()
    all_of_them.wait_for_owners(first, second.pid)
    is_well = threading.Event()

    def respond(request: Any) -> Reply:
        user = int(request.json["userId"].removeprefix("user-"))
        return Reply(400 if user % 5 == 0 else 200 if is_well.is_set() or user % 2 else 503)

    receiver.respond = respond
    sender = Sender(front, users=30)
    sender.send(30)
    waiting = "SELECT count(*) FROM hookline_deliver.retries"
    not_delivered = "SELECT count(*) FROM hookline_deliver.dead_letters"
    wait_until(lambda: all_of_them.column(waiting) == [12], MOVE_SECONDS, "what failed waits as rows")
    wait_until(lambda: all_of_them.column(not_delivered) == [6], MOVE_SECONDS, "what was refused is given up")
    second.end(signal.SIGKILL)
    all_of_them.wait_for_owners(first)
    is_well.set()
    _wait_for_all(receiver, sender)
    wait_until(lambda: all_of_them.column(waiting) == [0], MOVE_SECONDS, "nothing waits any more")
    wait_until(lambda: len(front.api("GET", "dead-letters").json["items"]) == 6, what="what was given up is known")
    seen = len(receiver.requests)
    again = [{"type": "track", "userId": u, "event": "Test", "messageId": m} for u, m in sender.acknowledged]
    assert front.post("/v1/batch", {"batch": again}).status == 200
    sender.send(30)  # of every user one event behind its repeat
    wait_until(lambda: len(receiver.requests) >= seen + 30, MOVE_SECONDS, "what came behind the repeats is delivered")
    assert len(receiver.requests) == seen + 30


def test_workers_that_die_as_a_partition_changes_hands_lose_nothing(
    fleet: Callable[..., Fleet], receiver: Receiver
) -> None:
    """kill -9 of the one that has just taken a partition, and of the one that has just given some up."""
    all_of_them = fleet(webhook("crm", receiver.url()))
    first = all_of_them.front.role("deliver")
    sender = Sender(all_of_them.front, users=30)
    sender.send(30)
    second = all_of_them.add(HOOKLINE_CRASH_POINT="worker.partition_taken")
    assert second.process.wait(MOVE_SECONDS) == -signal.SIGKILL
    sender.send(30)
    third = all_of_them.add(HOOKLINE_CRASH_POINT="worker.partition_given_up")
    all_of_them.wait_for_owners(first, third.pid)
    fourth = all_of_them.add()
    sender.send(30)
    assert third.process.wait(MOVE_SECONDS) == -signal.SIGKILL
    all_of_them.wait_for_owners(first, fourth.pid)
    sender.send(30)
    _wait_for_all(receiver, sender)


def test_every_worker_does_its_part_of_replays_and_erasures(fleet: Callable[..., Fleet], receiver: Receiver) -> None:
    """A replay is done when all parts are. What was erased is sent by nobody, nor by a worker that comes later."""
    all_of_them = fleet(webhook("crm", receiver.url()))
    front = all_of_them.front
    first = front.role("deliver")
    second = all_of_them.add()
    all_of_them.wait_for_owners(first, second.pid)
    sender = Sender(front, users=30)
    sender.send(60)
    _wait_for_all(receiver, sender)
    _replay(front)
    wait_until(lambda: len(receiver.requests) >= 120, MOVE_SECONDS, "everything is sent once more")
    assert set(Counter(request.message_id for request in receiver.requests).values()) == {2}
    gone = [message for user, message in sender.acknowledged if user in ("user-3", "user-4", "user-5")]
    asked = {"userIds": ["user-3", "user-4", "user-5"], "action": "delete"}
    made = front.api("POST", "deletion-requests", asked).json
    wait_until(
        lambda: front.api("GET", f"deletion-requests/{made['id']}").json["state"] == "done", MOVE_SECONDS, "all erased"
    )
    second.end(signal.SIGTERM)
    third = all_of_them.add()
    all_of_them.wait_for_owners(first, third.pid)
    before = len(receiver.requests)
    _replay(front)
    sent = Counter(request.message_id for request in receiver.requests[before:])
    assert not sent.keys() & set(gone)
    assert sent.keys() >= {message for _, message in sender.acknowledged} - set(gone)


def _first_page(front: Hookline) -> str:
    """What a browser gets."""
    form = {"Sec-Fetch-Site": "same-origin", "Content-Type": "application/x-www-form-urlencoded"}
    password = f"password={front.admin_token}&next=/&account=".encode()
    cookie = send(front.control_port, "POST", "/login", password, form).headers["set-cookie"].partition(";")[0]
    return send(front.control_port, "GET", "/", headers={"Cookie": cookie}).body.decode()


def _replay(front: Hookline) -> None:
    """Replay everything, until that is done."""
    assert front.api("POST", "replays", {"destination": "crm", "source": "site"}).status == 201
    wait_until(
        lambda: {each["state"] for each in front.api("GET", "replays").json["items"]} == {"done"},
        MOVE_SECONDS,
        "every replay is done",
    )


def _wait_for_all(receiver: Receiver, sender: Sender) -> None:
    def missing() -> set[str]:
        return {message for _, message in sender.acknowledged} - {request.message_id for request in receiver.requests}

    wait_until(lambda: not missing(), MOVE_SECONDS, "everything acknowledged is delivered")
