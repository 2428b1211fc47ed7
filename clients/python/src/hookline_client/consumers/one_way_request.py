"""One request over a socket of its own, closed as soon as it is written: nobody waits for the answer."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from collections.abc import Sequence

try:
    import fcntl
    import termios
except ImportError:  # Windows, which has no call that tells what of a connection is acknowledged
    fcntl = termios = None  # type: ignore[assignment]

from hookline_client.consumers.batch_request import BatchRequest
from hookline_client.consumers.looked_up_host import LookedUpHost
from hookline_client.deadline import connect, seconds_left
from hookline_client.options import Options
from hookline_client.receipts import Message

POLL_SECONDS_FIRST, POLL_SECONDS_MAX = 0.0005, 0.02
"""The pauses between two looks at what the other side has acknowledged: each is twice as long as the one before."""
SIOCOUTQNSD = 0x894B
"""Linux: asks a socket how many bytes of it have not been sent yet; no module of Python names it."""


class OneWayRequest:
    """Writes requests; each call has its own socket, so many threads may call at once."""

    def __init__(self, options: Options) -> None:
        self._request = BatchRequest(options)
        self._timeout_seconds = options.timeout_seconds
        self._ca_file = options.ca_file
        endpoint = self._request.endpoint
        self._host = LookedUpHost(endpoint.host, endpoint.port)
        self._tls: ssl.SSLContext | None = None
        self._open: set[socket.socket] = set()
        lines = [f"POST {self._request.path} HTTP/1.1", f"Host: {self._request.host}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in self._request.headers.items()]
        self._head = "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")

    def write(self, batch: Sequence[Message]) -> None:
        """Connect, write, close; TimeoutError when all of it takes longer than the timeout, OSError when it fails.

        Over TLS it stays until the other system has acknowledged every byte, or the service begins to answer.
        """
        body = self._request.body(batch)
        deadline = time.monotonic() + self._timeout_seconds
        connection = connect(self._host.addresses(seconds_left(deadline)), deadline)
        self._open.add(connection)
        try:
            if self._request.endpoint.tls:
                connection = self._wrapped(connection, deadline)
            connection.settimeout(seconds_left(deadline))
            connection.sendall(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
            if isinstance(connection, ssl.SSLSocket):
                _wait_taken(connection, deadline)
                _say_goodbye(connection)
        finally:
            self._open.discard(connection)
            connection.close()

    def forked(self) -> None:
        """Close this process's copies of sockets that threads of the parent are writing to."""
        self._host.forked()
        for connection in self._open:
            connection.close()
        self._open = set()

    def _wrapped(self, connection: socket.socket, deadline: float) -> ssl.SSLSocket:
        if self._tls is None:
            self._tls = ssl.create_default_context(cafile=self._ca_file)
        connection.settimeout(seconds_left(deadline))
        self._open.discard(connection)
        wrapped = self._tls.wrap_socket(connection, server_hostname=self._request.endpoint.host)
        self._open.add(wrapped)
        return wrapped


def _wait_taken(connection: ssl.SSLSocket, deadline: float) -> None:
    """Wait until the other side has every byte, or begins to answer; TimeoutError when some cannot be sent in time.

    What a TLS 1.3 service sends by itself, its session tickets, may arrive a round trip after the last byte was
    written. At a closed socket they reset the connection, and what the system has not sent by then is lost. What was
    sent and is not acknowledged when the time is over has left: a line may be slow, and the bytes are on their way.
    """
    pause = POLL_SECONDS_FIRST
    while (unacknowledged := _unacknowledged(connection)) != 0:
        left = deadline - time.monotonic()
        if left <= 0:
            if _unsent(connection):
                raise TimeoutError("the service does not take the request")
            return
        connection.settimeout(left if unacknowledged is None else min(pause, left))
        pause = min(2 * pause, POLL_SECONDS_MAX)
        try:
            has_answered = connection.recv(1) != b""  # which also takes in the tickets that come meanwhile
        except TimeoutError:
            continue
        if not has_answered and _unsent(connection):
            raise ConnectionError("the service closed the connection before it had the request")
        return


def _unacknowledged(connection: socket.socket) -> int | None:
    """Return how many bytes the other system has not acknowledged; None where this one does not tell."""
    return _asked(connection, termios.TIOCOUTQ) if termios is not None else None


def _unsent(connection: socket.socket) -> int:
    """Return how many bytes have not been sent; where only those not acknowledged are known, their number."""
    unsent = _asked(connection, SIOCOUTQNSD) if sys.platform == "linux" else None
    return (_unacknowledged(connection) or 0) if unsent is None else unsent


def _asked(connection: socket.socket, request: int) -> int | None:
    try:
        return int(struct.unpack("i", fcntl.ioctl(connection, request, b"\0" * 4))[0])
    except OSError:
        return None


def _say_goodbye(connection: ssl.SSLSocket) -> None:
    """Send close_notify without waiting for the other side's.

    That also takes in the tickets a TLS 1.3 service sends: closing a socket with unread bytes would reset the
    connection, and the request with it.
    """
    connection.setblocking(False)
    try:
        connection.unwrap()
    except (OSError, ValueError):
        pass
