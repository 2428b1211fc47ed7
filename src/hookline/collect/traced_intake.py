"""The intake where calls are traced: a span for each call that is, whose context its events carry on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from hookline.collect.counters import Counters
from hookline.collect.http.downloads import Downloads
from hookline.collect.http.request import Exchange, Line
from hookline.collect.intake import Appends, Intake
from hookline.collect.rate_limits import RateLimits
from hookline.telemetry.tracing import Span, TraceContext, Tracing

_TRACEPARENT = b"traceparent"
_SERVER_ERROR = 500


class TracedIntake(Intake):
    """As any intake; a call begins to be traced when its body is there, and ends with its answer."""

    def __init__(
        self,
        appender: Appends,
        counters: Counters,
        clock: Callable[[], float],
        downloads: Downloads,
        limits: RateLimits,
        tracing: Tracing,
    ) -> None:
        super().__init__(appender, counters, clock, downloads, limits)
        self._tracing = tracing

    def take(self, exchange: Exchange, body: bytes) -> None:
        """Answer a whole request of a collection path, at once or when its events are durable."""
        sent = exchange.headers.get(_TRACEPARENT)
        begun = self._tracing.begin(None if sent is None else sent.decode("latin-1"))
        if begun is not None:
            context, parent_id = begun
            # A new table: the one that is there may be a remembered head's.
            exchange.headers = {**exchange.headers, _TRACEPARENT: context.traceparent.encode()}
            exchange.line = _TracedCall(exchange, self._tracing, context, parent_id)
        super().take(exchange, body)

    def _stored(
        self, exchange: Exchange, answer: bytes, accepted: int, rejected: Sequence[str], error: BaseException | None
    ) -> None:
        if isinstance(exchange.line, _TracedCall):
            exchange.line.events = accepted
        super()._stored(exchange, answer, accepted, rejected, error)


class _TracedCall:
    """Stands in for an exchange's line until there is an answer: then the span ends."""

    __slots__ = ("_context", "_exchange", "_line", "_parent_id", "_path", "_start_ns", "_tracing", "address", "events")

    def __init__(self, exchange: Exchange, tracing: Tracing, context: TraceContext, parent_id: str | None) -> None:
        self.events = 0
        self._exchange = exchange
        self._line: Line = exchange.line
        self._path = exchange.path.decode()  # which the exchange lets go of
        self.address = exchange.line.address
        self._tracing = tracing
        self._context = context
        self._parent_id = parent_id
        self._start_ns = time.time_ns()

    @property
    def peer(self) -> str:
        """Return the address at the line's other end."""
        return self._line.peer

    def turn_of(self, who: object) -> object:
        """As the line says."""
        return self._line.turn_of(who)

    def flush(self) -> None:
        """End the span, and write every answer whose turn has come."""
        exchange = self._exchange
        exchange.line = self._line
        method, path, answer = exchange.method.decode(), self._path, exchange.answer
        status = 0 if answer is None else int(answer[9:12])
        attributes: dict[str, str | int] = {
            "http.request.method": method,
            "http.route": path,
            "http.response.status_code": status,
            "hookline.events": self.events,
        }
        if exchange.source is not None:
            attributes["hookline.source"] = exchange.source.id
        error = f"answered {status}" if status >= _SERVER_ERROR else ""
        end_ns = time.time_ns()
        name = f"{method} {path}"
        span = Span(name, "server", self._context, self._parent_id, self._start_ns, end_ns, attributes, error)
        self._tracing.add(span)
        self._line.flush()
