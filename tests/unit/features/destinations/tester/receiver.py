"""A receiver in a thread that answers every request with the same bytes, and remembers what it was sent."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from types import TracebackType


class Receiver:
    """Listens on a free port of 127.0.0.1; with ``answer`` None it never answers."""

    def __init__(self, answer: bytes | None, tls: ssl.SSLContext | None = None) -> None:
        self._answer = answer
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}/hook"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listening.close()
        for connection in self._open:
            connection.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._take, args=(connection,), daemon=True).start()

    def _take(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            self._open.append(connection)
            data = b""
            while not _whole(data) and (more := connection.recv(65_536)):
                data += more
            self.requests.append(data)
            if self._answer is not None:
                connection.sendall(self._answer)


def _whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = next((line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")), b"0")
    return bool(end) and len(body) >= int(length)
