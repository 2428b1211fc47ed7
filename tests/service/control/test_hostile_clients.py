"""What nobody known can do to the control port: heads and bodies without end, silence, and answers left unread."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.client import bearer, send
from tests.service.collect.raw_socket import RawSocket
from tests.service.collect.slow_clients import SlowClient, SlowClients
from tests.service.harness import Hookline
from tests.service.waiting import wait_until

CONNECTIONS = 600
"""More than control holds at once."""
MIB = 1024 * 1024
GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDLESS = {
    "lines": (GET, b"a: b\r\n" * 10_000),
    "one line": (GET + b"a: ", b"b" * 65_536),
    "a name": (GET, b"b" * 65_536),
    "the target": (b"GET /", b"b" * 65_536),
    "empty lines": (b"", b"\r\n" * 32_768),
    "trailers": (POST + b"0\r\n", b"a: b\r\n" * 10_000),
    "a trailer": (POST + b"0\r\na: ", b"b" * 65_536),
    "a chunk extension": (POST + b"1;a=", b"b" * 65_536),
}


class Server:
    """The service, and clients that are slow while the other tests run."""

    def __init__(self, hookline: Hookline, slow: dict[str, SlowClient]) -> None:
        self.hookline = hookline
        self.port = hookline.control_port
        self.slow = slow

    def resident_bytes(self) -> int:
        """What the control process has of the memory."""
        status = Path(f"/proc/{self.hookline.role('control')}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that has answered for the pages, and so has loaded them."""
    with Hookline(tmp_path_factory.mktemp("hostile")) as hookline:
        form = b"POST /login HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 99\r\n\r\n"
        starts = {"head": GET + b"a: ", "body": form}
        with SlowClients(hookline.control_port, list(starts.values())) as clients:
            send(hookline.control_port, "GET", "/login")
            yield Server(hookline, dict(zip(starts, clients.each, strict=True)))


