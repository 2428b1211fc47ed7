"""Descriptors that are kept for others than connections stay free however connections begin."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
from collections.abc import Iterator
from contextlib import closing

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import connector
from hookline.deliver.send.connector import DESCRIPTORS_KEPT
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.proxy import Proxy
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results

ALLOWED = 512
"""Open files of the process."""
KEPT_FROM = ALLOWED - DESCRIPTORS_KEPT
FREE = 20
"""Of those that connections may have."""
REQUESTS = 120
"""More than are free and kept together."""
TURNS = 50
"""Of the event loop, after the last socket that there is room for."""


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What holds all descriptors that connections may have but FREE, in ascending order."""
    monkeypatch.setattr(connector, "SHORT_SECONDS", 0.0)  # who has no room asks again in each turn
    monkeypatch.setattr(connector, "STAGGER_SECONDS", 60.0)  # one address is enough on a busy machine too
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (ALLOWED, hard))
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < KEPT_FROM - FREE:
        held.append(os.open(os.devnull, os.O_RDONLY))
    yield held
    for each in held:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def mode(number: int) -> int:
    """Return what a descriptor is, 0 for one that is free."""
    try:
        return os.fstat(number).st_mode
    except OSError:
        return 0


async def begin_all(addresses: list[str], is_proxied: bool = False, free: int | None = None) -> None:
    """Begin many connections in one turn, to one who takes them and says nothing; look after each turn at what is left
    until there is room for no more. ``free`` is closed before."""
    with socket.create_server(("127.0.0.1", 0), backlog=2 * REQUESTS) as receiver:  # the system takes them
        port = receiver.getsockname()[1]
        proxy = Proxy(f"http://127.0.0.1:{port}", None) if is_proxied else None
        resolver = Resolver(Guard(["127.0.0.0/8"]), lambda host, port: addresses)
        with closing(Pools(Results(), resolver, tls_context(None), proxy=proxy)) as pools:
            pool = pools.of(parse_receiver_url(f"http://several.example:{port}/"))
            if free is not None:
                os.close(free)
            theirs = [number for number in range(KEPT_FROM) if not mode(number)]
            kept = [number for number in range(KEPT_FROM, ALLOWED) if not mode(number)]  # by other tests, too
            pool.send(NO_TARGET, [(number, REQUEST) for number in range(REQUESTS)])
            turns = 0
            while turns < TURNS:
                await asyncio.sleep(0)
                assert not any(map(mode, kept)), "a connection has taken what is kept for others"
                turns += all(stat.S_ISSOCK(mode(number)) for number in theirs)


@pytest.mark.parametrize(
    ("addresses", "is_proxied"),
    [(["127.0.0.1"], False), (["127.0.0.1"] * 2, False), (["127.0.0.1"], True)],
    ids=["one address", "several addresses", "a proxy"],
)
def test_connections_that_begin_together(held: list[int], addresses: list[str], is_proxied: bool) -> None:
    """Each counts those that have begun before it and have no socket yet."""
    asyncio.run(begin_all(addresses, is_proxied))


def test_a_descriptor_that_came_free_among_the_first(held: list[int]) -> None:
    """It is one, and says nothing of those above it."""
    asyncio.run(begin_all(["127.0.0.1"], free=held.pop(0)))
