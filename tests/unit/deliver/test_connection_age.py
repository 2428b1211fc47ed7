"""Connections grow old, so that a receiver that moves is followed however busy it is."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from time import monotonic

import pytest

from hookline.bench.service import free_port
from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import pool as pool_module
from hookline.deliver.send.connection import AGES_FROM
from hookline.deliver.send.pool import Pool, Pools
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from tests.unit.deliver.test_egress_sending import NO_TARGET
from tests.unit.deliver.test_resending import OK, Told, request

OLD, NEW = "127.0.0.2", "127.0.0.3"
SECONDS_MAX = 60.0


class Moving:
    """A receiver at two addresses, one of which its name has."""

    def __init__(self) -> None:
        self.address = OLD
        self.taken: dict[str, Counter[bytes]] = {OLD: Counter(), NEW: Counter()}

    def look_up(self, host: str, port: int) -> list[str]:
        """Be the name server."""
        return [self.address]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer at either address."""
        try:
            while asked := await reader.readuntil(b"\r\n\r\n"):
                self.taken[writer.get_extra_info("sockname")[0]][asked] += 1
                writer.write(OK)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def send_until_followed(moving: Moving, pools: Pools, pool: Pool, sink: Told) -> int:
    """Send one request after the other without a pause; return how many, once the new address was sent some."""
    began = monotonic()
    for number in itertools.count():
        assert monotonic() - began < SECONDS_MAX, "the receiver was not followed"
        pool.send(NO_TARGET, [(number, request(number))])
        assert await sink.next() == (number, None)
        if number == 20:
            moving.address = NEW
        pools.sweep(5.0)
        if moving.taken[NEW].total() > 20:
            return number + 1
    raise AssertionError


@pytest.mark.parametrize("by", ["age", "look"])
def test_a_receiver_that_moves_is_followed_without_a_loss(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any rate of events: by the connection's age, or, where that is long, by the next look at the name; each event
    arrives once, although the old address goes on answering."""
    moving, clock = Moving(), itertools.count(0, 60)
    if by == "look":
        monkeypatch.setattr(pool_module, "LOOK_AGAIN_SECONDS", 0.1)
        monkeypatch.setattr(pool_module, "LEAVING_SECONDS", 0.1)

    async def scenario() -> int:
        port = free_port()
        async with await asyncio.start_server(moving.serve, [OLD, NEW], port):
            sink = Told()
            resolver = Resolver(Guard(["127.0.0.0/8"], lambda address: False), moving.look_up, lambda: next(clock))
            pools = Pools(sink, resolver, tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://moving.example:{port}/"))
            pool.age_seconds = 0.3 if by == "age" else 1e9
            sent = await send_until_followed(moving, pools, pool, sink)
            pools.close()
            return sent

    sent = asyncio.run(scenario())
    taken = moving.taken[OLD] + moving.taken[NEW]
    assert (len(taken), taken.total()) == (sent, sent)


def test_connections_end_by_age_not_all_at_once_and_idle_ones_too() -> None:
    """Ages differ; one that rests is closed by its age although it rested but shortly."""
    count, moving = 40, Moving()

    async def scenario() -> None:
        async with await asyncio.start_server(moving.serve, OLD, 0) as server:
            sink = Told()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"], lambda address: False)), tls_context(None), 60.0)
            pool = pools.of(parse_receiver_url(f"http://{OLD}:{server.sockets[0].getsockname()[1]}/"))
            made = monotonic()
            pool.send(NO_TARGET, [(number, request(number)) for number in range(count)])
            for _ in range(count):
                await sink.next()
            await asyncio.sleep(0)
            ages = sorted(connection.old_at - made for connection in pool.idle)
            assert len(set(ages)) == count
            assert ages[0] >= AGES_FROM * 60.0
            assert ages[-1] <= 60.0 + (monotonic() - made)
            for connection in list(pool.idle)[:3]:
                connection.old_at = monotonic()
            pools.sweep(5.0)
            assert len(pool) == count - 3
            pools.close()

    asyncio.run(scenario())


def test_a_pool_at_rest_is_swept_once_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a request under way each time; what is due at rest is done within a round, however seldom sweeps are."""
    moving, seconds = Moving(), [float(int(monotonic()))]  # a sum of few bits: a part of a round stays that part
    monkeypatch.setattr(pool_module, "monotonic", lambda: seconds[0])

    async def scenario() -> None:
        async with await asyncio.start_server(moving.serve, OLD, 0) as server:
            sink = Told()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"], lambda address: False)), tls_context(None), 60.0)
            url = parse_receiver_url(f"http://{OLD}:{server.sockets[0].getsockname()[1]}/")
            pool, *others = (pools.of(url, ("", str(number))) for number in range(32))
            swept: list[float] = []
            sweep = pool.sweep

            def counted(now: float, timeout: float) -> None:
                swept.append(now)
                sweep(now, timeout)

            def sweeps_in(rounds: float, count: int) -> int:
                before = len(swept)
                for _ in range(count):
                    seconds[0] += rounds * pool_module.ROUND_SECONDS / count
                    pools.sweep(60.0)
                return len(swept) - before

            pool.sweep = counted  # type: ignore[method-assign,assignment]
            pool.send(NO_TARGET, [(1, request(1))])
            assert sweeps_in(0.1, 5) == 5
            for number, other in enumerate(others):
                other.send(NO_TARGET, [(number, request(number))])
            for _ in range(1 + len(others)):
                await sink.next()
            await asyncio.sleep(0)
            pools.sweep(60.0)
            assert sweeps_in(10, 160) in range(9, 12)
            assert sweeps_in(2, 2) == 2
            pool.idle[0].old_at = seconds[0]
            assert sweeps_in(1, 1) == 1
            assert len(pool) == 0
            pools.close()

    asyncio.run(scenario())
