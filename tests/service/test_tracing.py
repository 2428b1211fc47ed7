"""Traces from a client's call to the receiver's request, as a collector and a receiver see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hookline.bench.service import free_port
from tests.service.harness import Hookline, Receiver, Reply, Request, new_id, wait_until, webhook
from tests.service.otlp import Collector, SeenSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SECRETS = ("t0ken-in-a-path", "t0ken-in-a-query", "t0ken-in-a-header", "sh4red", "in-a-body", "wk_site")


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that takes everything."""
    with Collector() as running:
        yield running


def traceparent(flags: str = "01") -> dict[str, str]:
    """A caller's header."""
    return {"traceparent": f"00-{TRACE}-{CALLER}-{flags}"}


def call(hookline: Hookline, headers: dict[str, str] | None = None, **more: Any) -> str:
    """Send one event; return its messageId."""
    message = new_id()
    body = {"userId": "u", "event": "Test", "messageId": message, **more}
    assert hookline.post("/v1/track", body, headers=headers).status == 200
    return message


def of(role: str) -> Callable[[SeenSpan], bool]:
    """Whether a span is of this role."""
    return lambda span: span.service == f"hookline-{role}"


def test_one_trace_leads_from_the_call_to_the_receivers_request(
    receiver: Receiver, collector: Collector, new_hookline: Callable[..., Hookline]
) -> None:
    """The caller's span is the parent of collect's, that one of deliver's, whose id the receiver gets. No span holds a
    secret, a body or more of a URL than its host."""
    url = receiver.url("/hook/t0ken-in-a-path?key=t0ken-in-a-query")
    destination = webhook("crm", url, secret="sh4red", headers={"Authorization": "t0ken-in-a-header"})
    with new_hookline(destination, settings={"tracing.endpoint": collector.endpoint, "tracing.ratio": 0}) as hookline:
        untraced = call(hookline)
        message = call(hookline, traceparent(), properties={"note": "in-a-body"})
        (request,) = receiver.wait_for(message)
        (accepted,) = collector.wait_for_spans(1, of("collect"))
        (delivered,) = collector.wait_for_spans(1, of("deliver"))
        assert {accepted.trace_id, delivered.trace_id} == {TRACE}
        assert (accepted.name, accepted.parent_id) == ("POST /v1/track", CALLER)
        assert (delivered.name, delivered.parent_id) == ("deliver crm", accepted.span_id)
        assert request.headers["traceparent"] == f"00-{TRACE}-{delivered.span_id}-01"
        assert accepted.attributes == {
            "http.request.method": "POST",
            "http.route": "/v1/track",
            "http.response.status_code": 200,
            "hookline.source": "site",
            "hookline.events": 1,
        }
        assert delivered.attributes == {
            "http.request.method": "POST",
            "http.response.status_code": 200,
            "server.address": "127.0.0.1",
            "server.port": receiver.port,
            "hookline.destination": "crm",
            "hookline.source": "site",
            "hookline.message_id": message,
            "hookline.attempt": 1,
        }
        assert accepted.start_ns <= accepted.end_ns
        assert delivered.start_ns <= delivered.end_ns
        assert "traceparent" not in receiver.wait_for(untraced)[0].headers
        assert not any(secret.encode() in sent.body for secret in SECRETS for sent in collector.requests)
        wait_until(lambda: hookline.metric("hookline_deliver_spans_total") == 1, what="spans are counted")


def test_a_share_of_calls_begins_a_trace(
    receiver: Receiver, collector: Collector, new_hookline: Callable[..., Hookline]
) -> None:
    """With all of them traced a batch is one span, and each of its events' requests another below it."""
    settings = {"tracing.endpoint": collector.endpoint, "tracing.ratio": 1}
    with new_hookline(webhook("crm", receiver.url()), settings=settings) as hookline:
        batch = [{"type": "track", "userId": "u", "event": "Test", "messageId": new_id()} for _ in range(3)]
        for _ in range(2):  # the second has a head that is known already
            assert hookline.post("/v1/batch", {"batch": batch}).status == 200
            batch = [{**each, "messageId": new_id()} for each in batch]
        first, second = collector.wait_for_spans(2, of("collect"))
        delivered = collector.wait_for_spans(6, of("deliver"))
        assert first.trace_id != second.trace_id
        assert (first.parent_id, first.attributes["hookline.events"]) == ("", 3)
        for accepted in (first, second):
            below = [span for span in delivered if span.trace_id == accepted.trace_id]
            assert [span.parent_id for span in below] == [accepted.span_id] * 3


