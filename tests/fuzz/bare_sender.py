"""The sender's side of a connection without a network: requests go out, answers are fed by hand."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic
from typing import NamedTuple, cast

from hookline.connections.receiver_url import ReceiverUrl, parse_receiver_url
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.answers import HEAD_BYTES_MAX, PlainAnswers
from hookline.deliver.send.connection import ANSWER_KEPT_BYTES, Connection
from hookline.deliver.send.connector import Connector
from hookline.deliver.send.pool import Pool
from hookline.deliver.send.port import Failure, Sink

ADDRESS = "192.0.2.1"
REQUEST = b"POST / HTTP/1.1\r\n\r\n"
NO_TARGET = cast(Target, object())
"""The pool only hands it back."""


class Result(NamedTuple):
    """What the sink was told of one request; ``number`` as in ``outcome.to_number``, -1 when it is to be sent again."""

    number: int
    failure: tuple[str, int | None, str, bytes | None] | None = None


SILENT, _OTHER_END = socket.socketpair()
"""What a resting connection is asked whether anything has come: here it comes through the protocol alone."""


class Socket(asyncio.Transport):
    """A transport to the checked address."""

    def __init__(self) -> None:
        super().__init__({"peername": (ADDRESS, 80), "socket": SILENT})
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Requests go nowhere."""
        assert not self.closed, "sent on a closed connection"

    def abort(self) -> None:
        """The sender is done with the connection."""
        self.closed = True

    def is_closing(self) -> bool:
        """Whether it was aborted."""
        return self.closed


class ByHand:
    """Connects nothing, and notes for which connections that was asked."""

    def __init__(self) -> None:
        self.asked: list[Connection] = []

    def begin(self, connection: Connection, url: ReceiverUrl, certificate: object) -> None:
        """Note a connection."""
        self.asked.append(connection)


class BareSender(Sink):
    """A pool of one connection, and the sink of its results by token."""

    def __init__(self) -> None:
        self._connector = ByHand()
        self._answers = PlainAnswers[Connection](self, lambda tell: None)  # the test fetches them
        connector = cast(Connector, self._connector)
        self._pool = Pool(parse_receiver_url("http://h/"), self, connector, answers=self._answers)
        self.results: list[tuple[object, Result]] = []

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result."""
        told = None
        if failure is not None:
            told = (failure.outcome.value, failure.status, failure.error, failure.retry_after)
        self.results.append((token, Result(result, told)))

    def exchange(self, answers: list[list[bytes]], ending: str) -> list[Result]:
        """One request per answer (a list of pieces), as long as the connection is kept; what each came to."""
        self.results.clear()
        self._connector.asked.clear()
        pool, transport, asked = self._pool, Socket(), 0
        pool.send(NO_TARGET, [(0, REQUEST)])
        (connection,) = self._connector.asked
        connection.checked_address = connection.peer_address = ADDRESS
        connection.connection_made(transport)
        for pieces in answers:
            if asked:
                if not pool.idle:
                    break
                connection.idle_since = monotonic()
                pool.send(NO_TARGET, [(asked, REQUEST)])
            asked += 1
            for piece in pieces:
                if not transport.closed:
                    connection.data_received(piece)
                    self._answers.hand_over()
                    assert len(getattr(connection, "_head", b"")) <= HEAD_BYTES_MAX + max(map(len, pieces))
                    assert len(getattr(connection, "_answer", b"")) <= ANSWER_KEPT_BYTES
        if not transport.closed:
            if ending == "late":
                connection.expire()
            connection.connection_lost(ConnectionResetError() if ending == "reset" else None)
        else:
            connection.connection_lost(None)
        for again in self._connector.asked[1:]:
            self.results.append((again.token, Result(-1)))
            again.close()
        assert len(pool) == 0
        assert not pool.idle
        assert [token for token, _ in self.results] == list(range(max(1, asked))), "not one result per request"
        return [result for _, result in self.results]
