"""Receivers as one meets them: each a function of a bare connection, and what should become of its events.

Every behaviour is of raw bytes, so that nothing between makes it well. ``taken`` of a visit is what a receiver has
processed, whatever it answered: what is taken more often than once was doubled.
"""

from __future__ import annotations

import itertools
import random
import socket
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Literal, NamedTuple

from tests.service.deliver.hostile import Connection, reset_in_head, reset_on_accept

Ending = Literal["delivered", "retrying", "failed", "any"]
"""``any``: the answer is neither a clear yes nor a clear no, and the table says what became of it."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
FOR_SECONDS = 3.0
"""How long those that send everybody away do so."""


class Taken(dict[str, int]):
    """How often a receiver has processed each event."""

    def __call__(self, connection: Connection) -> str:
        """Read a request and process it."""
        id = connection.read_request()
        self[id] = self.get(id, 0) + 1
        return id


Behave = Callable[[Connection, Taken], None]


class Odd(NamedTuple):
    """One receiver, which gets an event every so many seconds."""

    name: str
    behave: Behave
    ending: Ending = "delivered"
    every_seconds: float = 0.25
    scheme: Literal["http", "https"] = "http"
    tls: Literal["", "stranger", "other name"] = ""
    listens: bool = True


def answers(data: bytes, *, closes: bool = False) -> Behave:
    """Process each request and answer with these bytes."""

    def behave(connection: Connection, taken: Taken) -> None:
        taken(connection)
        connection.send(data)
        while not closes:
            taken(connection)
            connection.send(data)

    return behave


def refuses(head: str) -> Behave:
    """Answer each request with this head, and process none."""

    def behave(connection: Connection, _: Taken) -> None:
        while True:
            connection.read_request()
            connection.send(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())

    return behave


def now_and_then(odd: Callable[[Connection, Taken], None], one_in: int = 3) -> Behave:
    """Behave oddly on one connection, or request, in so many, and well on the others."""
    count = itertools.count(1)

    def behave(connection: Connection, taken: Taken) -> None:
        while next(count) % one_in:
            taken(connection)
            connection.send(OK)
        odd(connection, taken)

    return behave


def resets_new(connection: Connection, _: Taken) -> None:
    reset_on_accept(connection)


def dies_with_it(connection: Connection, taken: Taken) -> None:
    taken(connection)
    time.sleep(0.05)


def resets_with_it(connection: Connection, taken: Taken) -> None:
    taken(connection)
    time.sleep(0.05)
    connection.reset()


def resets_half_read(connection: Connection, _: Taken) -> None:
    connection.raw.recv(100)
    connection.reset()


def resets_head(connection: Connection, taken: Taken) -> None:
    taken(connection)
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.reset()


def resets_body(connection: Connection, taken: Taken) -> None:
    taken(connection)
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
    connection.reset()


def half_closes(connection: Connection, taken: Taken) -> None:
    taken(connection)
    connection.send(OK)
    connection.raw.shutdown(socket.SHUT_WR)
    connection.wait_closed()


def silent(connection: Connection, _: Taken) -> None:
    connection.read_request()
    connection.wait_closed()


def closes_idle(seconds: float) -> Behave:
    """Close a connection that rests for so long, within ten milliseconds."""

    def behave(connection: Connection, taken: Taken) -> None:
        while True:
            connection.raw.settimeout(seconds + random.uniform(-0.01, 0.01))
            taken(connection)
            connection.send(OK)

    return behave


def drips(head: bytes, every_seconds: float) -> Behave:
    """Send the answer's head a byte at a time."""

    def behave(connection: Connection, taken: Taken) -> None:
        while True:
            taken(connection)
            for index in range(len(head)):
                connection.send(head[index : index + 1])
                time.sleep(every_seconds)

    return behave


def goes_on(start: bytes, again: bytes, every_seconds: float) -> Behave:
    """Answer with ``start`` and never end its body."""

    def behave(connection: Connection, taken: Taken) -> None:
        taken(connection)
        connection.send(start)
        while True:
            connection.send(again)
            time.sleep(every_seconds)

    return behave


def answers_again_later(connection: Connection, taken: Taken) -> None:
    """A second answer nobody asked for, while the connection rests."""
    while True:
        taken(connection)
        connection.send(OK)
        time.sleep(0.05)
        connection.send(b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")


def sends_away(status: int, retry_after: Callable[[], str]) -> Behave:
    """Answer so for ``FOR_SECONDS`` from the first request on, and then well."""
    began: list[float] = []

    def behave(connection: Connection, taken: Taken) -> None:
        while True:
            id = connection.read_request()
            began.append(time.monotonic())
            if time.monotonic() - began[0] < FOR_SECONDS:
                head = f"HTTP/1.1 {status} Later\r\nRetry-After: {retry_after()}\r\nContent-Length: 0\r\n\r\n"
                connection.send(head.encode())
            else:
                taken[id] = taken.get(id, 0) + 1
                connection.send(OK)

    return behave


def handshakes_never(connection: Connection, _: Taken) -> None:
    connection.wait_closed()


def _head(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *lines, "", "")).encode()