def test_a_caller_that_keeps_no_trace_is_followed(
    receiver: Receiver, collector: Collector, new_hookline: Callable[..., Hookline]
) -> None:
    """Its header reaches the receiver as it is, and there is no span of it; what means nothing is not passed on."""
    settings = {"tracing.endpoint": collector.endpoint, "tracing.ratio": 0}
    with new_hookline(webhook("crm", receiver.url()), settings=settings) as hookline:
        unkept = call(hookline, traceparent("00"))
        wrong = call(hookline, {"traceparent": f"00-{'0' * 32}-{CALLER}-01"})
        kept = call(hookline, traceparent())
        assert receiver.wait_for(unkept)[0].headers["traceparent"] == traceparent("00")["traceparent"]
        assert "traceparent" not in receiver.wait_for(wrong)[0].headers
        receiver.wait_for(kept)
        spans = collector.wait_for_spans(2)
        assert {span.service for span in spans} == {"hookline-collect", "hookline-deliver"}
        assert len(collector.spans) == 2


def test_every_attempt_at_every_url_has_a_span(
    receiver: Receiver, collector: Collector, new_hookline: Callable[..., Hookline]
) -> None:
    """A retry is another span below the same call, and says what came of it; so is another URL."""
    failures = 1

    def respond(request: Request) -> Reply:
        nonlocal failures
        failures -= 1
        return Reply(503 if failures >= 0 else 200)

    receiver.respond = respond
    with Receiver() as gone:
        gone.reply_with(410)
        settings = {"tracing.endpoint": collector.endpoint}
        destination = webhook("crm", receiver.url(), gone.url())
        with new_hookline(destination, settings=settings) as hookline:
            message = call(hookline, traceparent())
            hookline.wait_status(message, "crm", "delivered")
            (accepted,) = collector.wait_for_spans(1, of("collect"))
            spans = collector.wait_for_spans(3, of("deliver"))
    told = {(span.attributes["server.port"], span.attributes["hookline.attempt"]): span for span in spans}
    again, failed, final = told[receiver.port, 2], told[receiver.port, 1], told[gone.port, 1]
    assert (again.failed, again.attributes["http.response.status_code"]) == (False, 200)
    assert (failed.failed, failed.attributes["error.type"]) == (True, "server_error")
    assert (final.failed, final.attributes["http.response.status_code"]) == (True, 410)
    assert {span.parent_id for span in spans} == {accepted.span_id}
    assert {request.headers["traceparent"] for request in receiver.requests} == {
        f"00-{TRACE}-{span.span_id}-01" for span in (again, failed)
    }


def test_a_batch_without_an_answer_comes_again(collector: Collector, new_hookline: Callable[..., Hookline]) -> None:
    """Its request is of many events, and has no span: what becomes of them is found out all the same."""
    request = {"name": "all", "url": f"http://127.0.0.1:{free_port()}/", "batch": {"size": 10, "wait": 0.1}}
    api = {"id": "api", "name": "api", "kind": "http", "sources": ["site"], "settings": {}, "mapping": [request]}
    with new_hookline(api, settings={"tracing.endpoint": collector.endpoint}) as hookline:
        hookline.wait_status(call(hookline, traceparent()), "api", "retrying")


def test_a_collector_that_is_away_holds_nothing_up(receiver: Receiver, new_hookline: Callable[..., Hookline]) -> None:
    """Events are delivered, spans dropped and counted, and the log says so once; they go on when it is back."""
    port = free_port()
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    settings = {"tracing.ratio": 1}
    with new_hookline(webhook("crm", receiver.url()), settings=settings, environment=environment) as hookline:
        messages = [call(hookline) for _ in range(20)]
        for message in messages:
            receiver.wait_for(message)
        wait_until(lambda: hookline.log.count("traces_refused") == 2, 60, "collect and deliver say so")
        wait_until(lambda: hookline.metric("hookline_deliver_spans_total") == 20, 60, "spans are counted as dropped")
        with Collector(port) as collector:
            last = call(hookline, traceparent())
            (span,) = collector.wait_for_spans(1, lambda span: span.attributes.get("hookline.message_id") == last)
            assert span.trace_id == TRACE
            wait_until(lambda: "traces_taken_again" in hookline.log, what="it says that they are taken again")
