"""What a connection to a receiver leaves behind when it ends: nothing that only the garbage collector could free."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send.answers import HEAD_BYTES_MAX
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results

ANSWERS = {
    "endless head": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * HEAD_BYTES_MAX, Outcome.BAD_RESPONSE),
    "garbage": (b"no HTTP at all\r\n\r\n", Outcome.BAD_RESPONSE),
    "refused with a text": (b"HTTP/1.1 500 No\r\nConnection: close\r\n\r\n" + b"x" * 10_000, Outcome.SERVER_ERROR),
    "cut off": (b"HTTP/1.1 200 OK\r\nContent-Le", Outcome.CONNECTION_FAILED),
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """The garbage collector waits, as it does for long in deliver."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("name", ANSWERS)
def test_a_connection_that_ended_is_freed_at_once(name: str) -> None:
    """Connection and parser know each other in a circle; ended, they let go, and of the answer as well."""
    answer, outcome = ANSWERS[name]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def scenario() -> Outcome:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            pools = Pools(Results(), Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            pool.send(NO_TARGET, [(result, REQUEST)])
            return await asyncio.wait_for(result, 30)

    assert asyncio.run(scenario()) == outcome
    assert [each for each in gc.get_objects() if isinstance(each, Connection)] == []
