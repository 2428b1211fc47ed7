"""The simulated network: takes the sender's requests as bytes and brings back what their receivers answer.

It stands where the pools stand; what a request is about it reads from the bytes, as a receiver does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import NamedTuple, Protocol
from urllib.parse import unquote_to_bytes

from hookline.connections.receiver_url import ReceiverUrl
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.port import Failure, Route, Sender, Sink
from hookline.outcomes.outcome import Outcome, of_status, to_number
from hookline.outcomes.progress import URL_BITS
from hookline.simulation.scheduler import SimulatedLoop

_MESSAGE_ID = re.compile(rb"\r\nX-Message-Id: ([^\r\n]*)\r\n")


class Answer(NamedTuple):
    """What becomes of one request: after ``seconds`` (None: never) a status, or an outcome without one.

    ``taken`` says whether the receiver has processed the event, which the sender may never learn.
    """

    seconds: float | None
    result: int | Outcome
    retry_after: bytes | None = None
    taken: bool = False


class Request:
    """One request on its way; ``lane`` is the lane's number, ``url`` the URL's index."""

    __slots__ = ("answer", "data", "lane", "message_id", "probe", "sent_at", "target", "token", "url")

    def __init__(self, token: object, target: Target, data: bytes, sent_at: float) -> None:
        found = _MESSAGE_ID.search(data)
        assert found is not None
        self.token = token
        self.target = target
        self.data = data
        self.message_id = unquote_to_bytes(found[1]).decode()
        self.lane = target.tag >> URL_BITS
        self.url = target.index
        self.sent_at = sent_at
        self.probe = False
        """Set by whoever watches: sent while its lane's breaker let only single attempts through."""
        self.answer = Answer(None, Outcome.TIMED_OUT)


class Traffic(Protocol):
    """Who sees every request and its answer."""

    def sent(self, request: Request) -> Answer:
        """Return a request leaves; return what will become of it."""

    def told(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        """The sender has taken the answer in."""


class SimulatedPools(Sender):
    """The network as one process sees it; what is under way is lost with the process."""

    def __init__(self, sink: Sink, loop: SimulatedLoop, traffic: Traffic, scale: int = 1) -> None:
        """``scale``: receivers are that many times as slow here as the sender shall believe."""
        self._scale = scale
        self._sink = sink
        self._loop = loop
        self._traffic = traffic
        self._pool = SimulatedPool(self)
        self.under_way: dict[Request, None] = {}

    def of(self, url: ReceiverUrl, pair: tuple[str, str] | None = None) -> Route:
        """Return one pool serves every origin: what a receiver does depends on the request."""
        return self._pool

    @property
    def connections(self) -> int:
        """Return how many there are."""
        return len(self.under_way)

    def keep_only(self, used: Set[Route]) -> None:
        """Nothing is kept per origin."""

    def sweep(self, timeout_seconds: float) -> int:
        """End exchanges that take too long."""
        overdue = self._loop.time() - timeout_seconds
        for request in [request for request in self.under_way if request.sent_at <= overdue]:
            self._end(request, Outcome.TIMED_OUT, None)
        return len(self.under_way)

    def close(self) -> None:
        """Drop everything."""
        self.under_way.clear()

    def take(self, token: object, target: Target, data: bytes) -> None:
        """A request leaves."""
        request = Request(token, target, data, self._loop.time())
        request.answer = self._traffic.sent(request)
        self.under_way[request] = None
        if request.answer.seconds is not None:
            self._loop.call_later(request.answer.seconds, self._arrived, request)

    def _arrived(self, request: Request) -> None:
        if request in self.under_way:
            self._end(request, request.answer.result, request.answer.retry_after)

    def _end(self, request: Request, result: int | Outcome, retry_after: bytes | None) -> None:
        del self.under_way[request]
        milliseconds = int((self._loop.time() - request.sent_at) / self._scale * 1000)
        number, failure = _as_result(result, retry_after)
        if failure is None:
            self._sink.succeeded([([request.token], request.target, number, milliseconds)])
            self._sink.go_on()
        else:
            self._sink.answered(request.token, request.target, number, milliseconds, failure)
        self._traffic.told(request, result, retry_after)


class SimulatedPool(Route):
    """Hands requests to the network."""

    def __init__(self, pools: SimulatedPools) -> None:
        self._pools = pools

    def send(self, target: Target, batch: Iterable[tuple[object, bytes]]) -> None:
        """Send requests, each with its token."""
        for token, request in batch:
            self._pools.take(token, target, request)


def _as_result(result: int | Outcome, retry_after: bytes | None) -> tuple[int, Failure | None]:
    if isinstance(result, Outcome):
        return to_number(result, None), Failure(result, None, result.value)
    if 200 <= result < 300:
        return result, None
    return result, Failure(of_status(result), result, "no", retry_after)
