"""Requests to receivers that carry on an event's trace: each has a span, whose context is its ``traceparent``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from hookline.connections.model import Destination
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import Delivery
from hookline.deliver.lanes.lane import Target
from hookline.deliver.send.port import Answer, Failure, Sink, Successes
from hookline.deliver.send.request import Template
from hookline.telemetry.tracing import Span, TraceContext, Tracing, parse_traceparent

HEADER = "traceparent"


class TracedTemplate(Template):
    """Has requests carry ``traceparent``: their own span's, or the caller's where its trace is not kept."""

    __slots__ = ("_inner", "begun")

    def __init__(self, inner: Template) -> None:
        super().__init__(inner.url, b"", None)
        self.begun: dict[int, TraceContext] = {}
        """The contexts of requests without an answer, by the event's position: a lane has one at a time for each."""
        self._inner = inner

    def hidden(self, text: str) -> str:
        """Return a text with the credentials masked."""
        return self._inner.hidden(text)

    def request(self, event: Event) -> bytes:
        """Return the whole request."""
        return self._carrying(event, self._inner.request(event))

    def requests(self, events: Sequence[Event]) -> list[bytes]:
        """Return the requests of several events."""
        made = self._inner.requests(events)
        return [self._carrying(event, request) for event, request in zip(events, made, strict=True)]

    def _carrying(self, event: Event, request: bytes) -> bytes:
        context = parse_traceparent(event.record.traceparent)
        if context is None:
            return request
        if context.sampled:
            context = self.begun[event.position] = context.child()
        end = request.index(b"\r\n\r\n")
        return b"%b\r\n%b: %b%b" % (request[:end], HEADER.encode(), context.traceparent.encode(), request[end:])


class TracedSink(Sink):
    """Ends the span of a request when its result is there, and tells the result on."""

    def __init__(self, inner: Sink, tracing: Tracing) -> None:
        self._inner = inner
        self._tracing = tracing

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take one result."""
        self._end(token, target, milliseconds, result if failure is None else failure.status, failure)
        self._inner.answered(token, target, result, milliseconds, failure)

    def succeeded(self, successes: Iterable[Successes], answered_seconds: float | None = None) -> None:
        """Take the successes of one turn."""
        successes = list(successes)
        for tokens, target, status, milliseconds in successes:
            for token in tokens:
                self._end(token, target, milliseconds, status, None)
        self._inner.succeeded(successes, answered_seconds)

    def answered_whole(self, token: object, target: Target, answer: Answer, milliseconds: int) -> None:
        """Take a whole answer; requests that are answered so have no span of their own."""
        self._inner.answered_whole(token, target, answer, milliseconds)

    def go_on(self) -> None:
        """Begin what there is room for."""
        self._inner.go_on()

    def _end(
        self, token: object, target: Target, milliseconds: int, status: int | None, failure: Failure | None
    ) -> None:
        # What departures gave: an event stands for its first attempt.
        event, attempt = (token.event, token.attempt) if isinstance(token, Delivery) else (token, 1)
        if not isinstance(target.template, TracedTemplate):  # such as a parcel's, which is of many events
            return
        assert isinstance(event, Event)
        if event.record.traceparent is None:
            return
        context = target.template.begun.pop(event.position, None)
        parent = parse_traceparent(event.record.traceparent)
        if context is None or parent is None:
            return
        destination = target.lane.destination
        attributes: dict[str, str | int] = {
            "http.request.method": "POST",
            "server.address": target.template.receiver.host,
            "server.port": target.template.receiver.port,
            "hookline.destination": destination.id,
            "hookline.source": event.record.source,
            "hookline.message_id": event.record.message_id,
            "hookline.attempt": attempt,
        }
        if status:
            attributes["http.response.status_code"] = status
        if failure is not None:
            attributes["error.type"] = failure.outcome.value
        end_ns = time.time_ns()
        error = "" if failure is None else failure.outcome.value
        name, start_ns = f"deliver {destination.id}", end_ns - milliseconds * 1_000_000
        self._tracing.add(Span(name, "client", context, parent.span_id, start_ns, end_ns, attributes, error))


def traced(templates: tuple[Template, ...], destination: Destination) -> tuple[Template, ...]:
    """Return a destination's templates with requests traced; one with a ``traceparent`` of its own keeps that."""
    return tuple(
        template if HEADER in (name.lower() for name in webhook.headers) else TracedTemplate(template)
        for template, webhook in zip(templates, destination.settings.webhooks, strict=True)
    )
