"""Leads connections of the S3 library to addresses that were checked.

The library looks names up by itself, so a second look-up could answer with an address inside the network, and follows
redirects, which could lead there too. It is given this listener on the loopback interface in place of the network, as a
proxy for whatever it asks for. For ``https`` that is to CONNECT, and TLS goes through untouched, with the certificate
checked for the real name; for ``http`` it is one request at a time, which goes on as if no proxy had been asked. The
name is looked up here, at each connection, and the connection goes to one of the addresses that were found allowed,
through ``deliver.proxy`` where that is set.

The library also reads every answer to its end, so what the host may answer is counted here, for all connections
together and for as long as one call of the library takes, whatever it tries again within. Nothing that the host does
begins the count anew: with TLS it could make the library send something at any time.
"""

from __future__ import annotations

import base64
import hmac
import secrets
import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic

from hookline.kinds.sink import SinkContext, SinkFailed

CONNECTIONS_MAX = 32
"""At once; the library keeps far fewer."""
HEAD_BYTES_MAX = 8_192
CONNECT_SECONDS = 5.0
IDLE_SECONDS = 90.0
"""Longer than the library waits for an answer."""
CHUNK_BYTES = 65_536
ANSWER_BYTES_MAX = 1024 * 1024
"""Of what the host answers, unless more is allowed: a few hundred bytes, and with TLS its certificates, are usual."""
ALLOWANCE_SECONDS = 5.0
"""How long a connection waits for more to be allowed: a file may come faster than its announced size is looked at."""
HTTP_PORT = 80
_OF_PROXY = frozenset({"connection", "proxy-authorization", "proxy-connection"})
ACCEPT_POLL_SECONDS = 0.5


