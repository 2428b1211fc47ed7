"""One request and the answer to it, from the end of its head until its turn to be answered has come."""

from __future__ import annotations

from typing import Protocol

from hookline.collect.router import Route
from hookline.connections.model import Source

Headers = dict[bytes, bytes]
"""The few headers that are looked at, names in lower case."""


class Line(Protocol):
    """The connection an exchange belongs to."""

    def flush(self) -> None:
        """Write every answer whose turn has come."""


class Exchange:
    """What is known of one request; ``verdict`` is an answer settled before the body has been read."""

    __slots__ = (
        "_line",
        "answer",
        "body_bytes_max",
        "close",
        "continue_due",
        "gzipped",
        "headers",
        "legacy",
        "method",
        "path",
        "query",
        "route",
        "source",
        "unread",
        "verdict",
    )

    def __init__(self, line: Line, method: bytes, path: bytes, query: bytes, headers: Headers) -> None:
        self._line = line
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.route: Route | None = None
        self.source: Source | None = None
        self.gzipped = False
        self.body_bytes_max = 0
        self.verdict: bytes | None = None
        self.answer: bytes | None = None
        self.legacy = False
        """HTTP/1.0: a connection that lives on must be said to."""
        self.close = False
        self.unread = False
        """The client may still be sending when the answer is written."""
        self.continue_due = False

    def respond(self, answer: bytes) -> None:
        """Give the answer; it is written once all earlier requests of the connection have theirs."""
        self.answer = answer
        self._line.flush()

    def wire(self, answer: bytes) -> bytes:
        """The answer as this client has to get it."""
        if self.method == b"HEAD":
            answer = answer[: answer.index(b"\r\n\r\n") + 4]
        if self.close:
            return answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        if self.legacy:
            return answer.replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1)
        return answer