CHUNKED = _head("Transfer-Encoding: chunked")
BIG = "X-Filler: " + "x" * 990

RECEIVERS = (
    Odd("well", answers(OK)),
    Odd("204 without a length", answers(b"HTTP/1.1 204 No Content\r\n\r\n")),
    Odd("HTTP/1.0", answers(b"HTTP/1.0 200 OK\r\n\r\nfine", closes=True)),
    Odd("HTTP/1.0, kept", answers(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")),
    Odd("ends by closing", answers(CLOSING + b"\r\nfine", closes=True)),
    Odd("closes without a word", answers(OK, closes=True)),
    Odd("closes idle after 0.5 s", closes_idle(0.5), every_seconds=0.5),
    Odd("closes idle after 1 s", closes_idle(1.0), every_seconds=1.0),
    Odd("closes idle after 2 s", closes_idle(2.0), every_seconds=2.0),
    Odd("closes idle after 5 s", closes_idle(5.0), every_seconds=5.0),
    Odd("takes one in three and dies", now_and_then(dies_with_it)),
    Odd("takes one in three and resets", now_and_then(resets_with_it)),
    Odd("resets new connections", now_and_then(resets_new, 2)),
    Odd("resets in the request", now_and_then(resets_half_read)),
    Odd("resets in its head", now_and_then(resets_head)),
    Odd("resets in its body", now_and_then(resets_body), "any"),
    Odd("always resets in its head", lambda connection, _: reset_in_head(connection), "retrying"),
    Odd("half closes", half_closes),
    Odd("100 Continue first", answers(b"HTTP/1.1 100 Continue\r\n\r\n" + OK)),
    Odd("early hints", answers(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + OK)),
    Odd("101 Switching", answers(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"), "any"),
    Odd("head in half a second", drips(OK, 0.5 / len(OK))),
    Odd("head that never ends", drips(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500, 0.1), "retrying"),
    Odd("head of 40 KB", answers(_head(*[BIG] * 40, "Content-Length: 0"))),
    Odd("head of 80 KB", answers(_head(*[BIG] * 80, "Content-Length: 0")), "retrying"),
    Odd("bare LF", answers(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n")),
    Odd("folded header", answers(_head("X-Long: a", " b", "Content-Length: 0")), "any"),
    Odd("length too large", answers(_head("Content-Length: 50") + b"short", closes=True), "any"),
    Odd("length too small", answers(_head("Content-Length: 2") + b"longer")),
    Odd("two lengths", answers(_head("Content-Length: 0", "Content-Length: 5"), closes=True), "any"),
    Odd("answers again later", answers_again_later),
    Odd("chunked", answers(CHUNKED + b"4\r\nfine\r\n0\r\n\r\n")),
    Odd("chunked, extensions and trailers", answers(CHUNKED + b"4;a=b\r\nfine\r\n0\r\nX-T: 1\r\n\r\n")),
    Odd("chunked, no size", answers(CHUNKED + b"zz\r\nfine\r\n", closes=True), "any"),
    Odd(
        "chunked and a length", answers(_head("Transfer-Encoding: chunked", "Content-Length: 4") + b"0\r\n\r\n"), "any"
    ),
    Odd("endless body", goes_on(CHUNKED, b"400\r\n" + b"x" * 1024 + b"\r\n", 0.0), "any"),
    Odd("dripping body", goes_on(CHUNKED, b"1\r\nx\r\n", 0.2), "any"),
    Odd("redirects", refuses("302 Found\r\nLocation: http://127.0.0.1/"), "failed"),
    Odd("413", refuses("413 Too Large"), "failed"),
    Odd("speaks SSH", answers(b"SSH-2.0-OpenSSH_9.2\r\n", closes=True), "retrying"),
    Odd("silent", silent, "retrying"),
    Odd("429, 1 s", sends_away(429, lambda: "1")),
    Odd("503, a date", sends_away(503, lambda: formatdate(time.time() + 2, usegmt=True))),
    Odd("503, garbage", sends_away(503, lambda: "soon, 1.5")),
    Odd("429, an hour, for 3 s", sends_away(429, lambda: "3600"), "any", every_seconds=0.6),
    Odd("503, 30000, for 3 s", sends_away(503, lambda: "30000"), "any", every_seconds=0.6),
    Odd("503, a year, for 3 s", sends_away(503, lambda: "31536000"), "any", every_seconds=0.6),
    Odd("TLS of a stranger", answers(OK), "retrying", scheme="https", tls="stranger"),
    Odd("TLS of another name", answers(OK), "retrying", scheme="https", tls="other name"),
    Odd("TLS that is none", answers(OK), "retrying", scheme="https"),
    Odd("TLS handshake that never ends", handshakes_never, "retrying", scheme="https"),
    Odd("nothing listens", answers(OK), "retrying", listens=False),
)
