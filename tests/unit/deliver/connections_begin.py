"""A process that begins many connections in one turn, with few descriptors left for them.

In one of its own: all descriptors of the process count, and a process of tests opens and closes others all the time.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
import sys
from contextlib import closing

import msgspec

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


class Case(msgspec.Struct):
    """Says how the connections begin."""

    addresses: list[str]
    """Of the receiver's name."""
    asks_others: bool = False
    """Ask another address beside one that has not answered."""
    is_proxied: bool = False
    has_room_below: bool = False
    """Let a descriptor come free among the first."""


def hold() -> list[int]:
    """Take all descriptors that connections may have but FREE, in ascending order."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (ALLOWED, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = [os.open(os.devnull, os.O_RDONLY)]
    while held[-1] < KEPT_FROM - FREE:
        held.append(os.open(os.devnull, os.O_RDONLY))
    return held


def mode(number: int) -> int:
    """Return what a descriptor is, 0 for one that is free."""
    try:
        return os.fstat(number).st_mode
    except OSError:
        return 0


async def begin_all(case: Case) -> None:
    """Have all of them begin, to one who takes them and says nothing; look after each turn at what is left, until there
    is room for no more."""
    held = hold()
    with socket.create_server(("127.0.0.1", 0), backlog=2 * REQUESTS) as receiver:  # the system takes them
        port = receiver.getsockname()[1]
        proxy = Proxy(f"http://127.0.0.1:{port}", None) if case.is_proxied else None
        resolver = Resolver(Guard(["127.0.0.0/8"]), lambda host, port: case.addresses)
        with closing(Pools(Results(), resolver, tls_context(None), proxy=proxy)) as pools:
            pool = pools.of(parse_receiver_url(f"http://several.example:{port}/"))
            if case.has_room_below:
                os.close(held[0])
            theirs = [number for number in range(KEPT_FROM) if not mode(number)]
            pool.send(NO_TARGET, [(number, REQUEST) for number in range(REQUESTS)])
            turns = 0
            while turns < TURNS:
                await asyncio.sleep(0)
                assert not any(map(mode, range(KEPT_FROM, ALLOWED))), "a connection has taken what is kept for others"
                turns += all(stat.S_ISSOCK(mode(number)) for number in theirs)


if __name__ == "__main__":
    connector.SHORT_SECONDS = 0.0  # who has no room asks again in each turn
    given = msgspec.json.decode(sys.argv[1], type=Case)
    connector.STAGGER_SECONDS = 0.0 if given.asks_others else 60.0  # one address is enough on a busy machine too
    asyncio.run(begin_all(given))