@pytest.mark.parametrize("what", ENDLESS)
def test_what_has_no_end_is_refused_while_it_arrives(server: Server, what: str) -> None:
    """Of 8 MiB that are no body nothing but a bounded part is taken; the memory is not, and others are served."""
    start, more = ENDLESS[what]
    before = server.resident_bytes()
    with RawSocket(server.port) as raw:
        raw.write(start)
        for _ in range(8 * MIB // len(more)):
            raw.write(more)
        answer = raw.answer()
    assert answer is None or answer.status in (405, 431)
    assert server.resident_bytes() - before < 8 * MIB
    assert send(server.port, "GET", "/healthz").status == 200


def test_a_refusal_says_what_is_wrong(server: Server) -> None:
    """Whoever sends a head that is a little too large reads why, and the connection ends."""
    with RawSocket(server.port) as raw:
        raw.write(GET + b"a: b\r\n" * 101 + b"\r\n")
        answer = raw.answer()
        assert answer is not None
        assert (answer.status, answer.json["code"]) == (431, "head_too_large")
        assert raw.closed()


def test_requests_ahead_of_their_answers_are_bounded(server: Server) -> None:
    """A few requests at once are answered in order; thousands in one packet are not even kept."""
    before = server.resident_bytes()
    with RawSocket(server.port) as raw:
        raw.write((GET + b"\r\n") * 8)
        assert [answer.status for answer in (raw.answer() for _ in range(8)) if answer] == [200] * 8
    sockets = [RawSocket(server.port) for _ in range(16)]
    for raw in sockets:
        raw.write(b"GET / HTTP/1.1\r\n\r\n" * 14_000)
    assert all(raw.closed() or raw.answer() for raw in sockets)
    assert server.resident_bytes() - before < 32 * MIB


def test_bodies_nobody_may_send_are_not_waited_for(server: Server) -> None:
    """Without a good token, and with a form that is too large, the answer comes before the body."""
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 4000000\r\n{}\r\n"
    for path, more, status in (
        ("/api/v1/sources", "", 401),
        ("/api/v1/connections/apply", "Authorization: Bearer wrong\r\n", 401),
        ("/api/v1/destinations", "Idempotency-Key: a\r\n", 401),
        ("/login", "Content-Type: application/x-www-form-urlencoded\r\n", 413),
        ("/login", "Content-Type: multipart/form-data; boundary=x\r\n", 413),
        ("/join/nobody", "Content-Type: application/x-www-form-urlencoded\r\n", 403),
    ):
        with RawSocket(server.port) as raw:
            raw.write(head.format(path, more).encode())
            answer = raw.answer()
            assert answer is not None, path
            assert answer.status == status, path


def test_a_chunked_form_is_read_up_to_its_bound(server: Server) -> None:
    """A form that does not say how large it is is refused as soon as it is too large."""
    head = (
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with RawSocket(server.port) as raw:
        raw.write(head + b"4000\r\n" + b"a=b&" * 4096 + b"\r\n")
        answer = raw.answer()
        assert answer is not None
        assert answer.status == 413


def test_answers_that_nobody_reads_are_given_up(server: Server) -> None:
    """A client that asks for much and reads nothing is cut off, with what waited for it."""
    unread = socket.socket()
    unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    unread.connect(("127.0.0.1", server.port))
    unread.sendall(b"GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 12)

    def is_cut_off() -> bool:
        return unread.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    wait_until(is_cut_off, 60, what="the connection reset")
    unread.close()


def test_a_target_in_absolute_form_is_its_path(server: Server) -> None:
    """What a proxy is sent is answered by control, too (RFC 9112 3.2.2)."""
    with RawSocket(server.port) as raw:
        raw.write(b"GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = raw.answer()
    assert answer is not None
    assert answer.status == 200


def test_the_body_behind_an_offered_upgrade_is_a_body(server: Server) -> None:
    """Java's client offers h2c on each POST: its body is read all the same, and is never taken for the next request."""
    known = bearer(server.hookline.admin_token)["Authorization"]
    upgrade = f"Authorization: {known}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    head = f"POST /api/v1/sources HTTP/1.1\r\nHost: localhost\r\n{upgrade}".encode()
    made = b'{"id": "java", "name": "Java", "type": "server"}'
    with RawSocket(server.port) as raw:
        raw.write(head + b"Content-Length: %d\r\n\r\n" % len(made) + made + head)
        answer = raw.answer()
        assert answer is not None
        assert (answer.status, answer.json["id"]) == (201, "java")
        smuggled = GET + b"\r\n"
        raw.write(b"Transfer-Encoding: chunked\r\n\r\n")
        raw.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(smuggled), smuggled))
        answer = raw.answer()
        assert answer is not None
        assert (answer.status, answer.json["code"]) == (400, "malformed_json")
        raw.write(GET.replace(b"healthz", b"nowhere") + b"\r\n")
        answer = raw.answer()
    assert answer is not None
    assert answer.status == 404


def test_slow_clients_are_closed(server: Server) -> None:
    """A head gets 10 s and a body half a minute however they drip."""
    head, body = server.slow["head"].wait(), server.slow["body"].wait()
    assert (head.status, body.status) == (408, 408)
    assert 9 <= head.seconds < 28 <= body.seconds < 60


def test_silent_connections_keep_nobody_out(server: Server) -> None:
    """With more silent connections than control holds everybody else is served, and the silent ones end in 10 s."""
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(CONNECTIONS)]
    begun = time.monotonic()
    try:
        statuses = {send(server.port, "GET", "/api/v1/sources", headers=bearer(server.hookline.admin_token)).status}
        assert statuses == {200}
        newest = silent[-1]
        newest.settimeout(30)
        assert newest.recv(1) == b""
        assert 8 < time.monotonic() - begun < 25
    finally:
        for each in silent:
            each.close()
