"""A way to a server that can lose what it answers."""

from __future__ import annotations

import contextlib
import socket
import threading


class Cable:
    """Passes bytes between clients and a server on this machine. A context manager."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cut_after = b""
        """Once a client says this, it reaches the server, and the connection breaks when that answers."""
        self.cuts_at_once = False
        """Whether it breaks before."""
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                lost = threading.Event()
                threading.Thread(target=self._ask, args=(client, server, lost), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server, lost), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError), server:
            while data := client.recv(65_536):
                if self.cut_after and self.cut_after in data:
                    self.cut_after = b""
                    self.cuts += 1
                    lost.set()
                server.sendall(data)
                if self.cuts_at_once and lost.is_set():
                    client.shutdown(socket.SHUT_RDWR)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError), client:
            while (data := server.recv(65_536)) and not lost.is_set():
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
