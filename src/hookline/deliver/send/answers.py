"""Answers of receivers: where a head ends, which answers are ordinary, and how those of one turn go to the sink.

Nearly all are whole, ordinary 2xx answers. They are recognised without a parser and handed to the sink once per turn:
what they lead to costs much less for many at once than for each by itself. Until the end of the turn an event so
answered counts as one in flight, and a crash then sends it again as one of those. So its connection takes no other
request before: of each connection that a crash cuts at most the last request is sent again.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from hookline.deliver.send.port import Opaque, Sink, Successes

HEAD_KEPT_BYTES = 1024
HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 64 * 1024
END_OF_HEAD = re.compile(rb"\n\r?\n")
"""An empty line; a line may end with a bare LF (RFC 9112 section 2.2)."""
END_OF_HEAD_BYTES_MAX = len(b"\r\n\r\n")

ConnectionT = TypeVar("ConnectionT")


class RequestBatch:
    """Hold what requests that were sent in one go have in common."""

    __slots__ = ("began", "target", "whole")

    def __init__(self, target: Opaque, began: float, whole: int = 0) -> None:
        self.whole = whole
        """How much of an answer's body is read before it is handed over; 0: its status is enough."""
        self.target = target
        """Whom they are for."""
        self.began = began
        """When they left, in seconds of the monotonic clock."""


class PlainAnswers(Generic[ConnectionT]):
    """The plain answers of one turn of the event loop, in runs of those that are alike."""

    __slots__ = ("_runs", "_sink", "_soon", "at_seconds", "batch", "resting", "tokens")

    def __init__(self, sink: Sink, soon: Callable[[Callable[[], None]], object] | None = None) -> None:
        """``soon`` calls what it is given at the end of a turn; by default of one of the event loop that runs."""
        self.batch: RequestBatch | None = None
        """What the requests of the current run left with; None: there is no run."""
        self.tokens: list[Opaque] = []
        """Those of the current run."""
        self.resting: list[ConnectionT] = []
        """The connections that its answers came on, all open: idle once the answers are noted."""
        self.at_seconds = 0.0
        """When the first answer of the turn came; the others are a fraction of a millisecond younger."""
        self._runs: list[tuple[Successes, list[ConnectionT], deque[ConnectionT]]] = []
        self._sink = sink
        self._soon = soon

    def begin(self, batch: RequestBatch, status: int, idle: deque[ConnectionT]) -> None:
        """Begin a run: the answers about to be noted are of another batch, or another status, than those before.

        Their connections join the ``idle`` ones when the run was handed over.
        """
        if not self._runs:
            self.at_seconds = monotonic()
            (self._soon or asyncio.get_running_loop().call_soon)(self.hand_over)
        self.batch, self.tokens, self.resting = batch, [], []
        milliseconds = int((self.at_seconds - batch.began) * 1000.0)
        self._runs.append(((self.tokens, batch.target, status, milliseconds), self.resting, idle))

    def forget(self, connection: ConnectionT) -> None:
        """Let go of a connection that is no longer open; what it answered stands."""
        for _, resting, _ in self._runs:
            if connection in resting:
                resting.remove(connection)

    def hand_over(self) -> None:
        """Tell the sink, which notes them, and let it go on."""
        runs, self._runs = self._runs, []
        if not runs:
            return
        self.batch = None
        self._sink.succeeded([successes for successes, _, _ in runs], self.at_seconds)
        for _, resting, idle in runs:
            idle.extend(resting)
        self._sink.go_on()


def plain_success(data: bytes) -> int:
    """Return the status of a whole, ordinary 2xx answer in one piece, else 0.

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


def own_head(received: bytes | bytearray) -> bytes:
    """Return status line and headers of the answer itself, without interim answers before it and the body after it."""
    start, end = _own(received)
    return bytes(received[start : end.start() if end is not None else len(received)]).removesuffix(b"\r")


def is_whole(received: bytes | bytearray) -> bool:
    """Return whether the head of the answer itself, behind any interim ones, has come to its end."""
    return _own(received)[1] is not None


def answer_head(received: bytes, bytes_max: int = HEAD_KEPT_BYTES) -> str:
    """Return the beginning of the answer's own head."""
    return own_head(received)[:bytes_max].decode("latin-1")


def _own(received: bytes | bytearray) -> tuple[int, re.Match[bytes] | None]:
    start, end = 0, END_OF_HEAD.search(received)
    while end is not None and received[start + 8 : start + 10] == b" 1":
        start = end.end()
        end = END_OF_HEAD.search(received, start)
    return start, end
