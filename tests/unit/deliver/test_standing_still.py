"""A process that stood still reads what came meanwhile before it gives a request up."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send import pool as pool_module
from hookline.deliver.send.pool import Pools
from hookline.deliver.send.port import Failure
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from hookline.outcomes.outcome import Outcome
from tests.unit.deliver.test_egress_sending import NO_TARGET
from tests.unit.deliver.test_resending import LOOPS, OK, Told, request, run

pytestmark = pytest.mark.parametrize("loop", LOOPS)

TIMEOUT_SECONDS = 0.1


@pytest.fixture(autouse=True)
def soon_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no test stands still for long."""
    monkeypatch.setattr(pool_module, "LATE_SECONDS", TIMEOUT_SECONDS)


def outcome(loop: Callable[[], asyncio.AbstractEventLoop], stand_still: Callable[[socket.socket, Pools], None]) -> Any:
    """Return what comes of a request that is under way while the loop does something else; its receiver is a socket."""

    async def scenario() -> tuple[object, Failure | None]:
        sink = Told()
        pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
        with socket.create_server(("127.0.0.1", 0)) as server:
            url = parse_receiver_url(f"http://127.0.0.1:{server.getsockname()[1]}/")
            pools.of(url).send(NO_TARGET, [(1, request(1))])
            receiver, _ = await asyncio.to_thread(server.accept)
        with receiver:
            await asyncio.to_thread(receiver.recv, 65_536)
            for _ in range(2):
                pools.sweep(60)
            stand_still(receiver, pools)
            found = await sink.next()
        pools.close()
        return found

    return run(loop, scenario())


def test_an_answer_that_came_while_all_stood_still_counts(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """It waits in the socket, and the request is not sent again."""

    def stand_still(receiver: socket.socket, pools: Pools) -> None:
        receiver.sendall(OK)
        time.sleep(2 * TIMEOUT_SECONDS)  # the loop stands still for longer than it waits
        pools.sweep(TIMEOUT_SECONDS)

    assert outcome(loop, stand_still) == (1, None)


def test_who_is_late_each_time_waits_for_no_answer_for_ever(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The second sweep ends what has had its time."""

    def stand_still(receiver: socket.socket, pools: Pools) -> None:
        for _ in range(2):
            time.sleep(2 * TIMEOUT_SECONDS)
            pools.sweep(TIMEOUT_SECONDS)

    token, failure = outcome(loop, stand_still)
    assert token == 1
    assert failure is not None
    assert failure.outcome == Outcome.TIMED_OUT
