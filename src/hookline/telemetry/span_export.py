"""Sends spans by OTLP over HTTP, with OpenTelemetry's own encoder and client: headers, time limit, certificates and the
resource come from its standard environment (``OTEL_EXPORTER_OTLP_HEADERS``, ``OTEL_RESOURCE_ATTRIBUTES`` and so on).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from hookline import __version__
from hookline.telemetry.tracing import Span

TRACES_PATH = "/v1/traces"

_KINDS = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT}
_FLAGS = TraceFlags(TraceFlags.SAMPLED)


class OtlpExporter:
    """Sends to ``endpoint``, the address of a collector without the path; ``service`` unless ``OTEL_SERVICE_NAME``."""

    def __init__(self, endpoint: str, service: str) -> None:
        self._said = _LastComplaint()
        # Its own lines are not ours: what they say becomes the reason of ours.
        library = logging.getLogger("opentelemetry")
        library.propagate = False
        library.addHandler(self._said)
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
        self._resource = Resource.create({"service.version": __version__, **named})
        self._scope = InstrumentationScope("hookline", __version__)
        self._exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + TRACES_PATH)

    def send(self, spans: Sequence[Span]) -> str:
        """Send them; return why they were not taken, empty when they were."""
        self._said.last = "not taken"
        result = self._exporter.export([self._readable(span) for span in spans])
        return "" if result is SpanExportResult.SUCCESS else self._said.last

    def close(self) -> None:
        """Try nothing again, and let go of connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the library leaves it without types

    def _readable(self, span: Span) -> ReadableSpan:
        trace_id = int(span.context.trace_id, 16)
        parent = None
        if span.parent_id is not None:
            parent = SpanContext(trace_id, int(span.parent_id, 16), is_remote=True, trace_flags=_FLAGS)
        return ReadableSpan(
            span.name,
            SpanContext(trace_id, int(span.context.span_id, 16), is_remote=False, trace_flags=_FLAGS),
            parent,
            self._resource,
            span.attributes,
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )


class _LastComplaint(logging.Handler):
    """Keeps the last thing that OpenTelemetry's client complained about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()
