"""What holds for ``lib_curl``, ``fork_curl`` and ``socket`` alike: options, keys, certificates, hanging services."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline_client import Client
from tests.clients.python.consumers.conftest import GOOD, port_of
from tests.service.deliver.certificates import Authority
from tests.service.harness import WRITE_KEY, Hookline, Receiver, Reply, free_port, wait_until, webhook

NewClient = Callable[..., Client]

each = pytest.mark.parametrize("consumer", ["lib_curl", "fork_curl", "socket"])
queueing = pytest.mark.parametrize("consumer", ["lib_curl", "fork_curl"])


def test_events_arrive_and_a_wrong_key_is_heard_of_in_debug(
    new_hookline: Callable[..., Hookline], receiver: Receiver
) -> None:
    """Against a real service: every consumer delivers, in debug with receipts, and says that a key is unknown."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    endpoint = f"http://127.0.0.1:{hookline.collect_port}"
    sent: set[str | None] = set()
    for consumer in ("lib_curl", "fork_curl", "socket"):
        with Client(WRITE_KEY, endpoint=endpoint, consumer=consumer, gzip=True) as client:  # type: ignore[arg-type]
            sent.add(client.track("u1", "Test"))
        with Client(WRITE_KEY, endpoint=endpoint, consumer=consumer, debug=True) as client:  # type: ignore[arg-type]
            sent.add(client.track("u1", "Test"))
            assert client.stats.accepted == 1
        told: list[str] = []
        handler = {"error_handler": lambda code, text, told=told: told.append(code)}
        with Client("wk_wrong", endpoint=endpoint, consumer=consumer, debug=True, **handler) as client:  # type: ignore[arg-type]
            client.track("u1", "Test")
            assert client.stats.gave_up == 1
        assert told == ["unknown_write_key"]
    wait_until(lambda: {request.message_id for request in receiver.requests} == sent, what="all at the receiver")


