"""Traces without a service: what a header means, bounds, and what is not loaded while they are off."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from hookline.settings import SettingsError, load
from hookline.telemetry.tracing import (
    QUEUE_SPANS_MAX,
    Span,
    TraceContext,
    Tracing,
    parse_traceparent,
)
from tests.service.waiting import wait_until

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
A_SPAN = Span("deliver crm", "client", TraceContext(TRACE, SPAN, True), None, 1, 2, {})


class Stalled:
    """A collector that answers when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.taken = 0

    def send(self, spans: list[Span]) -> str:
        self.let.wait()
        self.taken += len(spans)
        return ""

    def close(self) -> None:
        self.let.set()


@pytest.mark.parametrize(
    ("text", "sampled"),
    [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), (f"42-{TRACE}-{SPAN}-03", True)],
)
def test_a_header_says_whose_trace_it_is_and_whether_it_is_kept(text: str, sampled: bool) -> None:
    """Of a newer version, what this one knows is read."""
    assert parse_traceparent(text) == TraceContext(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "text",
    [None, "", f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}"],
)
def test_a_header_that_means_nothing_is_none(text: str | None) -> None:
    """As W3C Trace Context has it."""
    assert parse_traceparent(text) is None


def test_what_waits_for_a_slow_collector_is_bounded() -> None:
    """Adding never waits; what has no room is counted as dropped, the rest is sent."""
    stalled = Stalled()
    tracing = Tracing(stalled, 1.0)
    more = 1_000
    for _ in range(3 * QUEUE_SPANS_MAX):
        tracing.add(A_SPAN)
    dropped = tracing.counts["dropped"]
    assert dropped >= 3 * QUEUE_SPANS_MAX - QUEUE_SPANS_MAX - more
    stalled.let.set()
    wait_until(lambda: tracing.counts == {"sent": 3 * QUEUE_SPANS_MAX - dropped, "dropped": dropped})
    tracing.close()
    tracing.close()
    assert stalled.taken == 3 * QUEUE_SPANS_MAX - dropped


def test_the_ratio_decides_for_callers_that_do_not_say() -> None:
    """None of them with 0, all with 1; who says is followed with either."""
    for ratio in (0.0, 1.0):
        tracing = Tracing(Stalled(), ratio)
        assert (tracing.begin(None) is not None) == bool(ratio)
        assert tracing.begin(f"00-{TRACE}-{SPAN}-00") is None
        begun = tracing.begin(f"00-{TRACE}-{SPAN}-01")
        assert begun is not None
        context, parent_id = begun
        assert (context.trace_id, parent_id) == (TRACE, SPAN)
        assert context.span_id != SPAN
        tracing.close()


def test_nothing_is_loaded_while_traces_are_off() -> None:
    """Neither OpenTelemetry nor what speaks to it."""
    unwanted = "{name for name in sys.modules if 'opentelemetry' in name or 'tracing' in name or 'traced' in name}"
    program = f"import sys, hookline.collect.role, hookline.deliver.role; print(sorted({unwanted}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_standard_variable_names_the_collector_and_ours_wins() -> None:
    """``OTEL_EXPORTER_OTLP_ENDPOINT`` turns traces on; where it came from is told."""
    standard = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://standard:4318"}
    settings, origins = load(None, standard)
    assert settings.tracing.endpoint == "http://standard:4318"
    assert "env OTEL_EXPORTER_OTLP_ENDPOINT" in [each.source for each in origins if each.key == "tracing.endpoint"]
    settings, _ = load(None, {**standard, "HOOKLINE_TRACING_ENDPOINT": "http://ours:4318"})
    assert settings.tracing.endpoint == "http://ours:4318"


@pytest.mark.parametrize(
    ("key", "value"),
    [("endpoint", "collector:4318"), ("ratio", "2"), ("ratio", "-1"), ("ratio", "nan"), ("ratio", "x")],
)
def test_settings_that_cannot_be_are_refused(key: str, value: str) -> None:
    """With the key and what to write."""
    with pytest.raises(SettingsError, match=f"tracing.{key}"):
        load(None, {}, {f"tracing.{key}": value})
