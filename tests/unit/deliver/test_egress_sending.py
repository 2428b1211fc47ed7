"""The sender behind the guard: it connects to a checked address or not at all, whatever DNS answers."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from typing import cast

import pytest

from hookline.bench.service import free_port
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.port import Failure, Sink
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome, from_number

REQUEST = b"POST / HTTP/1.1\r\nHost: rebind.example\r\nContent-Length: 0\r\n\r\n"
TAKEN = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
NO_TARGET = cast(Target, object())
"""The pool only hands it back."""


class Results(Sink):
    """A sink that settles a future per request."""

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result."""
        cast("asyncio.Future[Outcome]", token).set_result(from_number(result)[0])


async def outcomes(lookup: Callable[[str, int], list[str]], guard: Guard, port: int, count: int) -> list[Outcome]:
    """Send ``count`` requests to a name one after another, DNS being asked anew for each."""
    ticks = itertools.count(0, 60)
    pools = Pools(Results(), Resolver(guard, lookup, lambda: next(ticks)), tls_context(None))
    pool = pools.of(parse_receiver_url(f"http://rebind.example:{port}/"))
    found = []
    for _ in range(count):
        result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        pool.send(NO_TARGET, [(result, REQUEST)])
        found.append(await asyncio.wait_for(result, 30))
    pools.close()
    return found


async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(TAKEN)
    await writer.drain()
    writer.close()


def test_rebinding_never_makes_the_sender_reach_the_canary() -> None:
    """A thousand requests under answers that alternate: the allowed address gets its share, the canary nothing."""
    answers = itertools.cycle([["127.0.0.2"], ["127.0.0.1"], ["127.0.0.2", "127.0.0.1"]])
    reached = []

    async def canary(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("peername"))
        writer.close()

    async def scenario() -> list[Outcome]:
        port = free_port()
        async with (
            await asyncio.start_server(take, "127.0.0.2", port),
            await asyncio.start_server(canary, "127.0.0.1", port),
        ):
            guard = Guard(["127.0.0.2/32"], lambda address: False)
            return await outcomes(lambda host, port: next(answers), guard, port, 1_000)

    found = asyncio.run(scenario())
    assert (found.count(Outcome.SUCCESS), found.count(Outcome.BLOCKED_ADDRESS)) == (334, 666)
    assert reached == []


def test_a_name_without_an_address_is_its_own_outcome() -> None:
    """What DNS does not know, and what it fails to answer, is name_not_resolved."""

    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    assert asyncio.run(outcomes(unknown, Guard(()), 80, 1)) == [Outcome.NAME_NOT_RESOLVED]
    assert asyncio.run(outcomes(lambda host, port: [], Guard(()), 80, 1)) == [Outcome.NAME_NOT_RESOLVED]


@pytest.mark.parametrize("listens", [False, True])
def test_a_failure_says_whether_a_request_was_sent(listens: bool) -> None:
    """No connection, no request; one that was closed instead of an answer may have brought it."""
    failures: list[Failure | None] = []

    class Failures(Results):
        def answered(
            self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None
        ) -> None:
            failures.append(failure)
            super().answered(token, target, result, milliseconds, failure)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1] if listens else free_port()
            pools = Pools(Failures(), Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            pools.of(parse_receiver_url(f"http://127.0.0.1:{port}/")).send(NO_TARGET, [(result, REQUEST)])
            assert await asyncio.wait_for(result, 30) is Outcome.CONNECTION_FAILED
            pools.close()

    asyncio.run(scenario())
    assert [failure is not None and failure.is_unsent for failure in failures] == [not listens]


def test_the_next_address_is_tried_when_the_first_refuses() -> None:
    """Of several allowed addresses the one that answers gets the request."""

    async def scenario() -> list[Outcome]:
        port = free_port()
        async with await asyncio.start_server(take, "127.0.0.2", port):
            return await outcomes(lambda host, port: ["127.0.0.3", "127.0.0.2"], Guard(["127.0.0.0/8"]), port, 1)

    assert asyncio.run(scenario()) == [Outcome.SUCCESS]
