"""Which connections take another request: those that rest for less than a common server's keep-alive time."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.connection import REUSE_SECONDS_MAX
from hookline.deliver.egress import Guard, Resolver
from hookline.deliver.failure import Failure
from hookline.deliver.pool import Pools, tls_context
from hookline.deliver.sink import Sink
from hookline.deliver.target import Target
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CONNECTIONS = 3


class Answered(Sink):
    """Passes on what was answered."""

    def __init__(self) -> None:
        self.tokens: asyncio.Queue[object] = asyncio.Queue()

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take a success."""
        assert failure is None
        self.tokens.put_nowait(token)


async def take(queue: asyncio.Queue[Any], count: int) -> list[Any]:
    """The next so many of a queue."""
    async with asyncio.timeout(30):
        return [await queue.get() for _ in range(count)]


@pytest.mark.parametrize("too_old", [0, 1, CONNECTIONS])
def test_a_connection_that_rested_too_long_is_closed_and_not_used(too_old: int) -> None:
    """The next burst leaves on the others, and on new ones where they are too few."""
    asked: list[int] = []
    closed: asyncio.Queue[int] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(asked)
        asked.append(0)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                asked[number] += 1
                writer.write(OK)
        except asyncio.IncompleteReadError:
            closed.put_nowait(number)
            writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            sink = Answered()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            burst = [(str(number), REQUEST) for number in range(CONNECTIONS)]
            pool.send(NO_TARGET, burst)
            await take(sink.tokens, CONNECTIONS)
            assert asked == [1] * CONNECTIONS
            for connection in list(pool.idle)[:too_old]:
                connection.idle_since = monotonic() - REUSE_SECONDS_MAX
            pool.send(NO_TARGET, burst)
            assert len(pool) == CONNECTIONS
            await take(sink.tokens, CONNECTIONS)
            await take(closed, too_old)
            assert sorted(asked) == [1] * (2 * too_old) + [2] * (CONNECTIONS - too_old)
            pools.close()

    asyncio.run(scenario())
