"""What is particular to ``socket``: a call is a request, and nobody waits for its answer."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_client import Client
from hookline_client.consumers import looked_up_host, one_way_request
from hookline_client.consumers.socket import RESTS, TIMEOUTS_MAX
from tests.clients.python.consumers.conftest import GOOD, port_of
from tests.clients.slow_line import SlowLine
from tests.service.deliver.certificates import Authority
from tests.service.harness import WRITE_KEY, Receiver, free_port, wait_until

NewClient = Callable[..., Client]
LARGE_BYTES = 30_000
"""More than a system sends before the first acknowledgement."""


def test_a_call_is_over_before_there_is_an_answer(silence: socket.socket, new_client: NewClient) -> None:
    """Nobody ever answers, and the whole request is there, followed by the end of the connection."""
    client = new_client(port_of(silence), "socket", timeout=60.0)
    assert client.track("u1", "Test", message_id="m1")
    connection, _ = silence.accept()
    with connection:
        written = b"".join(iter(lambda: connection.recv(65536), b""))
    assert written.startswith(b"POST /v1/batch HTTP/1.1\r\n")
    assert b'"messageId":"m1"' in written
    assert client.flush().handed_over == 1


def test_each_call_has_a_socket_of_its_own(service: Receiver, new_client: NewClient) -> None:
    """Four threads with 25 calls each are 100 connections with one event each."""
    client = new_client(service.port, "socket", timeout=30.0)
    threads = [threading.Thread(target=lambda: [client.track("u1", "Test") for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: len(service.requests) == 100)
    assert service.connections == 100
    assert client.stats.handed_over == 100


def test_a_service_that_hangs_costs_a_few_timeouts_and_no_more(new_client: NewClient) -> None:
    """The connection is never taken up: after three calls in a row that timed out, others return at once."""
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.socket() as first, socket.socket() as second:
        for filling in (first, second):  # no room in the backlog any more
            filling.setblocking(False)
            filling.connect_ex(full.getsockname())
        client = new_client(port_of(full), "socket", timeout=0.1, error_handler=lambda code, text: told.append(text))
        assert [client.track("u1", "Test") for _ in range(100)] == [None] * 100
    assert client.stats.dropped == 100
    assert len(told) == 100
    assert sum(RESTS not in text for text in told) == TIMEOUTS_MAX


def test_a_name_that_cannot_be_looked_up_in_time(new_client: NewClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-up hangs, the call does not; once it is done, calls go through."""
    answered = threading.Event()
    real = socket.getaddrinfo
    monkeypatch.setattr(looked_up_host.socket, "getaddrinfo", lambda *a, **k: answered.wait(60) and real(*a, **k))
    with Receiver() as service:
        client = new_client(service.port, "socket", timeout=0.05)
        assert client.track("u1", "Test") is None
        answered.set()
        wait_until(lambda: client.track("u1", "Test") is not None)


def test_debug_waits_for_the_answer(service: Receiver, new_client: NewClient) -> None:
    """The receipt of the call is there when it returns, and tells what the service said."""
    client = new_client(service.port, "socket", debug=True)
    client.track("u1", "Test")
    service.reply_with(401, body=b'{"success": false, "code": "unknown_write_key", "message": "Which?"}')
    client.track("u1", "Test")
    result = client.flush(0.0)
    assert (result.accepted, result.gave_up) == (1, 1)
    assert result.receipts[-1].code == "unknown_write_key"


def test_nobody_there(new_client: NewClient) -> None:
    """The connection is refused: the call returns None, and the handler hears of it."""
    told: list[str] = []
    client = new_client(free_port(), "socket", error_handler=lambda code, text: told.append(code))
    assert client.track("u1", "Test") is None
    assert told == ["connection_failed"]


def test_a_closed_client_sends_nothing(service: Receiver, new_client: NewClient) -> None:
    """After close a call is dropped and counted."""
    client = new_client(service.port, "socket")
    client.close()
    assert client.track("u1", "Test") is None
    assert client.stats.dropped == 1
    assert service.requests == []


def test_a_forked_child_sends(service: Receiver, new_client: NewClient) -> None:
    """Calls work in a child as in its parent."""
    client = new_client(service.port, "socket", timeout=30.0)
    child = os.fork()
    if child == 0:
        os._exit(0 if client.track("child", "Test") else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert client.track("parent", "Test")
    wait_until(lambda: len(service.requests) == 2)


@pytest.mark.parametrize("tells", [True, False])
def test_a_large_event_leaves_over_tls_on_a_line_with_a_round_trip(
    tells: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tickets that arrived at a closed socket would reset the connection, with most of the event still on this side;
    also where the system does not tell what is acknowledged."""
    if not tells:
        monkeypatch.setattr(one_way_request, "termios", None)
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server()) as service, SlowLine(service.port) as line:
        service.respond = lambda request: GOOD
        endpoint = f"https://127.0.0.1:{line.port}"
        client = Client(WRITE_KEY, endpoint=endpoint, consumer="socket", ca_file=str(authority.file), timeout=30.0)
        assert client.track("u1", "Large", {"x": "x" * LARGE_BYTES}, message_id="m1")
        line.returned.set()
        wait_until(lambda: len(service.requests) == 1)
    assert service.requests[0].json["batch"][0]["messageId"] == "m1"


def test_a_service_that_stops_to_read_over_tls_is_a_timeout(tmp_path: Path) -> None:
    """Report as not sent what is still on this side when the time is over."""
    told: list[str] = []
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server()) as service, SlowLine(service.port, hold_seconds=60.0) as line:
        client = Client(
            WRITE_KEY,
            endpoint=f"https://127.0.0.1:{line.port}",
            consumer="socket",
            ca_file=str(authority.file),
            timeout=1.0,
            error_handler=lambda code, text: told.append(code),
        )
        assert client.track("u1", "Large", {"x": "x" * LARGE_BYTES}) is None
    assert told == ["timed_out"]
