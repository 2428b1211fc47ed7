"""Each consumer while the service is killed and started: what it promises to keep is kept, the rest is counted.

``pytest tests/clients/python/consumers --client-events 100000`` sends the full number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hookline_client import Client
from tests.service.harness import Hookline, Receiver, wait_until, webhook

QUEUEING = ("lib_curl", "fork_curl")
EVENTS_PER_KILL = 2_500
KILLS_MAX = 20
ARRIVAL_SECONDS = 900.0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_each_consumer_promises_holds_while_the_service_is_killed(
    new_hookline: Callable[..., Hookline],
    new_client: Callable[..., Client],
    receiver: Receiver,
    client_events: int,
) -> None:
    """lib_curl and fork_curl lose nothing; socket loses nothing while the service is up, and counts what it could not
    send."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    clients = [
        Sending(new_client(hookline.collect_port, name, on_full="block", block_timeout=60.0), receiver)
        for name in (*QUEUEING, "socket")
    ]
    kills = min(KILLS_MAX, max(2, client_events // EVENTS_PER_KILL))
    for _ in range(kills):
        Sending.all_at_once(clients, client_events // kills // 3)
        for sending in clients:
            wait_until(sending.has_arrived, ARRIVAL_SECONDS, "all at the receiver while the service is up")
        killing = threading.Thread(target=hookline.kill9)
        killing.start()
        Sending.all_at_once(clients, client_events // kills // 3)
        killing.join()
        starting = threading.Thread(target=hookline.start)
        starting.start()
        Sending.all_at_once(clients, client_events // kills // 3)
        starting.join()
        clients[-1].forgive()
    for sending in clients[:-1]:
        result = sending.client.flush(ARRIVAL_SECONDS)
        assert result.ok
        assert result.handed_over == sending.calls == len(sending.sent)
        wait_until(sending.has_arrived, ARRIVAL_SECONDS, "all at the receiver")
    stats = clients[-1].client.stats
    assert stats.handed_over + stats.dropped == clients[-1].calls
    assert stats.dropped == clients[-1].refused > 0
    clients[-1].has_arrived()
    lost = stats.handed_over - len(clients[-1].arrived)
    print(f"socket: {clients[-1].calls:,} calls, {stats.dropped:,} counted as lost, {lost:,} more in {kills} kills")


class Sending:
    """A client, the ids of its calls, and those of them that the receiver saw."""

    def __init__(self, client: Client, receiver: Receiver) -> None:
        self.client = client
        self.sent: set[str] = set()
        self.calls = self.refused = 0
        self._receiver = receiver
        self.arrived: set[str] = set()
        self._missing: set[str] = set()
        self._looked_at = 0

    @staticmethod
    def all_at_once(clients: list[Sending], calls: int) -> None:
        """Let every client make so many calls, in a thread each."""
        threads = [threading.Thread(target=sending.send, args=(calls,)) for sending in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def send(self, calls: int) -> None:
        """Make so many calls."""
        for _ in range(calls):
            self.calls += 1
            message_id = self.client.track("u1", "Test")
            if message_id is None:
                self.refused += 1
            else:
                self.sent.add(message_id)
                self._missing.add(message_id)

    def forgive(self) -> None:
        """What was sent so far need not arrive: the service was away for some of it."""
        self._missing.clear()

    def has_arrived(self) -> bool:
        """Whether the receiver saw everything that must arrive."""
        requests = self._receiver.requests[self._looked_at :]
        self._looked_at += len(requests)
        self.arrived |= self.sent.intersection(request.message_id for request in requests)
        self._missing -= self.arrived
        return not self._missing
