"""Connections that a load balancer hands on with the PROXY protocol: whose they are, and who is not believed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hookline import client_address
from hookline.events.body import render_plain
from hookline.settings import Collect, Networks, Settings
from tests.service.fronts import handing_on
from tests.unit.collect.wire import TRACK, Running, Wire, request

ORIGIN = {"Origin": "https://shop.example"}
HEADER = b"PROXY TCP4 203.0.113.9 127.0.0.1 4711 80\r\n"
CLIENT = "127.0.0.7"
"""Not trusted, unlike the balancer, which connects from 127.0.0.1."""


@pytest.fixture
def edge(start: Callable[..., Running]) -> Running:
    """An edge behind balancers at one address."""
    return start(settings=Settings(collect=Collect(trusted_proxies=Networks(["127.0.0.1/32"]), proxy_protocol=True)))


def seen(edge: Running) -> str:
    """The address that the newest event got."""
    return str(json.loads(render_plain(edge.memory.records[-1]))["context"]["ip"])


@pytest.mark.parametrize("how", ["send-proxy", "send-proxy-v2"])
def test_haproxy_says_whose_connection_it_is(edge: Running, tmp_path: Path, how: str) -> None:
    """Both versions, a kept connection, and HAProxy's own health checks, which keep the edge in its rotation."""
    with handing_on(tmp_path, edge.address[1], how) as port:
        wire = Wire(("127.0.0.1", port), CLIENT)
        for _ in range(2):
            assert wire.send(request("/v1/track", TRACK, **ORIGIN)).answer().status == 200
            assert seen(edge) == CLIENT
        wire.socket.close()


def test_a_header_may_come_in_pieces_and_with_the_request(edge: Running) -> None:
    """One byte a time, then the rest in one piece with two requests."""
    wire = edge.wire()
    for at in range(len(HEADER) - 1):
        wire.send(HEADER[at : at + 1])
    wire.send(HEADER[-1:] + request("/v1/track", TRACK, **ORIGIN) * 2)
    assert [wire.answer().status, wire.answer().status] == [200, 200]
    assert seen(edge) == "203.0.113.9"
    wire.socket.close()


def test_a_balancer_that_speaks_for_itself_is_served(edge: Running) -> None:
    """Health checks: UNKNOWN and LOCAL have no client."""
    for header in (b"PROXY UNKNOWN\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"):
        assert edge.ask(header + b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n").status == 200


def test_who_is_not_trusted_is_served_and_not_believed(edge: Running) -> None:
    """A client's own header is no request; without one it is served under its own address."""
    wire = edge.wire(CLIENT)
    assert wire.send(HEADER + request("/v1/track", TRACK)).answer().status == 400
    wire = edge.wire(CLIENT)
    assert wire.send(request("/v1/track", TRACK, **ORIGIN)).answer().status == 200
    assert seen(edge) == CLIENT


def test_a_trusted_peer_without_a_header_is_closed(edge: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once where something else comes, else when its time is over: nothing may be taken for a client's own word."""
    monkeypatch.setattr(client_address, "HEADER_SECONDS_MAX", 0.1)
    assert edge.wire().send(request("/v1/track", TRACK)).closed()
    assert edge.wire().send(HEADER[:20]).closed()
    assert edge.memory.records == []
