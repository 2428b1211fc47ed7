"""Which connections take another request: the one used last for long, others for less than a common server's time."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic
from typing import Any

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send import pool as pool_module
from hookline.deliver.send.connection import REST_SECONDS_MAX, SPARE_REST_SECONDS
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.port import Failure, Sink
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
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
    """The next batch leaves on the others, and on new ones where they are too few."""
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
            batch = [(str(number), REQUEST) for number in range(CONNECTIONS)]
            pool.send(NO_TARGET, batch)
            await take(sink.tokens, CONNECTIONS)
            assert asked == [1] * CONNECTIONS
            for number, connection in enumerate(list(pool.idle)[:too_old]):
                last = number == CONNECTIONS - 1
                connection.idle_since = monotonic() - (REST_SECONDS_MAX if last else SPARE_REST_SECONDS)
            pool.send(NO_TARGET, batch)
            assert len(pool) == CONNECTIONS
            await take(sink.tokens, CONNECTIONS)
            await take(closed, too_old)
            assert sorted(asked) == [1] * (2 * too_old) + [2] * (CONNECTIONS - too_old)
            pools.close()

    asyncio.run(scenario())


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request, until the client ends."""
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def test_of_several_connections_at_rest_the_one_used_last_stays() -> None:
    """A busy moment leaves one; it takes the request of half a minute later."""

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            sink = Answered()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            pool.send(NO_TARGET, [(str(number), REQUEST) for number in range(CONNECTIONS)])
            await take(sink.tokens, CONNECTIONS)
            last = pool.idle[-1]
            for connection in pool.idle:
                connection.idle_since = monotonic() - 30
            pools.sweep(60)
            assert list(pool.idle) == [last]
            pool.send(NO_TARGET, [("next", REQUEST)])
            assert await take(sink.tokens, 1) == ["next"]
            assert list(pool.idle) == [last]
            pools.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("rested", "seconds"), [(1.0, REST_SECONDS_MAX), (10.0, 7.5), (59.0, 44.25), (70.0, REST_SECONDS_MAX)]
)
def test_what_a_receiver_was_seen_to_close_at_rest_is_closed_sooner_from_then_on(
    rested: float, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three quarters of that time, for an hour; one that closes at once has restarted, perhaps."""
    monkeypatch.setattr(pool_module, "LOOK_AGAIN_SECONDS", 0.0)
    closing = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await closing.wait()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            sink = Answered()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            pool.send(NO_TARGET, [("one", REQUEST)])
            await take(sink.tokens, 1)
            pool.idle[0].idle_since = monotonic() - rested
            closing.set()
            async with asyncio.timeout(30):
                while len(pool):  # noqa: ASYNC110 - nothing tells of it
                    await asyncio.sleep(0.005)
            assert pool.rest_seconds == pytest.approx(seconds, abs=0.5)
            pool.note_keep_alive(OK)
            assert pool.rest_seconds == pytest.approx(seconds, abs=0.5)
            pool.note_keep_alive(b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\n\r\n")
            assert pool.rest_seconds == 3.75
            pool.sweep(monotonic() + pool_module.BELIEVED_SECONDS, 60)
            pool.note_keep_alive(OK)
            assert pool.rest_seconds == REST_SECONDS_MAX
            pools.close()

    asyncio.run(scenario())


def test_no_more_connections_rest_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many origins some give theirs up."""
    monkeypatch.setattr(pool_module, "IDLE_MAX", 3)
    monkeypatch.setattr(pool_module, "ROUND_SECONDS", 1e-9)

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            sink = Answered()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            port = server.sockets[0].getsockname()[1]
            each = [pools.of(parse_receiver_url(f"http://127.0.0.1:{port}/"), ("", str(number))) for number in range(8)]
            for number, pool in enumerate(each):
                pool.send(NO_TARGET, [(str(number), REQUEST)])
            await take(sink.tokens, 8)
            for _ in range(3):
                pools.sweep(60)
            assert sum(len(pool.idle) for pool in each) == pools.connections == 3
            pools.close()

    asyncio.run(scenario())


class Statuses(Sink):
    """Passes on each status."""

    def __init__(self) -> None:
        self.statuses: asyncio.Queue[int] = asyncio.Queue()

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take any answer."""
        self.statuses.put_nowait(result)


@pytest.mark.parametrize("late", [OK, b"HTTP/1.1 2", b"\0", b""])
def test_a_late_second_answer_does_not_count_for_the_next_request(late: bytes) -> None:
    """Bytes, or the end, that came while a connection rested and were not read yet: the next request leaves on another
    one, and what it is answered there counts."""

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            loop, sink = asyncio.get_running_loop(), Statuses()
            server.settimeout(20)
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.getsockname()[1]}/"))
            pool.send(NO_TARGET, [("first", REQUEST)])
            first, _ = await loop.run_in_executor(None, server.accept)
            await loop.run_in_executor(None, first.recv, 65_536)
            await loop.run_in_executor(None, first.sendall, OK)
            assert await take(sink.statuses, 1) == [200]
            (connection,) = pool.idle
            connection.idle_since -= 1.0
            # Without a turn of the loop in between: the bytes are in the socket's buffer when the next request leaves.
            first.sendall(late) if late else first.shutdown(socket.SHUT_WR)
            pool.send(NO_TARGET, [("second", REQUEST)])
            second, _ = await loop.run_in_executor(None, server.accept)
            await loop.run_in_executor(None, second.recv, 65_536)
            await loop.run_in_executor(None, second.sendall, b"HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
            assert await take(sink.statuses, 1) == [422]
            assert len(pool) == 1
            pools.close()
            first.close()
            second.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"", REST_SECONDS_MAX),
        (b"Keep-Alive: timeout=1\r\n", 0.75),
        (b"keep-alive: max=9, timeout=2\r\n", 1.5),
        (b"Keep-Alive: timeout=0, max=1\r\n", 0.0),
        (b"Keep-Alive: timeout=40\r\n", 30.0),
        (b"Keep-Alive: timeout=600\r\n", REST_SECONDS_MAX),
        (b"Connection: keep-alive\r\n", REST_SECONDS_MAX),
    ],
)
@pytest.mark.parametrize("status", [200, 503])
def test_a_receiver_that_says_how_long_it_keeps_connections_is_believed(
    line: bytes, seconds: float, status: int
) -> None:
    """Those that rested for three quarters of its time take no other request: none crosses its close."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d .\r\n%bContent-Length: 0\r\n\r\n" % (status, line))
        await reader.read()
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            sink = Statuses()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            pool.send(NO_TARGET, [("one", REQUEST)])
            assert await take(sink.statuses, 1) == [status]
            assert pool.rest_seconds == seconds
            pools.close()

    asyncio.run(scenario())