class Tunnel:
    """A listener that leads to one host and port, and nowhere else."""

    def __init__(self, host: str, port: int, context: SinkContext, *, is_tls: bool) -> None:
        self._host, self._port, self._context = host, port, context
        self._is_tls = is_tls
        self._password = secrets.token_hex(16)
        self._room = threading.BoundedSemaphore(CONNECTIONS_MAX)
        self._closed = threading.Event()
        self.refusal = ""
        """Why the last connection could not be made, or not go on; empty since one could."""
        self._end: tuple[float, str] | None = None
        """Until when connections may go on, and why no longer; None for as long as they like."""
        self._allowance = threading.Condition()
        self._allowed_bytes = self._left_bytes = ANSWER_BYTES_MAX
        self._allowance_seconds = 0.0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(ACCEPT_POLL_SECONDS)
        threading.Thread(target=self._accept, name="s3-tunnel", daemon=True).start()

    @property
    def url(self) -> str:
        """Return where it listens, with the password that keeps other users of this machine out."""
        return f"http://hookline:{self._password}@127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def is_closed(self) -> bool:
        """Return whether it has ended, or is about to."""
        return self._closed.is_set()

    @contextmanager
    def bounded(self, seconds: float, why: str) -> Iterator[None]:
        """Let no connection go on for longer, whatever comes through it; ``why`` is what is said of it then."""
        self._end = monotonic() + seconds, why
        try:
            yield
        finally:
            self._end = None

    def allow(self, count: int, *, grows: bool = False) -> None:
        """Let the host answer so many bytes from now on, and with ``grows`` wait for ``allow_more`` with what is more;
        forget why an earlier connection could not go on."""
        with self._allowance:
            self._allowed_bytes = self._left_bytes = count
            self._allowance_seconds = ALLOWANCE_SECONDS if grows else 0.0
            self.refusal = ""

    def allow_more(self, count: int) -> None:
        """Let the host answer so many bytes in addition."""
        with self._allowance:
            self._allowed_bytes += count
            self._left_bytes += count
            self._allowance.notify_all()

    def close(self) -> None:
        """End; may be called twice."""
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if not self._room.acquire(blocking=False):
                near.close()
                continue
            threading.Thread(target=self._lead, args=(near,), name="s3-connection", daemon=True).start()

    def _lead(self, near: socket.socket) -> None:
        try:
            with near:
                near.settimeout(IDLE_SECONDS)
                asked = self._asked(near)
                if asked is None or self._is_spent():  # 403 is not tried again by the library
                    near.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                    return
                far = None if self._is_over() else self._connect()
                if far is None:
                    near.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                    return
                with far:
                    if self._is_tls:
                        near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                    else:
                        far.sendall(asked)
                    self._relay(near, far)
        except OSError:  # either side hung up: the library notices, and tries again
            return
        finally:
            self._room.release()

    def _asked(self, near: socket.socket) -> bytes | None:
        """Return what goes on to the host of a request that is for it, None for any other."""
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = near.recv(HEAD_BYTES_MAX)
            if not chunk or len(head) > HEAD_BYTES_MAX:
                return None
            head += chunk
        head, _, rest = head.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        onward = self._onward(first, headers)
        if onward is None:
            self.refusal = f"{self._host} redirects to another address; set endpoint to the one that takes requests"
            return None
        wanted = "Basic " + base64.b64encode(f"hookline:{self._password}".encode()).decode()
        is_known = hmac.compare_digest(dict(headers).get("proxy-authorization", ""), wanted)
        return onward + rest if is_known else None

    def _onward(self, first: str, headers: Sequence[tuple[str, str]]) -> bytes | None:
        """Return the head that the host gets, nothing for what asks to be connected; None where it is not meant."""
        method, _, target = first.partition(" ")
        host = f"[{self._host}]" if ":" in self._host else self._host
        if self._is_tls:
            return b"" if (method, target.partition(" ")[0]) == ("CONNECT", f"{host}:{self._port}") else None
        for origin in (f"http://{host}:{self._port}", *([f"http://{host}"] if self._port == HTTP_PORT else [])):
            if target.startswith(f"{origin}/"):
                kept = [f"{name}: {value}" for name, value in headers if name not in _OF_PROXY]
                # The last one of its connection: what comes next has to be looked at, too.
                lines = [f"{method} {target.removeprefix(origin)}", *kept, "connection: close", "", ""]
                return "\r\n".join(lines).encode("latin-1")
        return None

    def _connect(self) -> socket.socket | None:
        try:
            addresses = self._context.addresses(self._host, self._port)
        except SinkFailed as error:
            self.refusal = str(error)
            return None
        for address in addresses:
            try:
                far = self._context.connected(address, self._port, CONNECT_SECONDS)
            except OSError as error:
                self.refusal = f"{self._host} ({address}) cannot be reached: {error.strerror or error}"
            else:
                far.settimeout(IDLE_SECONDS)
                far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.refusal = ""
                return far
        return None

    def _is_over(self) -> bool:
        if self._end is None or monotonic() < self._end[0]:
            return False
        self.refusal = self._end[1]
        return True

    def _may_pass(self, count: int) -> bool:
        """Count what the host has answered; return whether it goes on to the library."""
        with self._allowance:
            self._left_bytes -= count
            self._allowance.wait_for(lambda: self._left_bytes >= 0, self._allowance_seconds)
            return not self._is_spent()

    def _is_spent(self) -> bool:
        if self._left_bytes >= 0:
            return False
        self.refusal = (
            f"{self._host} answers more than the {self._allowed_bytes // 1024:,} KB that a store can have to say, so"
            " the connection was closed; set endpoint to an S3-compatible store"
        )
        return True

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        other = {near: far, far: near}
        ends = {near.fileno(): near, far.fileno(): far}
        poll = select.poll()  # not select.select, which takes no descriptor from 1,024 on
        for number in ends:
            poll.register(number, select.POLLIN)
        while not (self._closed.is_set() or self._is_over()):
            ready = poll.poll(IDLE_SECONDS * 1_000)
            if not ready:
                return
            for number, _ in ready:
                each = ends[number]
                data = each.recv(CHUNK_BYTES)
                if not data or (each is far and not self._may_pass(len(data))):
                    return
                other[each].sendall(data)
