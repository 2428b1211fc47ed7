"""Ordinary answers are recognised to the byte, and told once per turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import cast

import pytest

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.answers import PlainAnswers, RequestBatch, plain_success
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.connector import Connector, Dialer
from hookline.deliver.send.pool import PLAIN_ANSWER_BYTES_MAX, Pool, Pools
from hookline.deliver.send.port import Failure, Sink, Successes
from hookline.deliver.send.resolver import Guard, Resolver
from hookline.deliver.send.tls import tls_context
from tests.unit.deliver.test_egress_sending import NO_TARGET, REQUEST

CONNECTOR = Connector(Dialer(Resolver(Guard(()))), tls_context(None))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


class Turns(Sink):
    """Tokens of the successes, turn by turn."""

    def __init__(self) -> None:
        self.turns: list[list[object]] = []
        self.all_there = asyncio.Event()

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Nothing fails here."""
        raise AssertionError(failure)

    def succeeded(self, successes: Iterable[Successes], answered_seconds: float | None = None) -> None:
        """Take the successes of one turn."""
        self.turns.append([token for tokens, _, _, _ in successes for token in tokens])
        self.all_there.set()


def exchange(close_before_told: bool) -> list[list[object]]:
    """Answer three requests to one receiver within one turn, the last one twice; return what the sink was told."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async def scenario() -> list[list[object]]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            sink = Turns()
            pools = Pools(sink, Resolver(Guard(["127.0.0.0/8"])), tls_context(None))
            pool = pools.of(parse_receiver_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"))
            pool.send(NO_TARGET, [("a", REQUEST), ("b", REQUEST), ("c", REQUEST)])
            connections = sorted(pool._connections, key=lambda each: str(each.token))
            await asyncio.gather(*[each.task for each in connections if each.task is not None])
            for connection in connections:
                connection.data_received(OK % 0)
            assert sink.turns == []
            assert not pool.idle, "a request would follow an answer that is not noted yet"
            connections[2].data_received(OK % 0)  # more than was asked for: it is not trusted any more
            if not close_before_told:
                await asyncio.wait_for(sink.all_there.wait(), 30)
                assert list(pool.idle) == connections[:2]
            pools.close()
            return sink.turns

    return asyncio.run(scenario())


def test_a_connection_that_ends_with_its_answer_is_not_kept() -> None:
    """As over TLS, where it is lost only in a later turn: what is sent on it would count as perhaps taken."""
    sink = Turns()
    answers = PlainAnswers[Connection](sink, lambda tell: None)
    pool = Pool(parse_receiver_url("http://a/"), sink, CONNECTOR, set(), answers)
    made = [Connection(pool) for _ in range(2)]
    for token, connection in zip("ab", made, strict=True):
        connection.begin(token, RequestBatch(NO_TARGET, 1.0), REQUEST)
        connection.data_received(OK % 0)
    made[0].eof_received()
    answers.hand_over()
    assert list(pool.idle) == made[1:]
    assert sink.turns == [["a", "b"]]


@pytest.mark.parametrize("close_before_told", [False, True])
def test_the_answers_of_one_turn_are_told_together(close_before_told: bool) -> None:
    """Once, when the turn is over; what was answered is told although everything is closed before."""
    turns = exchange(close_before_told)
    assert [sorted(map(str, turn)) for turn in turns] == [["a", "b", "c"]]


def test_a_run_is_of_requests_that_were_sent_together_and_answered_alike() -> None:
    """Another status, another receiver and another moment begin another run; each token comes once."""
    told: list[Successes] = []

    class Runs(Turns):
        def succeeded(self, successes: Iterable[Successes], answered_seconds: float | None = None) -> None:
            told.extend(successes)

    sink = Runs()
    answers = PlainAnswers[Connection](sink, lambda tell: None)

    def connection(pool: Pool, token: str, batch: RequestBatch) -> Connection:
        made = Connection(pool)
        made.begin(token, batch, REQUEST)
        return made

    first, second = (Pool(parse_receiver_url(f"http://{host}/"), sink, CONNECTOR, set(), answers) for host in "ab")
    one, other = cast(Target, object()), cast(Target, object())
    created = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n"
    batch, elsewhere, later = RequestBatch(one, 1.0), RequestBatch(other, 1.0), RequestBatch(one, 2.0)
    asked = [
        (first, "a", batch, OK % 0),
        (first, "b", batch, OK % 0),
        (first, "c", batch, created),
        (first, "d", batch, OK % 0),
        (second, "e", elsewhere, OK % 0),
        (first, "f", later, OK % 0),
        (first, "g", later, (OK % 1) + b"!"),
    ]
    for pool, token, left_with, answer in asked:
        connection(pool, token, left_with).data_received(answer)
    answers.hand_over()
    assert [(tokens, target, status) for tokens, target, status, _ in told] == [
        (["a", "b"], one, 200),
        (["c"], one, 201),
        (["d"], one, 200),
        (["e"], other, 200),
        (["f", "g"], one, 200),
    ]
    assert (len(first.idle), len(second.idle)) == (6, 1)


def test_only_short_answers_are_remembered() -> None:
    """An ordinary answer beyond the bound is the parser's, so that no origin takes much memory."""
    pool = Pool(parse_receiver_url("http://h/"), Turns(), CONNECTOR)
    short, long = OK % 2 + b"ok", OK % PLAIN_ANSWER_BYTES_MAX + b"x" * PLAIN_ANSWER_BYTES_MAX
    assert pool.is_plain(short)
    assert not pool.is_plain(long)
    assert (pool.plain_answer, pool.plain_answer_status) == (short, 200)
    assert plain_success(long) == 200
