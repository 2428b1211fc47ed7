"""Whole, ordinary 2xx answers, as nearly all are: recognised without a parser and told to the sink once per turn.

What they lead to costs much less for many at once than for each by itself. Until the end of the turn an event so
answered counts as one in flight, and a crash then sends it again as one of those. So its connection takes no other
request before: of each connection that a crash cuts at most the last request is sent again.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from hookline.deliver.answer_head import HEAD_BYTES_MAX
from hookline.deliver.sink import Sink, Success

if TYPE_CHECKING:
    from hookline.deliver.connection import Connection


class PlainAnswers:
    """The plain answers of one turn of the event loop."""

    __slots__ = ("_at_seconds", "_sink", "began", "milliseconds", "resting", "waiting")

    def __init__(self, sink: Sink) -> None:
        self.waiting: list[Success] = []
        self.resting: list[Connection] = []
        """The connections that they came on, all open: idle once the answers are noted."""
        self.began = 0.0
        """When the requests began whose answers are coming; those of one burst began at one moment."""
        self.milliseconds = 0
        """How long these took."""
        self._at_seconds = 0.0
        """When the first answer of the turn came; the others are a fraction of a millisecond younger."""
        self._sink = sink

    def begin(self, began: float) -> None:
        """The answers about to be put into ``waiting`` are of requests that began at another moment, or the first ones
        of a turn."""
        if not self.waiting:
            self._at_seconds = monotonic()
            asyncio.get_running_loop().call_soon(self.tell)
        self.began = began
        self.milliseconds = int((self._at_seconds - began) * 1000.0)

    def tell(self) -> None:
        """Tell the sink, which notes them, and let it go on."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        resting, self.resting = self.resting, []
        now, self.began = self._at_seconds, 0.0
        self._sink.succeeded(waiting)
        for connection in resting:
            connection.idle_since = now
            connection.pool.idle.append(connection)
        self._sink.go_on()


def plain_success(data: bytes) -> int:
    """The status of a whole, ordinary 2xx answer in one piece, else 0: nearly all answers are such, and need no parser.

    Anything unusual (chunks, ``Connection: close``, a length that does not fit exactly) is left to the parser.
    """
    end = data.find(b"\r\n\r\n")
    if data[:10] != b"HTTP/1.1 2" or end < 0 or end > HEAD_BYTES_MAX:
        return 0
    head = data[9:end].lower()
    at = head.find(b"\r\ncontent-length: ")
    if at < 0 or head.count(b"content-length") != 1 or b"transfer-encoding" in head or b"close" in head:
        return 0
    length = head[at + 18 :].split(b"\r", 1)[0]
    if len(length) > 5 or not length.isdigit() or len(data) != end + 4 + int(length):
        return 0
    status = head[:3]
    return int(status) if status.isdigit() and head[3:4] == b" " else 0
