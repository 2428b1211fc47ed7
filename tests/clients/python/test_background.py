"""The default consumer and a real Hookline: restarts, refusals, certificates, many threads, forks.

``pytest tests/clients/python --client-events 100000`` sends the full number while the service is killed.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from termios import TIOCOUTQ
from typing import Any

import pytest

from hookline_client import AsyncClient, Client
from hookline_client.endpoint import parse_endpoint
from hookline_client.http_transport import HttpTransport
from tests.service.deliver.certificates import Authority
from tests.service.harness import WRITE_KEY, Hookline, Receiver, wait_until, webhook

ACCEPTED = b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"success":true}'
ARRIVAL_SECONDS = 600.0
EVENTS_PER_KILL = 2_500
KILLS_MAX = 20
THREADS = 4


def endpoint(hookline: Hookline) -> str:
    """Its collection API."""
    return f"http://127.0.0.1:{hookline.collect_port}"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hookline, Receiver]]:
    """A service and its receiver for the tests that leave it as it was."""
    with Receiver() as receiver, Hookline(tmp_path_factory.mktemp("h"), [webhook("crm", receiver.url())]) as hookline:
        yield hookline, receiver


def arrived(receiver: Receiver) -> Counter[str]:
    """How often each messageId reached the receiver."""
    return Counter(request.message_id for request in receiver.requests)


@pytest.mark.timeout(1800)
def test_nothing_is_lost_while_the_service_is_killed(
    new_hookline: Callable[..., Hookline], receiver: Receiver, client_events: int
) -> None:
    """Threads go on calling; after each kill -9 the service comes back, and every event is acknowledged."""
    hookline = new_hookline(webhook("crm", receiver.url())).start()
    client = Client(WRITE_KEY, endpoint=endpoint(hookline), on_full="block", block_timeout=ARRIVAL_SECONDS)
    sent: list[str | None] = []

    def call() -> None:
        sent.extend([client.track("u1", "Test", {"n": number}) for number in range(client_events // THREADS)])

    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for kill in range(min(KILLS_MAX, max(2, client_events // EVENTS_PER_KILL))):
        wait_until(lambda reached=client_events * kill // KILLS_MAX: client.stats.accepted >= reached, ARRIVAL_SECONDS)
        hookline.kill9()
        hookline.start()
    for thread in threads:
        thread.join(ARRIVAL_SECONDS)
    result = client.flush(ARRIVAL_SECONDS)
    assert result.ok
    assert result.accepted == len(sent) == len(set(sent)) == client_events // THREADS * THREADS
    wait_until(lambda: arrived(receiver).keys() >= set(sent), ARRIVAL_SECONDS, "all at the receiver")


def test_a_resent_batch_is_delivered_once(shared: tuple[Hookline, Receiver]) -> None:
    """An answer that got lost makes the client send again; the service knows the messageIds."""
    hookline, receiver = shared
    with Client(WRITE_KEY, endpoint=endpoint(hookline)) as client:
        for number in range(3):
            client.track("u1", f"E{number}", message_id="same")
        assert client.flush().accepted == 3
        last = client.track("u1", "Last")
    wait_until(lambda: arrived(receiver)[last or ""] == 1)
    assert arrived(receiver)["same"] == 1


def test_rejected_events_have_receipts(shared: tuple[Hookline, Receiver]) -> None:
    """One that the service refuses does not cost the others, and the receipt has the service's own code."""
    hookline, receiver = shared
    deep = b'{"messageId":"deep","properties":' + b'{"deeper":' * 140 + b"1" + b"}" * 141  # no call of ours makes it

    def spoil(message: dict[str, Any]) -> dict[str, Any]:
        return {**message, "userId": None} if message["event"] == "Nobody" else message

    with Client(WRITE_KEY, endpoint=endpoint(hookline), before_send=spoil) as client:
        good = {client.track("u1", f"Good {number}") for number in range(5)}
        bad = {client.track("u1", "Nobody"): "missing_user_id", "deep": "nesting_too_deep"}
        assert client._session is not None
        client._session.consumer.enqueue(("deep", deep))
        result = client.flush()
    assert result.accepted == 5
    assert {receipt.message_id: receipt.code for receipt in result.receipts} == bad
    wait_until(lambda: arrived(receiver).keys() >= good)
    assert not arrived(receiver).keys() & bad.keys()


