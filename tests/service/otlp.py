"""A collector of traces: an HTTP receiver that reads what it is sent as OTLP."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.service.receiver import Receiver
from tests.service.waiting import WAIT_SECONDS, wait_until


class SeenSpan(NamedTuple):
    """A span as it arrived, ids in hexadecimal."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    failed: bool
    start_ns: int
    end_ns: int
    attributes: dict[str, str | int]


class Collector(Receiver):
    """Takes spans at ``endpoint``."""

    @property
    def endpoint(self) -> str:
        """What ``tracing.endpoint`` is set to."""
        return self.url("")

    @property
    def spans(self) -> list[SeenSpan]:
        """Every span so far that was answered 200, in the order of arrival."""
        return [span for request in self.requests if request.path == "/v1/traces" for span in _spans(request.body)]

    def wait_for_spans(
        self, count: int, which: Callable[[SeenSpan], bool] = lambda span: True, seconds: float = WAIT_SECONDS
    ) -> list[SeenSpan]:
        """Wait until so many such spans are there; return them."""

        def arrived() -> list[SeenSpan] | None:
            found = [span for span in self.spans if which(span)]
            return found if len(found) >= count else None

        return wait_until(arrived, seconds, f"{count} spans") or []


def _spans(body: bytes) -> list[SeenSpan]:
    found: list[SeenSpan] = []
    for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = next(
            each.value.string_value for each in of_resource.resource.attributes if each.key == "service.name"
        )
        for span in (span for scope in of_resource.scope_spans for span in scope.spans):
            attributes: dict[str, str | int] = {
                each.key: each.value.string_value or each.value.int_value for each in span.attributes
            }
            found.append(
                SeenSpan(
                    service,
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    attributes,
                )
            )
    return found
