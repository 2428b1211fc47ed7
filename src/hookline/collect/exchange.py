"""One request and the answer to it, from the end of its head until its turn to be answered has come."""

from __future__ import annotations

from typing import Protocol

import msgspec

from hookline.collect.clients import Address
from hookline.collect.router import Route
from hookline.connections.model import Source

Headers = dict[bytes, bytes]
"""The few headers that are looked at, names in lower case."""


class Line(Protocol):
    """The connection an exchange belongs to, and whose it is."""

    address: Address | None

    @property
    def peer(self) -> str:
        """The address at its other end, empty when it is gone."""

    def flush(self) -> None:
        """Write every answer whose turn has come."""

    def turn_of(self, who: object) -> object:
        """Return in whose turn the newest request is taken: that of those before it which are not answered."""


class Exchange(msgspec.Struct, eq=False):
    """What is known of one request. A struct, because one is made for every request and that has to be quick.

    ``verdict`` is an answer settled before the body has been read. ``legacy`` is HTTP/1.0: a connection that lives on
    must be said to. ``unread``: the client may still be sending when the answer is written.
    """

    line: Line
    method: bytes
    path: bytes
    query: bytes
    headers: Headers
    route: Route | None = None
    source: Source | None = None
    gzipped: bool = False
    body_bytes_max: int = 0
    verdict: bytes | None = None
    answer: bytes | None = None
    legacy: bool = False
    close: bool = False
    unread: bool = False
    continue_due: bool = False

    def respond(self, answer: bytes) -> None:
        """Give the answer; it is written once all earlier requests of the connection have theirs."""
        self.answer = answer
        self.line.flush()

    def wire(self, answer: bytes) -> bytes:
        """The answer as this client has to get it."""
        if self.method == b"HEAD":
            answer = answer[: answer.index(b"\r\n\r\n") + 4]
        if self.close:
            return answer.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
        if self.legacy:
            return answer.replace(b"\r\n", b"\r\nConnection: keep-alive\r\n", 1)
        return answer
