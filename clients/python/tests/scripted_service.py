"""A service on loopback that answers as told: the faults that a real Hookline seldom has."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

WAIT_SECONDS = 30.0
"""A bound that only a failure reaches, on a slow and busy machine too."""
LATER_SECONDS = 0.1
"""So long that a body comes by itself, and not with its head."""
ACCEPTED = {"success": True}


class Post(NamedTuple):
    """One request as it arrived; ``connection`` is the number of its TCP connection."""

    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def batch(self) -> list[dict[str, Any]]:
        """The events of it."""
        raw = gzip.decompress(self.body) if self.headers.get("content-encoding") == "gzip" else self.body
        events: list[dict[str, Any]] = json.loads(raw)["batch"]
        return events


class Reply(NamedTuple):
    """An answer: ``fault`` is ``hang`` (none until the service ends), ``reset``, ``drip`` (a byte now and then for
    ever), ``close`` (answer, then close the connection without saying so), ``until_close`` (a head without a length, a
    while later the body, then the end of the connection), or empty. ``before`` is what comes in front of it."""

    status: int = 200
    body: Any = ACCEPTED
    headers: dict[str, str] = {}  # noqa: RUF012
    fault: str = ""
    before: bytes = b""


class ScriptedService:
    """A context manager. ``script`` holds the next replies; afterwards every batch is accepted."""

    def __init__(self, *script: Reply) -> None:
        self.posts: list[Post] = []
        self.script = list(script)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._ended = threading.Event()
        self._connections: list[socket.socket] = []

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events of all requests."""
        return [event for post in list(self.posts) for event in post.batch]

    def __enter__(self) -> ScriptedService:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for sock in [self._listener, *self._connections]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(sock)
            number = len(self._connections)
            threading.Thread(target=self._serve, args=(sock, number), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        stream = sock.makefile("rb")
        try:
            while self._serve_one(sock, stream, number):
                pass
        except (OSError, ValueError):
            pass
        finally:
            sock.close()

    def _serve_one(self, sock: socket.socket, stream: Any, number: int) -> bool:
        line = stream.readline().decode().split()
        if not line:
            return False
        headers: dict[str, str] = {}
        while (field := stream.readline().decode().strip()) != "":
            name, _, value = field.partition(":")
            headers[name.lower()] = value.strip()
        body = stream.read(int(headers["content-length"]))
        reply = self.script.pop(0) if self.script else Reply()
        self.posts.append(Post(line[1], headers, body, number))
        return self._answer(sock, reply)

    def _answer(self, sock: socket.socket, reply: Reply) -> bool:
        if reply.fault == "hang":
            sock.sendall(reply.before)
            self._ended.wait()
            return False
        if reply.fault == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
        if reply.fault == "until_close":
            sock.sendall(f"HTTP/1.1 {reply.status} X\r\n{head}\r\n".encode())
            self._ended.wait(LATER_SECONDS)
            sock.sendall(body)
            return False
        length = f"Content-Length: {len(body)}\r\n"
        answer = reply.before + f"HTTP/1.1 {reply.status} X\r\n{length}{head}\r\n".encode() + body
        if reply.fault == "drip":
            for index in range(len(answer) - 1):
                sock.sendall(answer[index : index + 1])
                self._ended.wait(0.05)
            self._ended.wait()
        sock.sendall(answer)
        return reply.fault != "close"


def wait_until(condition: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait until ``condition`` is true; AssertionError after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.005)
