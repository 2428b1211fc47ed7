"""A service on loopback that answers as a case says and keeps what arrived: one per case."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, NamedTuple

DRIP_SECONDS = 0.05
BODY_SECONDS = 0.1
"""So much later than its head a body comes that has no length."""
POLL_SECONDS = 0.01
ACCEPTED = {"status": 200, "body": {"success": True}}


class Arrived(NamedTuple):
    """One request as it arrived; ``body`` is its JSON, or None when that cannot be read.

    ``is_taken`` says that it is answered as the service answers what it has on disk.
    """

    at: float
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    body: Any
    connection: int
    is_taken: bool = False

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events of it."""
        batch = self.body.get("batch") if isinstance(self.body, dict) else None
        return [event for event in batch if isinstance(event, dict)] if isinstance(batch, list) else []


class StandIn:
    """Stands in for the service until ``end``.

    ``answers`` are given in order; afterwards everything is accepted. ``refuses`` comes first: a request that holds an
    event of the name ``event``, or is larger than ``over_bytes``, gets this answer and uses up none of the others.
    """

    def __init__(self, answers: list[dict[str, Any]], refuses: dict[str, Any] | None = None) -> None:
        self.arrived: list[Arrived] = []
        self._answers = list(answers)
        self._refuses = refuses
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_leaving = False
        """The last request before it is away has its answer: until it is back no other gets one."""
        self._connections: list[socket.socket] = []
        self._listener = self._bind(0)
        self.port: int = self._listener.getsockname()[1]
        if not self._is_away_next():
            self._listen()

    @property
    def endpoint(self) -> str:
        """The URL for the library."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def events(self) -> list[dict[str, Any]]:
        """All events that were taken, in the order of their arrival, repeats included."""
        return [event for request in list(self.arrived) if request.is_taken for event in request.events]

    def begin(self) -> None:
        """Begin the time of a service that is away from the start."""
        if self._is_away_next():
            self._be_away()

    def wait(self, condition: Callable[[], bool], deadline: float) -> bool:
        """Wait for something to arrive; False when the time is over."""
        while not condition():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def end(self) -> None:
        """Close everything."""
        self._ended.set()
        for sock in [self._listener, *self._connections]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sock.close()

    @staticmethod
    def _bind(port: int) -> socket.socket:
        # Bound and not listening, the port is kept and refuses connections.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        return listener

    def _listen(self) -> None:
        self._listener.listen(1024)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _is_away_next(self) -> bool:
        return bool(self._answers) and self._answers[0].get("fault") == "away"

    def _be_away(self) -> None:
        seconds = self._answers.pop(0).get("seconds")
        if seconds is not None:
            timer = threading.Timer(seconds, self._come_back)
            timer.daemon = True
            timer.start()

    def _go_away(self) -> None:
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        for connection in self._connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._listener = self._bind(self.port)
        self._be_away()

    def _come_back(self) -> None:
        self._is_leaving = False
        if not self._ended.is_set():
            self._listen()

    def _accept(self, listener: socket.socket) -> None:
        while not self._ended.is_set():
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(sock)
            threading.Thread(target=self._serve, args=(sock, len(self._connections)), daemon=True).start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        stream = sock.makefile("rb")
        try:
            while self._serve_one(sock, stream, number):
                pass
        except (OSError, ValueError):  # what is no request ends its connection, as with any server
            pass
        finally:
            stream.close()
            sock.close()

    def _serve_one(self, sock: socket.socket, stream: Any, number: int) -> bool:
        line = stream.readline().decode("latin-1").split()
        if len(line) < 3:
            return False
        headers = _headers(stream)
        if headers.get("expect", "").lower() == "100-continue":
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        raw = _body(stream, headers)
        with self._lock:
            if self._is_leaving:
                return False
            request = Arrived(time.monotonic(), line[0], line[1], headers, raw, _document(raw, headers), number)
            answer = self._answer_to(request)
            self.arrived.append(request._replace(is_taken=_is_taken(answer)))
            self._is_leaving = is_last = self._is_away_next()
        try:
            return self._give(sock, answer) and headers.get("connection", "").lower() != "close" and not is_last
        finally:
            if is_last:
                self._go_away()

    def _answer_to(self, request: Arrived) -> dict[str, Any]:
        rule = self._refuses
        if rule is not None:
            is_meant = any(event.get("event") == rule.get("event", ()) for event in request.events)
            if is_meant or len(request.raw) > rule.get("over_bytes", float("inf")):
                return rule
        return self._answers.pop(0) if self._answers else ACCEPTED

    def _give(self, sock: socket.socket, answer: dict[str, Any]) -> bool:
        fault = answer.get("fault", "")
        self._ended.wait(answer.get("delay", 0.0))
        if fault == "hang":
            self._ended.wait()
            return False
        if fault == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        body = _answer_body(answer)
        text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        head = "".join(f"{name}: {_value(value)}\r\n" for name, value in answer.get("headers", {}).items())
        line = f"HTTP/1.1 {answer.get('status', 200)} X\r\n"
        if fault == "until_close":
            sock.sendall(f"{line}{head}\r\n".encode())
            self._ended.wait(BODY_SECONDS)
            sock.sendall(text)
            return False
        if fault == "interim":
            sock.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n")
        whole = f"{line}Content-Length: {len(text)}\r\n{head}\r\n".encode() + text
        if fault == "drip":
            for index in range(len(whole) - 1):
                sock.sendall(whole[index : index + 1])
                if self._ended.wait(DRIP_SECONDS):
                    break
            self._ended.wait()
            return False
        sock.sendall(whole)
        return bool(fault != "close")


def _answer_body(answer: dict[str, Any]) -> Any:
    return answer.get("body", ACCEPTED["body"] if answer.get("status", 200) == 200 else {})


def _is_taken(answer: dict[str, Any]) -> bool:
    body = _answer_body(answer)
    is_good = answer.get("status", 200) == 200 and isinstance(body, dict) and body.get("success") is True
    return is_good and answer.get("fault", "") in ("", "close", "until_close", "interim")


def _value(value: str) -> str:
    """Return a header's value; ``{date+2}`` is the date in two seconds."""
    if value.startswith("{date+"):
        return formatdate(time.time() + float(value[6:-1]), usegmt=True)
    return value


def _headers(stream: Any) -> dict[str, str]:
    headers: dict[str, str] = {}
    while (field := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = field.partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


def _body(stream: Any, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", 0))
        body: bytes = stream.read(length)
        if len(body) < length:
            raise ValueError("the request ended early")
        return body
    pieces = []
    while (size := int(stream.readline().split(b";")[0], 16)) > 0:
        pieces.append(stream.read(size))
        stream.readline()
    _headers(stream)
    return b"".join(pieces)


def _document(raw: bytes, headers: dict[str, str]) -> Any:
    try:
        text = gzip.decompress(raw) if headers.get("content-encoding") == "gzip" else raw
        return json.loads(text, parse_constant=_refuse)
    except (OSError, ValueError, EOFError):
        return None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
