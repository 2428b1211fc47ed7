"""Control behind balancers that pass connections on: whose they are the PROXY protocol says, to be believed or not."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.service.fronts import handing_on
from tests.service.harness import Hookline
from tests.service.waiting import WAIT_SECONDS

BALANCER = "127.0.0.2"
"""Trusted, and nobody else is."""
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
ASK = b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
API = "/api/v1/destinations"


@pytest.fixture(scope="module")
def hookline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hookline]:
    """One service that takes the header at control."""
    settings = {"control.proxy_protocol": True, "collect.trusted_proxies": [f"{BALANCER}/32"]}
    with Hookline(tmp_path_factory.mktemp("handed-on") / "h", settings=settings) as running:
        yield running


def left_to(client: str, port: int) -> int:
    """Ask the API without a token from an address; return how many such requests it says that address has left."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_SECONDS, source_address=(client, 0))
    try:
        connection.request("GET", API)
        return _left(str(connection.getresponse().headers["RateLimit"]))
    finally:
        connection.close()


def said(hookline: Hookline, data: bytes, peer: str = BALANCER) -> str:
    """Everything that is answered to these bytes, nothing where the connection is closed at once."""
    with socket.create_connection(("127.0.0.1", hookline.control_port), WAIT_SECONDS, (peer, 0)) as connection:
        try:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
        except ConnectionResetError:
            return ""


def _left(header: str) -> int:
    found = re.search(r"r=(\d+)", header)
    assert found is not None, header
    return int(found[1])


def first(client: str) -> bytes:
    """A header of version 1."""
    return f"PROXY TCP4 {client} 10.0.0.1 4711 80\r\n".encode()


def second(client: str) -> bytes:
    """A header of version 2."""
    addresses = ip_address(client).packed + ip_address("10.0.0.1").packed + b"\x12\x67\x00\x50"
    return SIGNATURE + b"\x21\x11" + len(addresses).to_bytes(2, "big") + addresses


@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_who_is_asked_for_is_who_connected_to_the_balancer(hookline: Hookline, tmp_path: Path, how: str) -> None:
    """Through HAProxy each client has limits of its own, as it has without; HAProxy's own checks keep control in."""
    clients = [f"127.0.{len(how)}.{number}" for number in (1, 2)]
    with handing_on(tmp_path, hookline.control_port, f"{how} source {BALANCER}") as port:
        left = [left_to(client, port) for client in (*clients, *clients)]
    assert left == [left[0], left[0], left[0] - 1, left[0] - 1]
    assert left_to(clients[0], hookline.control_port) == left[0] - 2, "the same address, directly"


@pytest.mark.parametrize("header", [first, second])
def test_a_trusted_peer_is_believed(hookline: Hookline, header: Callable[[str], bytes]) -> None:
    """Requests behind a header count for the address in it, not for the peer's: two clients have as many left."""
    clients = [f"203.0.113.{number + 2 * (header is first)}" for number in (1, 2)]
    left = [_left(said(hookline, header(client) + ASK % API.encode())) for client in (*clients, *clients)]
    assert left == [left[0], left[0], left[0] - 1, left[0] - 1]


@pytest.mark.parametrize("header", [first("203.0.113.9"), second("203.0.113.9")])
def test_who_is_not_trusted_is_served_and_not_believed(hookline: Hookline, header: bytes) -> None:
    """A client's own header is no request; without one it is served, and signed in, as ever."""
    assert said(hookline, header + ASK % b"/healthz", "127.0.0.8").startswith("HTTP/1.1 400")
    assert said(hookline, ASK % b"/healthz", "127.0.0.8").startswith("HTTP/1.1 200")
    assert hookline.api("GET", "destinations").status == 200


def test_a_balancer_that_speaks_for_itself_is_served(hookline: Hookline) -> None:
    """Health checks: UNKNOWN and LOCAL have no client."""
    for header in (b"PROXY UNKNOWN\r\n", SIGNATURE + b"\x20\x00\x00\x00"):
        assert said(hookline, header + ASK % b"/readyz").startswith("HTTP/1.1 200")


def test_a_trusted_peer_without_a_header_is_closed(hookline: Hookline) -> None:
    """Nothing may be taken for a client's own word; the log says what to do, once for a while."""
    for _ in range(3):
        assert said(hookline, ASK % b"/healthz") == ""
    assert hookline.log.count("proxy_header_refused") == 1
