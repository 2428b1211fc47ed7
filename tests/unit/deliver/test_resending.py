"""When a request is sent again unseen: only when the receiver provably could not have taken it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.pool import Pool, Pools
from hookline.deliver.send.port import Failure, Sink
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from tests.service.deliver.certificates import Authority
from tests.unit.deliver.test_egress_sending import NO_TARGET

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
EVENTS = 250


class Told(Sink):
    """Passes on what each request came to: None for a success."""

    def __init__(self) -> None:
        self.results: asyncio.Queue[tuple[object, Failure | None]] = asyncio.Queue()

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result."""
        self.results.put_nowait((token, failure))

    async def next(self) -> tuple[object, Failure | None]:
        """Wait for the next result."""
        return await asyncio.wait_for(self.results.get(), 30)


def request(token: object) -> bytes:
    """A request that says whose it is."""
    return b"POST / HTTP/1.1\r\nHost: h\r\nX-Message-Id: %s\r\nContent-Length: 0\r\n\r\n" % str(token).encode()


def run(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Any) -> Any:
    """Run in a loop of this kind."""
    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(scenario)


def pools_to(port: int, sink: Sink, ca_file: str | None = None) -> tuple[Pools, Any]:
    """The pool of a receiver at a port of this machine."""
    pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(ca_file))
    return pools, pools.of(parse_receiver_url(f"http{'s' if ca_file else ''}://127.0.0.1:{port}/"))


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("end", [asyncio.StreamWriter.close, reset])
def test_what_a_receiver_took_and_did_not_answer_is_an_attempt(
    loop: Callable[[], asyncio.AbstractEventLoop], end: Callable[[asyncio.StreamWriter], None]
) -> None:
    """A receiver that reads a request on a kept connection and dies gets it once, and the attempt says why."""
    taken: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        taken.append(await reader.readuntil(b"\r\n\r\n"))
        end(writer)

    async def scenario() -> Failure | None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            sink = Told()
            pools, pool = pools_to(server.sockets[0].getsockname()[1], sink)
            pool.send(NO_TARGET, [("first", request("first"))])
            assert await sink.next() == ("first", None)
            pool.send(NO_TARGET, [("second", request("second"))])
            token, failure = await sink.next()
            assert token == "second"
            pools.close()
            return failure

    failure = run(loop, scenario())
    assert taken == [request("first"), request("second")]
    assert failure is not None
    assert failure.outcome is Outcome.CONNECTION_FAILED
    assert "may have been taken" in failure.error


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("is_tls", [False, True])
def test_what_crossed_the_receivers_close_is_sent_again_unseen(
    loop: Callable[[], asyncio.AbstractEventLoop], is_tls: bool, tmp_path: Path
) -> None:
    """The receiver had closed before anything of the request reached it: it leaves on a fresh connection at once."""
    authority = Authority(tmp_path)

    def accept(server: socket.socket) -> socket.socket:
        plain, _ = server.accept()
        plain.settimeout(20)
        return authority.server("127.0.0.1").wrap_socket(plain, server_side=True) if is_tls else plain

    def answer(connection: socket.socket) -> bytes:
        asked = connection.recv(65_536)
        connection.sendall(OK)
        return asked

    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(20)
            thread, sink = asyncio.get_running_loop().run_in_executor, Told()
            pools, pool = pools_to(server.getsockname()[1], sink, str(authority.file) if is_tls else None)
            pool.send(NO_TARGET, [("first", request("first"))])
            first = await thread(None, accept, server)
            await thread(None, answer, first)
            assert await sink.next() == ("first", None)
            await asyncio.sleep(0)  # the answers of a turn are told before their connections are idle
            # Without a turn of the loop in between, and as if it had rested too shortly to be looked at.
            if isinstance(first, ssl.SSLSocket):
                first.setblocking(False)
                with pytest.raises((ssl.SSLWantReadError, OSError)):
                    first.unwrap()
            first.close()
            pool.idle[0].idle_since += 60.0
            pool.send(NO_TARGET, [("second", request("second"))])
            second = await thread(None, accept, server)
            assert await thread(None, answer, second) == request("second")
            assert await sink.next() == ("second", None)
            pools.close()
            second.close()

    run(loop, scenario())


@pytest.mark.parametrize("rest_seconds", [0.0, 0.004, 0.02])
def test_receivers_that_close_idle_connections_get_each_event_once(rest_seconds: float) -> None:
    """Events come as often as the receiver closes, give or take a tenth: what it was sent again, it had not taken, or
    the first time is an attempt that failed."""
    jitter_seconds, random = rest_seconds / 10, Random(0)
    command = [sys.executable, "-m", "tests.unit.deliver.idle_receiver", str(rest_seconds), str(jitter_seconds)]
    receiver = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None
    port = int(receiver.stdout.readline())

    async def send(pool: Pool, sink: Told, number: int) -> bool:
        await asyncio.sleep(max(0.0, random.gauss(rest_seconds, jitter_seconds)))
        pool.send(NO_TARGET, [(number, request(number))])
        _, failure = await sink.next()
        return failure is not None

    async def scenario() -> set[str]:
        sink = Told()
        pools, pool = pools_to(port, sink)
        failed = {str(number) for number in range(EVENTS) if await send(pool, sink, number)}
        pools.close()
        return failed

    failed = run(uvloop.new_event_loop, scenario())
    taken = Counter(receiver.communicate("")[0].split())
    assert [event for event, times in taken.items() if times > 1] == []
    assert {str(number) for number in range(EVENTS)} - taken.keys() <= failed
    assert len(failed) <= EVENTS / 20, "hardly any is to fail: most closes are seen before, or leave a proof"
