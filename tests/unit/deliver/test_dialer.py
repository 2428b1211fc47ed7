"""Names with several addresses: dead ones cost little, are remembered, and healthy ones share."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hookline.bench.service import free_port
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import connector
from hookline.deliver.send.connector import ASKED_LAST_SECONDS, Dialer
from hookline.deliver.send.pool import Exchanges, Pools
from hookline.deliver.send.request import request_of
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST, Results, take

LIVE, DEAD = "127.0.0.9", ["127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"]
TIMEOUT_SECONDS = 5.0


@contextmanager
def no_answers(addresses: list[str], port: int) -> Iterator[None]:
    """Addresses at which nothing answers: their system drops what comes, as a full queue does."""
    with ExitStack() as stack:
        for address in addresses:
            stack.enter_context(socket.create_server((address, port), backlog=0))
            filler = stack.enter_context(socket.socket())
            filler.connect((address, port))
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((address, port))
        yield


def resolver(addresses: list[str]) -> Resolver:
    """A resolver of a name with these addresses."""
    return Resolver(Guard(["127.0.0.0/8"], lambda address: False), lambda host, port: addresses)


async def exchange(pools: Pools, port: int) -> Outcome:
    """Send one request to the name; end it when its time is over, as the sender's beat does."""
    result: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    pool = pools.of(parse_receiver_url(f"http://several.example:{port}/"))
    pool.send(NO_TARGET, [(result, REQUEST)])
    while not result.done():
        await asyncio.wait((result,), timeout=0.05)
        pools.sweep(TIMEOUT_SECONDS)
    return result.result()


def test_four_dead_addresses_before_a_live_one_cost_one_time_limit_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The event is delivered at its first attempt, and the next connections ask the live one first."""
    port = free_port()

    async def scenario() -> list[Outcome]:
        async with await asyncio.start_server(take, LIVE, port):
            pools = Pools(Results(), resolver([*DEAD, LIVE]), tls_context(None))
            found = [await exchange(pools, port) for _ in range(30)]  # in any order: each dead one is asked by then
            monkeypatch.setattr(connector, "STAGGER_SECONDS", 10 * TIMEOUT_SECONDS)  # who asks a dead one waits for it
            found += [await exchange(pools, port) for _ in range(10)]
            pools.close()
            return found

    with no_answers(DEAD, port):
        found = asyncio.run(scenario())
    assert found == [Outcome.SUCCESS] * 40, "the dead ones are not remembered"


def test_a_notice_finds_the_address_that_lives() -> None:
    """Control's own requests ask the other addresses of a name too."""
    port = free_port()

    async def scenario() -> Outcome:
        async with await asyncio.start_server(take, LIVE, port):
            exchanges = Exchanges(resolver([*DEAD, LIVE]), tls_context(None), TIMEOUT_SECONDS)
            url = parse_receiver_url(f"http://several.example:{port}/")
            return (await exchanges.send(url, request_of(url, {}, b"{}"))).outcome

    assert asyncio.run(scenario()) is Outcome.SUCCESS


def test_healthy_addresses_share() -> None:
    """Of forty connections each of two addresses gets some."""
    asked = Counter[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked[writer.get_extra_info("sockname")[0]] += 1
        await take(reader, writer)

    async def scenario() -> None:
        port = free_port()
        async with await asyncio.start_server(serve, ["127.0.0.2", LIVE], port):
            pools = Pools(Results(), resolver(["127.0.0.2", LIVE]), tls_context(None))
            for _ in range(40):
                assert await exchange(pools, port) is Outcome.SUCCESS
            pools.close()

    asyncio.run(scenario())
    assert asked.keys() == {"127.0.0.2", LIVE}


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_dead_address_is_asked_last_for_a_while_and_then_by_one() -> None:
    """After that time a single connection asks it first, to see whether it is back."""
    clock, addresses = Clock(), ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
    dialer = Dialer(resolver(addresses), clock)
    dialer.was_dead("127.0.0.2", 80)
    assert {dialer.in_order(addresses, 80)[-1] for _ in range(20)} == {"127.0.0.2"}
    assert {dialer.in_order(addresses, 81)[-1] for _ in range(50)} == set(addresses), "another port, another receiver"
    clock.now = ASKED_LAST_SECONDS
    assert dialer.in_order(addresses, 80)[0] == "127.0.0.2"
    assert {dialer.in_order(addresses, 80)[-1] for _ in range(20)} == {"127.0.0.2"}


def test_families_take_turns_and_the_systems_choice_begins() -> None:
    """As in RFC 8305 section 4: a family that leads nowhere costs one step, not all of its addresses."""
    addresses = ["2606:4700::1", "2606:4700::2", "1.1.1.1", "1.0.0.1"]
    dialer = Dialer(resolver(addresses))
    for _ in range(20):
        assert [":" in each for each in dialer.in_order(addresses, 80)] == [True, False, True, False]


@pytest.mark.parametrize("addresses", [["127.0.0.2"], ["127.0.0.2", "127.0.0.3"]])
def test_when_all_refuse_the_attempt_says_so(addresses: list[str]) -> None:
    """Nothing listens anywhere: connection_failed, at once."""

    async def scenario() -> Outcome:
        pools = Pools(Results(), resolver(addresses), tls_context(None))
        return await exchange(pools, free_port())

    assert asyncio.run(scenario()) is Outcome.CONNECTION_FAILED


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", Outcome.SUCCESS),
        (b"HTTP/1.1 103 Soon\n\nHTTP/1.1 204\n\n", Outcome.SUCCESS),
        (b"HTTP/1.1 200 OK\r\n" + b"Set-Cookie: a=b\r\n" * 2_400 + b"\r\n", Outcome.SUCCESS),
        (b"HTTP/1.1 200 OK\r\n" + b"Set-Cookie: a=b\r\n" * 4_000 + b"\r\n", Outcome.BAD_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, Outcome.BAD_RESPONSE),
        (b"\n\n", Outcome.CONNECTION_FAILED),
        (b"HTTP/1.1 200 OK\n", Outcome.CONNECTION_FAILED),
    ],
)
def test_a_notice_takes_the_answers_that_events_take(answer: bytes, outcome: Outcome) -> None:
    """Heads up to 64 KB, and lines that end with a bare LF."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(answer)
        writer.close()

    async def scenario() -> Outcome:
        async with await asyncio.start_server(serve, LIVE, 0) as server:
            exchanges = Exchanges(resolver([LIVE]), tls_context(None), TIMEOUT_SECONDS)
            url = parse_receiver_url(f"http://{LIVE}:{server.sockets[0].getsockname()[1]}/")
            return (await exchanges.send(url, request_of(url, {}, b"{}"))).outcome

    assert asyncio.run(scenario()) is outcome
