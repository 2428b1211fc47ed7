"""Connections to servers that others name, with a bound on what they may answer.

libpq keeps all that comes until a statement is done, whatever it is: rows, one row of 1 GB, notices, parameters. The
system counts the bytes of a TCP connection. It is asked each time something came, before libpq reads it, also while the
session begins. Only Linux is asked: elsewhere nothing is counted, and nothing is refused.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Generator
from time import thread_time
from typing import Any, TypeVar

import psycopg

from hookline.database.postgres.sessions import RetryingConnection

START_BYTES_MAX = 1024 * 1024
"""Of a session's start, with the certificates of TLS: a server says a few KB."""
ANSWER_BYTES_MAX = 16 * 1024 * 1024
"""Of one statement. The largest answer is that of a schema's columns: with 508 tables of 300 columns, all with the
longest names and types that there are, it has 14 MB. Not more than needed: values of three bytes become twenty times as
large in Python."""
RECEIVED_BYTES_MAX = 128 * 1024 * 1024
"""Of one connection: libpq never forgets a parameter that it was told of."""
RENEWAL_BYTES = RECEIVED_BYTES_MAX // 2
"""A connection on which more came is not used for a next write."""
READING_SECONDS_MAX = 5.0
"""Of computing time, for what comes to one statement: with each new parameter libpq looks through all it knows."""
_COUNT_OFFSET = 128
"""Of ``tcpi_bytes_received`` in Linux's ``struct tcp_info``, which only ever grows at its end."""
_COUNT_BYTES = 8

ResultT = TypeVar("ResultT")


class AnswerTooLarge(psycopg.OperationalError):
    """The server answers more than anything that it is asked can come to."""


class BoundedConnection(RetryingConnection):
    """Ends when its server answers more than it may, and raises AnswerTooLarge."""

    def __init__(self, pgconn: psycopg.pq.abc.PGconn) -> None:
        super().__init__(pgconn)
        self.add_notify_handler(_forget)  # without one each is kept for ever

    @property
    def is_worn(self) -> bool:
        """Return whether so much came that another connection should take its place."""
        return not self.closed and received_bytes(self.fileno()) > RENEWAL_BYTES

    def wait(self, gen: Generator[Any, Any, ResultT], *arguments: Any, **options: Any) -> ResultT:
        """As the one above, with the bound."""
        if self.closed:
            return super().wait(gen, *arguments, **options)
        number = self.fileno()
        before, began = received_bytes(number), thread_time()

        def check(_: object) -> None:
            received = received_bytes(number)
            if received - before > ANSWER_BYTES_MAX:
                said = f"{_mb(ANSWER_BYTES_MAX)} to one statement"
            elif received > RECEIVED_BYTES_MAX:
                said = f"{_mb(RECEIVED_BYTES_MAX)} to the statements of one write"
            elif thread_time() - began > READING_SECONDS_MAX:
                said = f"can be read within {READING_SECONDS_MAX:g} s of computing time"
            else:
                return
            self.close()
            raise AnswerTooLarge(f"answers more than {said}")

        return super().wait(_checked(gen, check), *arguments, **options)

    @classmethod
    def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Any]:
        """Connect as psycopg does, with the bound: nothing that is public lets anybody look while it waits."""

        def check(wanted: tuple[int, Any]) -> None:
            if received_bytes(wanted[0]) > START_BYTES_MAX:
                raise AnswerTooLarge(f"answers more than {_mb(START_BYTES_MAX)} before a session begins")

        return _checked(super()._connect_gen(conninfo), check)


def received_bytes(number: int) -> int:
    """Return how many bytes have come on a socket, given by its number, since it was connected; 0 where that is not
    known."""
    if sys.platform != "linux":
        return 0
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, fileno=os.dup(number)) as own:
            info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _COUNT_OFFSET + _COUNT_BYTES)
    except OSError:
        return 0
    return int.from_bytes(info[_COUNT_OFFSET:], sys.byteorder)  # 0 for an old system that says less


def _checked(gen: Generator[Any, Any, ResultT], check: Callable[[Any], None]) -> Generator[Any, Any, ResultT]:
    """Run a generator of psycopg; before it goes on, call ``check`` with what it waited for."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            check(wanted)
            wanted = gen.send(ready)
    except StopIteration as done:
        result: ResultT = done.value
        return result


def _mb(count: int) -> str:
    return f"{count // (1024 * 1024)} MB"


def _forget(_: psycopg.Notify) -> None:
    """Do nothing with a notification that nobody asked for."""
