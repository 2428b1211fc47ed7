"""A topic that gets more partitions while events come in: by a restart of one machine, of all, of one after another."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kafka.cluster import Cluster
from tests.postgres import PostgresServer
from tests.service.harness import Hookline, Receiver, is_ready, new_id, wait_until, webhook

FIRST, STEP = 2, 2
ROUNDS = int(os.environ.get("HOOKLINE_TESTS_ROUNDS", "0"))
"""How often each of the three ways is gone; 0: one after another, once, which has the others' states in its middle."""
USERS = 16
READY_SECONDS = 60.0
ARRIVED_SECONDS = 120.0
"""Who takes many partitions over reads a part of each again, one after another."""
PAUSE_SECONDS = 0.01
"""Between two events: machines that restart need the processor more."""
MORE = 2 * USERS
"""Events that come in between two restarts."""


class Load:
    """Sends to whichever machine takes events, one after another, until it ends; what is refused is sent again."""

    def __init__(self, machines: Sequence[Hookline]) -> None:
        self.acknowledged: list[str] = []
        self._machines = machines
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def go_on(self) -> None:
        """Wait until some more are acknowledged."""
        wanted = len(self.acknowledged) + MORE
        wait_until(lambda: len(self.acknowledged) >= wanted, READY_SECONDS, "events are acknowledged")

    def _run(self) -> None:
        while not self._end.is_set():
            number = len(self.acknowledged)
            message = new_id()
            body = {"userId": f"user-{number % USERS}", "event": "Test", "messageId": message}
            while not self._is_taken(self._machines[number % len(self._machines)], body):
                number += 1
            self.acknowledged.append(message)
            self._end.wait(PAUSE_SECONDS)

    def _is_taken(self, machine: Hookline, body: dict[str, str]) -> bool:
        try:
            return machine.post("/v1/track", body).status == 200
        except OSError:
            return False


@pytest.mark.slow
def test_partitions_are_raised_while_events_come_in(
    tmp_path: Path, cluster: Cluster, topic: str, server: PostgresServer
) -> None:
    """However the machines are restarted with a larger number: every partition is owned, nothing acknowledged is lost,
    sent twice or left waiting."""
    settings = {
        "journal.url": cluster.url(topic),
        "journal.partitions": FIRST,
        "database.url": server.url("postgres"),
        "deliver.session_timeout": "3s",
    }
    with Receiver() as receiver:
        crm = webhook("crm", receiver.url())
        machines = [Hookline(tmp_path / name, [crm], settings=settings) for name in ("first", "second")]
        try:
            machines[0].start()
            machines[1].launch()
            wait_until(lambda: is_ready(machines[1].collect_port), READY_SECONDS, "the second collect is ready")
            partitions = FIRST
            in_turn, together, one = [machines[:1], machines[1:]], [machines], [machines[:1]]
            for restarted in [in_turn, together, one] * ROUNDS or [in_turn]:
                partitions += STEP
                with Load(machines) as load:
                    load.go_on()
                    for some in restarted:
                        _restart(some, partitions)
                        load.go_on()
                for message in load.acknowledged:
                    receiver.wait_for(message, seconds=ARRIVED_SECONDS)
                _wait_until_owned(server, partitions)
                machines[1].settings["journal.partitions"] = partitions
            times = Counter(request.headers["x-message-id"] for request in receiver.requests)
            assert {message: count for message, count in times.items() if count > 1} == {}
        finally:
            for machine in machines:
                machine.kill9()
    for machine in machines:
        assert "Traceback (most recent call last)" not in machine.log, machine.log[-4000:]


def _restart(machines: Sequence[Hookline], partitions: int) -> None:
    for machine in machines:
        machine.stop()
        machine.settings["journal.partitions"] = partitions
    for machine in machines:
        machine.launch()
    for machine in machines:
        wait_until(lambda: is_ready(machine.collect_port), READY_SECONDS, "it takes events again")  # noqa: B023


def _wait_until_owned(server: PostgresServer, partitions: int) -> None:
    query = "SELECT count(*) FROM hookline_deliver.owned"
    wait_until(
        lambda: server.run(server.url("postgres"), query)[0][0] == partitions, READY_SECONDS, "each has an owner"
    )
