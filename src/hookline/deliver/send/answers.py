"""Whole, ordinary 2xx answers, as nearly all are: recognised without a parser and told to the sink once per turn.

What they lead to costs much less for many at once than for each by itself. Until the end of the turn an event so
answered counts as one in flight, and a crash then sends it again as one of those. So its connection takes no other
request before: of each connection that a crash cuts at most the last request is sent again.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from hookline.deliver.send.answer_head import HEAD_BYTES_MAX
from hookline.deliver.send.burst import Burst
from hookline.deliver.send.port import Sink, Successes

if TYPE_CHECKING:
    from hookline.deliver.send.connection import Connection


class PlainAnswers:
    """The plain answers of one turn of the event loop, in runs of those that are alike."""

    __slots__ = ("_runs", "_sink", "at_seconds", "burst", "resting", "tokens")

    def __init__(self, sink: Sink) -> None:
        self.burst: Burst | None = None
        """What the requests of the current run left with; None: there is no run."""
        self.tokens: list[object] = []
        """Those of the current run."""
        self.resting: list[Connection] = []
        """The connections that its answers came on, all open: idle once the answers are noted."""
        self.at_seconds = 0.0
        """When the first answer of the turn came; the others are a fraction of a millisecond younger."""
        self._runs: list[tuple[Successes, list[Connection]]] = []
        self._sink = sink

    def begin(self, burst: Burst, status: int) -> None:
        """Begin a run: the answers about to be noted are of another burst, or another status, than those before."""
        if not self._runs:
            self.at_seconds = monotonic()
            self.tell_soon()
        self.burst, self.tokens, self.resting = burst, [], []
        milliseconds = int((self.at_seconds - burst.began) * 1000.0)
        self._runs.append(((self.tokens, burst.target, status, milliseconds), self.resting))

    def forget(self, connection: Connection) -> None:
        """A connection is no longer open; what it answered stands."""
        for _, resting in self._runs:
            if connection in resting:
                resting.remove(connection)

    def tell_soon(self) -> None:
        """Tell the sink when this turn is over."""
        asyncio.get_running_loop().call_soon(self.tell)

    def tell(self) -> None:
        """Tell the sink, which notes them, and let it go on."""
        runs, self._runs = self._runs, []
        if not runs:
            return
        self.burst = None
        self._sink.succeeded([successes for successes, _ in runs])
        for _, resting in runs:
            if resting:
                resting[0].pool.idle.extend(resting)
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
