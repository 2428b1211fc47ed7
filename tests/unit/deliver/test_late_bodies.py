"""Answers whose body comes after the head, or never: the head decides, and what waits for bodies is bounded."""

from __future__ import annotations

from time import monotonic
from typing import cast

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.answers import PlainAnswers
from hookline.deliver.send.connection import Connection
from hookline.deliver.send.connector import Connector
from hookline.deliver.send.pool import UNREAD_FIRST, UNREAD_MAX, Pool
from hookline.deliver.send.port import Failure, Sink
from tests.fuzz.bare_sender import ADDRESS, NO_TARGET, REQUEST, ByHand, Socket

HEAD, BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", b"ok"
TIMEOUT_SECONDS = 5.0


class Receiver(Sink):
    """A receiver's side of a pool, by hand, and the statuses that the sink was told."""

    def __init__(self) -> None:
        self.connector = ByHand()
        self.statuses: list[int] = []
        answers = PlainAnswers[Connection](self, lambda tell: None)
        self.pool = Pool(parse_receiver_url("http://h/"), self, cast(Connector, self.connector), answers=answers)

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take any answer."""
        self.statuses.append(result)

    def answer_heads(self, count: int) -> list[Connection]:
        """Take so many requests and answer each with the head alone; return the connections that stay open."""
        self.connector.asked.clear()
        self.pool.send(NO_TARGET, [(number, REQUEST) for number in range(count)])
        for connection in self.connector.asked:
            connection.checked_address = connection.peer_address = ADDRESS
            connection.connection_made(Socket())
        for connection in [each for each in self.pool._connections if each.token is not None]:
            connection.data_received(HEAD)
        return [each for each in self.pool._connections if each.batch is not None]


def test_bodies_that_never_come_keep_few_connections() -> None:
    """Every event is delivered by the head of its answer; only so many connections wait for what does not come."""
    receiver = Receiver()
    for _ in range(3):
        assert len(receiver.answer_heads(UNREAD_FIRST)) == UNREAD_FIRST
        assert len(receiver.pool) == UNREAD_FIRST
    assert receiver.statuses == [200] * (3 * UNREAD_FIRST)
    receiver.pool.close()


def test_connections_whose_bodies_come_late_are_used_again() -> None:
    """With each body there is room for one more: the connections of a burst all stay after a few, up to a bound."""
    receiver = Receiver()
    kept = UNREAD_FIRST
    while kept < UNREAD_MAX:
        for connection in receiver.answer_heads(UNREAD_MAX):
            connection.data_received(BODY)
        assert len(receiver.pool.idle) == len(receiver.pool) == kept
        kept *= 2
    assert len(receiver.answer_heads(2 * UNREAD_MAX)) == UNREAD_MAX
    assert set(receiver.statuses) == {200}
    receiver.pool.close()


def test_a_body_that_does_not_come_in_time_takes_the_room_back() -> None:
    """A receiver that was well and is sick now holds no more than one that always was."""
    receiver = Receiver()
    for connection in receiver.answer_heads(UNREAD_FIRST):
        connection.data_received(BODY)
    unread = receiver.answer_heads(2 * UNREAD_FIRST)
    assert len(unread) == 2 * UNREAD_FIRST
    receiver.pool._end_due(monotonic() + TIMEOUT_SECONDS, monotonic())
    assert len(receiver.pool) == 0
    assert len(receiver.answer_heads(2 * UNREAD_FIRST)) == UNREAD_FIRST
    receiver.pool.close()


def test_what_ended_without_its_body_leaves_its_room_to_others() -> None:
    """A receiver that closes after the head waits for nothing, and neither do we."""
    receiver = Receiver()
    for _ in range(2):
        unread = receiver.answer_heads(UNREAD_FIRST)
        assert len(unread) == UNREAD_FIRST
        for connection in unread:
            connection.connection_lost(None)
    assert len(receiver.pool) == 0
    assert receiver.statuses == [200] * (2 * UNREAD_FIRST)
