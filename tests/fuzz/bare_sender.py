"""The sender's side of a connection without a network: requests go out, answers are fed by hand."""

from __future__ import annotations

import asyncio
import socket
import ssl
from time import monotonic
from typing import NamedTuple, cast

from hookline.connections.receiver_url import parse_receiver_url
from hookline.deliver.send.answer_head import HEAD_BYTES_MAX
from hookline.deliver.send.answers import PlainAnswers
from hookline.deliver.send.burst import Burst
from hookline.deliver.send.connection import ANSWER_KEPT_BYTES, Connection
from hookline.deliver.send.dialer import Dialer
from hookline.deliver.send.failure import Failure
from hookline.deliver.send.pool import Pool
from hookline.deliver.send.port import Sink
from hookline.deliver.send.request import Target
from hookline.deliver.send.resolver import Guard, Resolver

ADDRESS = "192.0.2.1"
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
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


class Answers(PlainAnswers):
    """Plain answers that the test fetches."""

    def tell_soon(self) -> None:
        """There is no turn to wait for the end of."""


class BareSender(Pool, Sink):
    """A pool of one connection, and the sink of its results by token."""

    def __init__(self) -> None:
        resolver = Resolver(Guard(()), lambda host, port: [])
        super().__init__(parse_receiver_url("http://h/"), self, Dialer(resolver), NO_TLS, set(), Answers(self))
        self.results: list[tuple[object, Result]] = []

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result."""
        told = None
        if failure is not None:
            told = (failure.outcome.value, failure.status, failure.error, failure.retry_after)
        self.results.append((token, Result(result, told)))

    def send_afresh(self, token: object, burst: Burst, request: bytes) -> None:
        """Note that the request is to be sent again on another connection."""
        self.results.append((token, Result(-1)))

    def exchange(self, answers: list[list[bytes]], ending: str) -> list[Result]:
        """One request per answer (a list of pieces), as long as the connection is kept; what each came to."""
        self.results.clear()
        connection, transport, asked = Connection(self), Socket(), 0
        connection.checked_address = ADDRESS
        connection.begin(0, Burst(NO_TARGET, 1.0), b"POST / HTTP/1.1\r\n\r\n")
        connection.connection_made(transport)
        for pieces in answers:
            if asked:
                if not self.idle:
                    break
                connection.idle_since = monotonic()
                self.send(NO_TARGET, [(asked, b"POST / HTTP/1.1\r\n\r\n")])
            asked += 1
            for piece in pieces:
                if not transport.closed:
                    connection.data_received(piece)
                    self.answers.tell()
                    assert len(getattr(connection, "_head", b"")) <= HEAD_BYTES_MAX + max(map(len, pieces))
                    assert len(getattr(connection, "_answer", b"")) <= ANSWER_KEPT_BYTES
        if not transport.closed:
            if ending == "late":
                connection.expire()
            connection.connection_lost(ConnectionResetError() if ending == "reset" else None)
        else:
            connection.connection_lost(None)
        assert len(self) == 0
        assert not self.idle
        assert [token for token, _ in self.results] == list(range(max(1, asked))), "not one result per request"
        return [result for _, result in self.results]
