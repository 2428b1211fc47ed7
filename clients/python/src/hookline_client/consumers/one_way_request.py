"""One request over a socket of its own, closed as soon as it is written: nobody waits for the answer."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence

from hookline_client.consumers.batch_request import BatchRequest
from hookline_client.consumers.looked_up_host import LookedUpHost
from hookline_client.deadline import connect, seconds_left
from hookline_client.options import Options
from hookline_client.receipts import Message


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
        """Connect, write, close; TimeoutError when all of it takes longer than the timeout, OSError when it fails."""
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
