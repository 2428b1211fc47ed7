"""The transport to a real service: gzip, one kept-alive connection, errors as values.

Nothing here retries, apart from a connection that the service had closed while it was idle. Consumers import this
module with the first batch: what it needs takes longer to import than the rest of the library. It also imports what a
thread that sends may need later, because a process may not fork in the middle of an import. An import that fails for
lack of descriptors is tried again: ssl comes before http.client, which would do without it for ever.
"""

from __future__ import annotations

import base64
import email.utils  # noqa: F401 - see above
import encodings.idna  # noqa: F401
import os
import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from gzip import compress
from http.client import HTTPConnection, HTTPSConnection

from hookline_client.answer import Answer, read_answer
from hookline_client.batch import batch_body
from hookline_client.deadline import DeadlineResponse, connect, seconds_left
from hookline_client.endpoint import Endpoint
from hookline_client.errors import CODES
from hookline_client.options import Options
from hookline_client.proxy import Proxy, address_of, ask_for_tunnel, proxy_to
from hookline_client.receipts import Message
from hookline_client.transport import Transport
from hookline_client.version import VERSION

ANSWER_BYTES_MAX = 1024 * 1024
GZIP_LEVEL = 1
"""Events shrink to a fifth at once; higher levels cost more time than the bytes they save."""


class HttpTransport:
    """The transport to a real service."""

    def __init__(
        self,
        write_key: str,
        endpoint: Endpoint,
        timeout_seconds: float,
        gzip: bool = False,
        ca_file: str | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._gzip = gzip
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = None
        self._asked: Proxy | None = None  # a proxy that reads the requests themselves
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None  # the connection lets go of it before the last body that it carries
        self._is_closed = False
        self._headers = {
            "Authorization": authorization(write_key),
            "Content-Type": "application/json",
            "User-Agent": f"hookline-python/{VERSION}",
            **({"Content-Encoding": "gzip"} if gzip else {}),
        }

    def send(self, batch: Sequence[Message], timeout_seconds: float | None = None) -> Answer:
        """Send one batch and return the answer; a fault of the network is an answer with status 0."""
        seconds = self._timeout_seconds if timeout_seconds is None else min(timeout_seconds, self._timeout_seconds)
        body = batch_body([body for _, body in batch])
        if self._gzip:
            body = compress(body, GZIP_LEVEL, mtime=0)
        reused = self._connection is not None
        answer = self._try(body, seconds)
        if reused and answer.code == "connection_failed" and not self._is_closed:
            # Closed by the service while it was idle: that is no failure of this batch.
            answer = self._try(body, seconds)
        return answer

    def close(self) -> None:
        """Close the connection. A ``send`` that waits in another thread fails at once."""
        self._is_closed = True
        sock = self._socket
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._drop()

    def forked(self) -> None:
        """Close this process's copy of the connection without a word to the service."""
        self._connection = None
        sock, self._socket = self._socket, None
        if sock is not None and sock.fileno() >= 0:
            # Not close(): a thread that is not in this process may be reading from it, which would keep it open.
            os.close(sock.detach())

    def _try(self, body: bytes, seconds: float) -> Answer:
        try:
            return self._post(body, seconds)
        except TimeoutError:
            answer = Answer(0, "timed_out", CODES["timed_out"])
        except OSError as error:
            answer = _failure(error)
        except Exception as error:  # noqa: BLE001 - http.client's own errors, and what a closed connection raises
            answer = Answer(0, "unexpected_answer", f"{CODES['unexpected_answer']} ({type(error).__name__})")
        self._drop()
        return answer

    def _post(self, body: bytes, seconds: float) -> Answer:
        deadline = time.monotonic() + seconds
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect(deadline)
        if connection.sock is not None:
            connection.sock.settimeout(seconds_left(deadline))
        target, headers = f"{self._endpoint.path}/v1/batch", self._headers
        if self._asked is not None:
            target, headers = f"http://{address_of(self._endpoint)}{target}", {**headers, **self._asked.headers}
        is_whole = True
        try:
            connection.request("POST", target, body, headers)
        except (ConnectionError, ssl.SSLEOFError):  # it hung up in the middle: what it said before is there to be read
            if connection.sock is None:
                raise
            is_whole = False
        connection.response_class = partial(DeadlineResponse, deadline=deadline)  # type: ignore[assignment]  # called as a class is
        with connection.getresponse() as response:
            text = response.read(ANSWER_BYTES_MAX)
            if not is_whole or response.will_close or not response.isclosed():
                self._drop()
        return read_answer(response.status, text, response.getheader("Retry-After"))

    def _connect(self, deadline: float) -> HTTPConnection:
        host, port = self._endpoint.host, self._endpoint.port
        proxy = proxy_to(self._endpoint)
        there = (host, port) if proxy is None else (proxy.host, proxy.port)
        sock = connect(socket.getaddrinfo(*there, type=socket.SOCK_STREAM), deadline)
        self._asked = None if self._endpoint.tls else proxy
        if not self._endpoint.tls:
            connection = HTTPConnection(host, port, timeout=self._timeout_seconds)
        else:
            sock = self._wrapped(sock, proxy, deadline)
            connection = HTTPSConnection(host, port, timeout=self._timeout_seconds, context=self._tls)
        connection.sock = self._socket = sock
        return connection

    def _wrapped(self, sock: socket.socket, proxy: Proxy | None, deadline: float) -> ssl.SSLSocket:
        try:
            if proxy is not None:
                ask_for_tunnel(sock, proxy, self._endpoint, deadline)
            if self._tls is None:
                self._tls = ssl.create_default_context(cafile=self._ca_file)
            sock.settimeout(seconds_left(deadline))
            return self._tls.wrap_socket(sock, server_hostname=self._endpoint.host)
        except BaseException:
            sock.close()
            raise

    def _drop(self) -> None:
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()


def make_transport(options: Options) -> Transport:
    """The transport that the options ask for."""
    if options.transport is not None:
        return options.transport
    return HttpTransport(
        options.write_key, options.address, options.timeout_seconds, gzip=options.gzip, ca_file=options.ca_file
    )


def authorization(write_key: str) -> str:
    """The header that carries the write key: HTTP Basic, the key as user name, no password."""
    return "Basic " + base64.b64encode(f"{write_key}:".encode()).decode()


def _failure(error: OSError) -> Answer:
    code = "tls_failed" if isinstance(error, ssl.SSLError) else "connection_failed"
    return Answer(0, code, f"{CODES[code]} ({error})")
