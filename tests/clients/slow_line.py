"""A line with a round trip, in front of a TLS service: a proxy whose window is full and whose tickets are late.

TLS 1.3 services send session tickets after the client's last handshake message, in which the client's request follows
at once. On a long line they arrive when a client that waits for nothing has closed its socket, with most of the request
still in its system. Here the proxy takes the first record of it, and nothing more before the tickets have passed.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

APPLICATION_DATA = 23
"""The type of TLS 1.3 records that are encrypted: the client's first one ends its handshake."""
HEAD_BYTES = 5
WINDOW_BYTES = 4096
HOLD_SECONDS = 1.0
"""So long the tickets are on their way, if the caller does not return before. One that waits for its request passes
with any."""


class SlowLine:
    """A context manager. Set ``returned`` when the call is over: the tickets come right afterwards."""

    def __init__(self, service_port: int, hold_seconds: float = HOLD_SECONDS) -> None:
        self._hold_seconds = hold_seconds
        self.returned = threading.Event()
        self._service_port = service_port
        self._listening = socket.socket()
        self._listening.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES
        )  # before listen, or it is too late
        self._listening.bind(("127.0.0.1", 0))
        self._listening.listen()
        self.port: int = self._listening.getsockname()[1]
        self._is_asked = threading.Event()  # the client's request begins
        self._may_go_on = threading.Event()
        self._open: list[socket.socket] = []

    def __enter__(self) -> SlowLine:
        threading.Thread(target=self._join, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._may_go_on.set()
        self.returned.set()
        for sock in [self._listening, *self._open]:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _join(self) -> None:
        with suppress(OSError):
            client, _ = self._listening.accept()
            self._open.append(client)
            service = socket.create_connection(("127.0.0.1", self._service_port))
            self._open.append(service)
            threading.Thread(target=self._to_client, args=(service, client), daemon=True).start()
            with suppress(OSError):
                self._to_service(client, service)
            service.shutdown(socket.SHUT_WR)

    def _to_service(self, client: socket.socket, service: socket.socket) -> None:
        kind = 0
        while kind != APPLICATION_DATA:
            head = _exactly(client, HEAD_BYTES)
            record = head + _exactly(client, int.from_bytes(head[3:], "big"))
            kind = record[0]
            if kind == APPLICATION_DATA:
                self._is_asked.set()
            service.sendall(record)
        self._may_go_on.wait()
        while data := client.recv(1024):
            service.sendall(data)

    def _to_client(self, service: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := service.recv(65_536):
                if self._is_asked.is_set() and not self._may_go_on.is_set():
                    self.returned.wait(self._hold_seconds)
                    with suppress(OSError):
                        client.sendall(data)
                    self._may_go_on.set()
                else:
                    client.sendall(data)


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("the client has gone")
        data += more
    return data