@each
def test_a_wrong_key_is_passed_over_without_debug(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """Nobody looks at the 401, so the handler is not called."""
    service.reply_with(401, body=b'{"success": false, "code": "unknown_write_key", "message": "Which?"}')
    told: list[str] = []
    client = new_client(service.port, consumer, timeout=30.0, error_handler=lambda code, text: told.append(code))
    client.track("u1", "Test")
    assert client.flush().handed_over == 1
    wait_until(lambda: len(service.requests) == 1)
    assert told == []


@queueing
@pytest.mark.parametrize("status", [201, 302, 400, 404])
def test_an_answer_is_passed_over(consumer: str, service: Receiver, new_client: NewClient, status: int) -> None:
    """Whatever the service says, the batch was sent once and nobody is told."""
    service.reply_with(status, body=b'{"success": false, "code": "x", "message": "y"}')
    told: list[str] = []
    client = new_client(service.port, consumer, error_handler=lambda code, message: told.append(code))
    client.track("u1", "Test")
    assert client.flush().handed_over == 1
    assert len(service.requests) == 1
    assert told == []


@queueing
@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_service_that_cannot_take_it_now(
    consumer: str, service: Receiver, new_client: NewClient, status: int
) -> None:
    """It starts, stops or has too much to do: the batch is sent again, of which the handler hears once."""
    busy = Reply(status, b'{"success": false, "code": "x", "message": "y"}', {"Retry-After": "0"})
    service.respond = lambda request: busy if len(service.requests) < 3 else GOOD
    told: list[str] = []
    client = new_client(service.port, consumer, error_handler=lambda code, message: told.append(code))
    client.track("u1", "Test")
    assert client.flush().handed_over == 1
    assert len({request.body[:100] for request in service.requests}) == 1
    assert len(service.requests) == 3
    assert told == ["x"]


@queueing
def test_what_is_refused_for_too_long_is_counted(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """After the retries that the options allow the event is lost with the code of the last answer."""
    service.reply_with(
        503, body=b'{"success": false, "code": "starting", "message": "Wait."}', headers={"Retry-After": "0"}
    )
    client = new_client(service.port, consumer, max_retries=1)
    client.track("u1", "Test")
    result = client.flush()
    assert result.gave_up == 1
    assert result.receipts[0].code == "starting"


@each
def test_over_tls(consumer: str, tmp_path: Path) -> None:
    """A certificate of the authority in ``ca_file``, whatever its name, is good; the key is in the usual header."""
    folder = tmp_path / 'with "quotes" \\ and spaces'
    folder.mkdir()
    authority = Authority(folder)
    with Receiver(tls=authority.server()) as service:
        service.respond = lambda request: GOOD
        options = {
            "endpoint": f"127.0.0.1:{service.port}",
            "ssl": True,
            "timeout": 30.0,
            "ca_file": str(authority.file),
        }
        with Client(WRITE_KEY, consumer=consumer, **options) as client:  # type: ignore[arg-type]
            for _ in range(20):
                client.track("u1", "Test")
        wait_until(lambda: sum(len(request.json["batch"]) for request in service.requests) == 20)
    assert service.requests[0].headers["authorization"] == "Basic d2tfc2l0ZTo="


@each
def test_a_certificate_of_somebody_else(consumer: str, tmp_path: Path) -> None:
    """It is refused before anything is sent, and the handler hears why."""
    told: list[str] = []
    with Receiver(tls=Authority(tmp_path).server(self_signed=True)) as service:
        client = Client(
            WRITE_KEY,
            endpoint=f"https://127.0.0.1:{service.port}",
            consumer=consumer,  # type: ignore[arg-type]
            timeout=30.0,
            max_retries=0,
            error_handler=lambda code, text: told.append(code),
        )
        client.track("u1", "Test")
        client.flush()
        client.close()
        assert service.requests == []
    assert told == ["tls_failed"]


@each
def test_a_caller_is_not_held_up_by_a_service_that_hangs(
    consumer: str, silence: socket.socket, new_client: NewClient
) -> None:
    """100 calls while nobody answers take no time to speak of; flush and close keep to theirs."""
    client = new_client(port_of(silence), consumer, timeout=30.0, batch_size=10, max_retries=0)
    began = time.monotonic()
    for _ in range(100):
        client.track("u1", "Test")
    assert client.flush(0.0).waiting == (0 if consumer == "socket" else 100)
    client.close(0.0)
    assert time.monotonic() - began < 20  # one timeout alone would be 30


@queueing
def test_the_queue_is_bounded(consumer: str, silence: socket.socket, new_client: NewClient) -> None:
    """With the service away, what does not fit into ``max_queue_size`` is dropped and counted."""
    client = new_client(port_of(silence), consumer, timeout=30.0, max_queue_size=50, batch_size=10, max_retries=0)
    taken = [client.track("u1", "Test") for _ in range(100)]
    assert 50 <= 100 - taken.count(None) <= 60  # one batch may be under way
    assert client.stats.dropped == taken.count(None)


@queueing
def test_requests_hold_batch_size_events(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """The queue leaves when there are ``batch_size`` of them, and never more in one request."""
    client = new_client(service.port, consumer, batch_size=7, flush_after=3600.0)
    for _ in range(21):
        client.track("u1", "Test")
    wait_until(lambda: [len(request.json["batch"]) for request in service.requests] == [7, 7, 7])


@queueing
def test_a_few_events_do_not_wait_for_ever(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """After ``flush_after`` what waits leaves without a flush."""
    new_client(service.port, consumer, flush_after=0.05).track("u1", "Test")
    wait_until(lambda: len(service.requests) == 1)


@queueing
def test_large_events_are_spread_over_requests(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """No request is larger than 512,000 bytes."""
    client = new_client(service.port, consumer, flush_after=3600.0)
    for _ in range(40):
        client.track("u1", "Test", {"text": "x" * 30_000})
    assert client.flush().handed_over == 40
    assert [len(request.json["batch"]) for request in service.requests] == [16, 16, 8]
    assert max(len(request.body) for request in service.requests) <= 512_000


@each
def test_compressed_when_asked(consumer: str, service: Receiver, new_client: NewClient) -> None:
    """``gzip`` compresses the body and says so."""
    client = new_client(service.port, consumer, gzip=True, timeout=30.0)
    client.track("u1", "Test")
    client.flush()
    (request,) = wait_until(lambda: service.requests)
    assert request.headers["content-encoding"] == "gzip"
    assert b'"event":"Test"' in gzip.decompress(request.body)


@each
def test_nobody_at_the_endpoint(consumer: str, new_client: NewClient) -> None:
    """After the retries that the options allow the event is counted as lost, with a code."""
    told: list[str] = []
    options = {"max_retries": 1, "error_handler": lambda code, text: told.append(code)}
    client = new_client(free_port(), consumer, **options)
    client.track("u1", "Test")
    result = client.flush()
    assert result.gave_up + result.dropped == 1
    assert set(told) == {result.receipts[0].code} == {"connection_failed"}


@queueing
def test_a_service_that_comes_back(consumer: str, new_client: NewClient) -> None:
    """A request without an answer is tried again, so the event is not lost."""
    port = free_port()
    client = new_client(port, consumer, batch_size=1)
    client.track("u1", "Test")
    with Receiver(port=port) as back:
        back.respond = lambda request: GOOD
        assert client.flush(30.0).handed_over == 1
        assert len(back.requests) == 1
