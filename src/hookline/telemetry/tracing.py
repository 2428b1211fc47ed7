"""Traces: the context that calls, records and requests carry, and spans on their way to an OpenTelemetry collector.

Whoever makes a span never waits for it: it is put into a bounded queue and sent by a thread. What has no room there, or
what the collector does not take, is dropped and counted. Imported only where the settings ask for traces.
"""

from __future__ import annotations

import os
import random
import re
import threading
from collections import deque
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from hookline.telemetry.log import logger

QUEUE_SPANS_MAX = 4_096
BATCH_SPANS_MAX = 512
EXPORT_SECONDS = 1.0
"""How long a span waits for others to be sent with it."""
CLOSE_SECONDS = 2.0
"""How long closing waits for the collector to take what is left."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED = 0x01


class TraceContext(NamedTuple):
    """Hold what a ``traceparent`` says (W3C Trace Context): ids in hexadecimal, and whether its spans are kept."""

    trace_id: str
    span_id: str
    sampled: bool

    @property
    def traceparent(self) -> str:
        """As the value of the header."""
        return f"00-{self.trace_id}-{self.span_id}-{int(self.sampled):02x}"

    def child(self) -> TraceContext:
        """Return the context of a new span below this one."""
        return self._replace(span_id=new_span_id())


class Span(NamedTuple):
    """Something that took time, at its end. Times are nanoseconds since the epoch; ``error`` is empty where all went
    well. Attributes hold neither what an event says, nor secrets, nor more of a URL than its host."""

    name: str
    kind: Literal["server", "client"]
    context: TraceContext
    parent_id: str | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str | int]
    error: str = ""


class SpanExporter(Protocol):
    """Sends spans, and waits for the answer."""

    def send(self, spans: list[Span]) -> str:
        """Send them; return why they were not taken, empty when they were."""

    def close(self) -> None:
        """Try nothing again, and let go of connections."""


class Tracing:
    """The traces of one process. ``add`` may be called on one thread beside the one that sends."""

    def __init__(self, exporter: SpanExporter, ratio: float) -> None:
        self._sent = 0
        self._exporter = exporter
        self._ratio = ratio
        self._queue: deque[Span] = deque()
        self._overflowed = 0
        self._refused = 0
        self._wake = threading.Event()
        self._closing = False
        self._is_refused = False
        self._log = logger()
        self._thread = threading.Thread(target=self._run, name="span-export", daemon=True)
        self._thread.start()

    def begin(self, traceparent: str | None) -> tuple[TraceContext, str | None] | None:
        """Return the context of a span for a call with this header, and its parent's id; None when it is not to be
        traced.

        A caller that says whether its trace is kept is followed; of the other calls a share begins a trace.
        """
        caller = parse_traceparent(traceparent)
        if caller is not None:
            return (caller.child(), caller.span_id) if caller.sampled else None
        if random.random() >= self._ratio:
            return None
        return TraceContext(os.urandom(16).hex(), new_span_id(), True), None

    def add(self, span: Span) -> None:
        """Have a span sent; never waits."""
        if len(self._queue) >= QUEUE_SPANS_MAX:
            self._overflowed += 1
            return
        self._queue.append(span)
        if len(self._queue) == BATCH_SPANS_MAX:
            self._wake.set()

    @property
    def counts(self) -> dict[str, int]:
        """Return how many spans the collector took, and how many were dropped, so far."""
        return {"sent": self._sent, "dropped": self._overflowed + self._refused}

    def close(self) -> None:
        """Send what is left, for a moment, and end; idempotent."""
        if not self._closing:
            self._closing = True
            self._wake.set()
            self._thread.join(CLOSE_SECONDS)
            self._exporter.close()

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(EXPORT_SECONDS)
            self._wake.clear()
            while self._queue:
                self._send([self._queue.popleft() for _ in range(min(len(self._queue), BATCH_SPANS_MAX))])
                if self._closing and self._is_refused:
                    return

    def _send(self, spans: list[Span]) -> None:
        try:
            reason = self._exporter.send(spans)
        except Exception as error:  # noqa: BLE001 - the thread's border: spans are dropped, the service goes on
            reason = repr(error)
        if reason:
            self._refused += len(spans)
        else:
            self._sent += len(spans)
        if reason and not self._is_refused:
            next_step = "spans are dropped and counted until the collector that tracing.endpoint names takes them"
            self._log.warning("traces_refused", reason=reason, next_step=next_step)
        elif self._is_refused and not reason:
            self._log.info("traces_taken_again")
        self._is_refused = bool(reason)


def parse_traceparent(text: str | None) -> TraceContext | None:
    """Read the header's value; None for one that is missing or means nothing."""
    found = _TRACEPARENT.fullmatch(text or "")
    return None if found is None else TraceContext(found[1], found[2], bool(int(found[3], 16) & _SAMPLED))


def new_span_id() -> str:
    """Return an id no other span of the trace has."""
    return os.urandom(8).hex()
