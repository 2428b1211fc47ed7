"""Receivers that misbehave on purpose: raw sockets, one thread per connection, a behaviour given as a function.

Well-behaved receivers are ``tests.service.receiver``; a behaviour here gets the bare connection and may do anything.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from urllib.parse import unquote

CONNECTION_SECONDS_MAX = 60.0
LINGER_ZERO = struct.pack("ii", 1, 0)


class Connection:
    """One accepted connection, numbered from 1. Operations raise OSError once the other side is gone."""

    def __init__(self, raw: socket.socket, number: int, receiver: HostileReceiver) -> None:
        self.raw = raw
        self.number = number
        self._receiver = receiver
        self._unread = b""

    def read_request(self) -> str:
        """Read one whole request and note it; return its messageId. EOFError when there is none."""
        while b"\r\n\r\n" not in self._unread:
            self._read_more()
        head, _, rest = self._unread.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(headers[b"content-length"])
        self._unread = rest
        while len(self._unread) < length:
            self._read_more()
        self._unread = self._unread[length:]
        message_id = unquote(headers[b"x-message-id"].decode())
        self._receiver.requests.append((self.number, message_id, head))
        return message_id

    def send(self, data: bytes) -> None:
        """Send all of it and count it."""
        view = memoryview(data)
        while view:
            sent = self.raw.send(view)
            self._receiver.sent_bytes += sent
            view = view[sent:]

    def reset(self) -> None:
        """Close with RST."""
        self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
        self.raw.close()

    def wait_closed(self) -> None:
        """Block until the other side closes."""
        while self.raw.recv(65_536):
            pass

    def _read_more(self) -> None:
        data = self.raw.recv(65_536)
        if not data:
            raise EOFError
        self._unread += data


Behaviour = Callable[[Connection], None]


class HostileReceiver:
    """A context manager around a listening socket; every connection is handled by ``behave`` and then closed."""

    def __init__(
        self, behave: Behaviour, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.behave = behave
        self.connections = 0
        self.sent_bytes = 0
        self.requests: list[tuple[int, str, bytes]] = []
        """Connection number, messageId and head of every request that was read."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        dual = host == "::" and socket.has_dualstack_ipv6()
        self._listener = socket.create_server((host, port), family=family, backlog=512, dualstack_ipv6=dual)
        self.port: int = self._listener.getsockname()[1]
        self._tls = tls
        self._open: set[socket.socket] = set()
        self._closing = False

    def __enter__(self) -> HostileReceiver:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the accept that waits
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        """The receiver's address for a webhook."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def connections_of(self, message_id: str) -> list[int]:
        """On which connections the message arrived, oldest first."""
        return [number for number, found, _ in self.requests if found == message_id]

    def _accept(self) -> None:
        while not self._closing:
            try:
                raw, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._handle, args=(raw, self.connections), daemon=True).start()

    def _handle(self, raw: socket.socket, number: int) -> None:
        raw.settimeout(CONNECTION_SECONDS_MAX)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.add(raw)
        wrapped = raw
        try:
            if self._tls is not None:
                wrapped = self._tls.wrap_socket(raw, server_side=True)
                self._open.add(wrapped)
            self.behave(Connection(wrapped, number, self))
        except (OSError, EOFError):
            pass  # the other side ended it, as most of these tests expect
        finally:
            self._open -= {raw, wrapped}
            wrapped.close()


def answering(head: str, body: bytes = b"") -> Behaviour:
    """Answer every request with these bytes (``\\n`` in the head stands for CR LF) and keep the connection."""
    reply = head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body

    def behave(connection: Connection) -> None:
        while True:
            connection.read_request()
            connection.send(reply)

    return behave


def answering_and_closing(head: str, body: bytes = b"") -> Behaviour:
    """The same, closing after the first answer."""
    reply = head.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n" + body

    def behave(connection: Connection) -> None:
        connection.read_request()
        connection.send(reply)

    return behave


def endless(start: bytes, again: bytes) -> Behaviour:
    """Answer with ``start`` and then ``again`` for ever, as fast as it is taken."""
    block = again * max(1, 65_536 // len(again))

    def behave(connection: Connection) -> None:
        connection.read_request()
        connection.send(start)
        while True:
            connection.send(block)

    return behave


def dripping(start: bytes, again: bytes, every_seconds: float) -> Behaviour:
    """Answer with ``start`` and then ``again`` at intervals, for ever: never idle, never done."""

    def behave(connection: Connection) -> None:
        connection.read_request()
        connection.send(start)
        while not threading.Event().wait(every_seconds):
            connection.send(again)

    return behave


def reset_on_accept(connection: Connection) -> None:
    """RST before anything is read."""
    connection.reset()


def reset_after_request(connection: Connection) -> None:
    """RST instead of an answer."""
    connection.read_request()
    connection.reset()


def reset_in_head(connection: Connection) -> None:
    """RST in the middle of the answer's head."""
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")
    connection.reset()


def close_without_reply(connection: Connection) -> None:
    """Read the request and close in an orderly way."""
    connection.read_request()


def close_in_head(connection: Connection) -> None:
    """Close in the middle of the answer's head."""
    connection.read_request()
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Le")


def never_answer(connection: Connection) -> None:
    """Read the request and say nothing."""
    connection.read_request()
    connection.wait_closed()


@contextlib.contextmanager
def refused_port() -> Iterator[int]:
    """A loopback port that refuses connections, kept from others by a socket that is bound and does not listen."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