def test_a_wrong_key_is_told_at_once(shared: tuple[Hookline, Receiver]) -> None:
    """With the service's code, without retries, and the client goes on."""
    hookline, _ = shared
    errors: list[str] = []
    with Client("wrong", endpoint=endpoint(hookline), error_handler=lambda code, _: errors.append(code)) as client:
        client.track("u1", "E")
        assert client.flush().gave_up == 1
        client.track("u1", "E")
    assert errors == ["unknown_write_key"] * 2


def test_odd_values_arrive_as_they_were_meant(shared: tuple[Hookline, Receiver]) -> None:
    """What JSON has no word for, and every kind of text, pass the service and come out at the receiver."""
    hookline, receiver = shared
    properties = {"nan": float("nan"), "big": 2**60, "text": 'é "\\ \n 😀 \u2028', "set": {1}, "half": "\ud83d"}
    with Client(WRITE_KEY, endpoint=endpoint(hookline), gzip=True) as client:
        message_id = client.track(0, "E", properties, timestamp=1763622000.125)
        assert client.flush().ok
    body = receiver.wait_for(message_id or "")[0].json
    assert body["properties"] == {**properties, "nan": None, "set": [1], "half": "\ufffd"}
    assert body["userId"] == "0"
    assert body["timestamp"].startswith("2025-11-20T07:00:")  # corrected by the clocks' difference, here the way's time


def test_asyncio(shared: tuple[Hookline, Receiver]) -> None:
    """A thousand calls of many tasks, acknowledged by a real service."""
    hookline, receiver = shared

    async def main() -> set[str | None]:
        async with AsyncClient(WRITE_KEY, endpoint=endpoint(hookline)) as client:
            ids = {client.track("u1", "E") for _ in range(1000)}
            assert (await client.flush()).accepted == 1000
            return ids

    ids = asyncio.run(main())
    wait_until(lambda: arrived(receiver).keys() >= ids)


def test_forked_workers_send_their_own(shared: tuple[Hookline, Receiver]) -> None:
    """Made before the fork, as gunicorn --preload does; the parent's waiting event is sent once."""
    hookline, receiver = shared
    client = Client(WRITE_KEY, endpoint=endpoint(hookline))
    client.track("forked", "Parent")
    for number in range(4):
        if os.fork() == 0:
            client.track("forked", f"Child {number}")
            os._exit(0 if client.flush(30.0).accepted == 1 else 1)
    assert [os.wait()[1] for _ in range(4)] == [0] * 4
    client.close(30.0)

    def names() -> list[str]:
        bodies = [request.json for request in receiver.requests]
        return sorted(body["event"] for body in bodies if body["userId"] == "forked")

    wait_until(lambda: len(names()) >= 5)
    assert names() == ["Child 0", "Child 1", "Child 2", "Child 3", "Parent"]


@pytest.mark.parametrize(("self_signed", "trusted"), [(True, False), (False, True)])
def test_certificates_are_verified(tmp_path: Path, self_signed: bool, trusted: bool) -> None:
    """A certificate nobody vouches for is told and nothing is sent; an authority of one's own can be named."""
    authority = Authority(tmp_path)
    with Receiver(tls=authority.server(self_signed=self_signed)) as receiver:
        receiver.reply_with(200, body=b'{"success": true}')
        client = Client(
            WRITE_KEY, endpoint=f"127.0.0.1:{receiver.port}", ca_file=str(authority.file), max_retries=0, timeout=30.0
        )
        client.track("u1", "E")
        result = client.flush(30.0)
        client.close()
        assert (result.accepted == 1) == trusted
        assert [receipt.code for receipt in result.receipts] == ([] if trusted else ["tls_failed"])
        assert len(receiver.requests) == int(trusted)


def test_an_answer_before_the_end_of_a_request_over_tls_is_read(tmp_path: Path) -> None:
    """A proxy with a limit of its own answers 413 and hangs up; the next request has a new connection."""
    authority = Authority(tmp_path)
    context = authority.server()

    def serve() -> None:
        for answer in (b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n", ACCEPTED):
            with context.wrap_socket(listener.accept()[0], server_side=True) as sock:
                sock.recv(1_000)
                sock.sendall(answer)
                # The other side has it: what a reset finds in our own buffers is lost.
                wait_until(lambda sock=sock: ioctl(sock, TIOCOUTQ, bytes(4)) == bytes(4))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = parse_endpoint(f"https://127.0.0.1:{listener.getsockname()[1]}", True)
        transport = HttpTransport("wk", address, 10.0, ca_file=str(authority.file))
        answers = [transport.send([("a", b'"%0*d"' % (characters, 0))]) for characters in (8_000_000, 1)]
    assert [(answer.status, answer.retryable) for answer in answers] == [(413, False), (200, False)]
