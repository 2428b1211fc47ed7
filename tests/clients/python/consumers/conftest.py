"""What the tests of consumers need: a way to make clients that are closed afterwards, and services that misbehave."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from hookline_client import Client
from tests.service.harness import WRITE_KEY, Receiver, Reply

GOOD = Reply(200, b'{"success": true, "accepted": 1}', {"Content-Type": "application/json"})


@pytest.fixture
def new_client() -> Iterator[Callable[..., Client]]:
    """Make a client of a loopback port; it is closed at the end of the test."""
    made: list[Client] = []

    def make(port: int, consumer: str, **options: object) -> Client:
        made.append(Client(WRITE_KEY, endpoint=f"http://127.0.0.1:{port}", consumer=consumer, **options))  # type: ignore[misc, arg-type]
        return made[-1]

    yield make
    for client in made:
        client.close(0.0)


@pytest.fixture
def service() -> Iterator[Receiver]:
    """What looks like a Hookline that takes everything, and can be told to answer otherwise."""
    with Receiver() as running:
        running.respond = lambda request: GOOD
        yield running


@pytest.fixture
def silence() -> Iterator[socket.socket]:
    """A listening socket that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:
        yield listening


def port_of(listening: socket.socket) -> int:
    """The port of a listening socket."""
    return int(listening.getsockname()[1])
