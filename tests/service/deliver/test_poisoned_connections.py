"""Keep-alive connections on which a receiver says more than it was asked: no event may take another's answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.service.deliver.hostile import Connection, HostileReceiver
from tests.service.deliver.per_case import Cases, service_per_case
from tests.service.waiting import WAIT_SECONDS

TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
FAILED = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"


class Poisoned:
    """Takes what comes first on a connection and adds an answer nobody asked for; fails whatever comes after it.

    If that stray answer were believed, the second event would count as delivered although it was refused.
    """

    def __init__(self, *, at_once: bool) -> None:
        self.at_once = at_once
        self.idle = threading.Event()
        self.dropped = threading.Event()
        self.healed = False

    def __call__(self, connection: Connection) -> None:
        """Handle one connection."""
        connection.read_request()
        if self.healed:
            connection.send(TAKEN)
            return
        if self.at_once:
            connection.send(TAKEN + TAKEN)
        else:
            connection.send(TAKEN)
            self.idle.wait(60)
            connection.send(TAKEN)
        try:
            while True:
                connection.read_request()
                connection.send(FAILED)
        finally:
            self.dropped.set()


POISONS = {"atonce": Poisoned(at_once=True), "later": Poisoned(at_once=False)}


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, HostileReceiver]]:
    """The receiver of each case."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(HostileReceiver(poison)) for name, poison in POISONS.items()}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, receivers: dict[str, HostileReceiver]) -> Iterator[Cases]:
    """One service with both."""
    urls = {name: [receiver.url()] for name, receiver in receivers.items()}
    with service_per_case(tmp_path_factory.mktemp("poison"), urls) as running:
        yield running


@pytest.mark.parametrize("name", list(POISONS))
def test_an_answer_nobody_asked_for_is_never_taken(
    name: str, cases: Cases, receivers: dict[str, HostileReceiver]
) -> None:
    """The first event is delivered by its own answer; the connection is dropped, and the second goes out on another.

    An answer that arrives at the very moment of the next request cannot be told from its own: that is not tested.
    """
    receiver, poison = receivers[name], POISONS[name]
    first = cases.send(name)
    cases.hookline.wait_status(first, name, "delivered")
    poison.idle.set()
    poison.healed = True
    assert poison.dropped.wait(WAIT_SECONDS), "the connection with the stray answer is kept"
    second = cases.send(name)
    part = cases.hookline.wait_status(second, name, "delivered")
    assert [attempt["outcome"] for attempt in part["attempts"]] == ["success"]
    assert receiver.connections_of(first) == [1]
    assert receiver.connections_of(second) == [2]
