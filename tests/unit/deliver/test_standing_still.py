"""A process that stood still reads what came meanwhile before it gives a request up."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
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


class Receiver:
    """Takes one request, and answers it, if at all, when it is asked to."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self.asked, self.may_answer, self.has_answered = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, suppress(ConnectionError):
            connection.recv(65_536)
            self.asked.set()
            if self.may_answer.wait(30):
                connection.sendall(OK)
            self.has_answered.set()
            connection.recv(1)

    def close(self) -> None:
        """Let it end."""
        self.may_answer.set()
        self._thread.join(30)
        self._socket.close()


def outcome(loop: Callable[[], asyncio.AbstractEventLoop], stand_still: Callable[[Receiver, Pools], None]) -> Any:
    """What comes of a request that is under way while the loop does something else."""

    async def scenario() -> tuple[object, Failure | None]:
        receiver, sink = Receiver(), Told()
        pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
        pools.of(parse_receiver_url(receiver.url)).send(NO_TARGET, [(1, request(1))])
        await asyncio.to_thread(receiver.asked.wait, 30)
        for _ in range(2):
            pools.sweep(60)
        try:
            stand_still(receiver, pools)
            return await sink.next()
        finally:
            pools.close()
            await asyncio.to_thread(receiver.close)

    return run(loop, scenario())


def test_an_answer_that_came_while_all_stood_still_counts(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """It waits in the socket, and the request is not sent again."""

    def stand_still(receiver: Receiver, pools: Pools) -> None:
        receiver.may_answer.set()
        receiver.has_answered.wait(30)
        time.sleep(2 * TIMEOUT_SECONDS)
        pools.sweep(TIMEOUT_SECONDS)

    assert outcome(loop, stand_still) == (1, None)


def test_who_is_late_each_time_waits_for_no_answer_for_ever(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The second sweep ends what has had its time."""

    def stand_still(receiver: Receiver, pools: Pools) -> None:
        for _ in range(2):
            time.sleep(2 * TIMEOUT_SECONDS)
            pools.sweep(TIMEOUT_SECONDS)

    token, failure = outcome(loop, stand_still)
    assert token == 1
    assert failure is not None
    assert failure.outcome == Outcome.TIMED_OUT
