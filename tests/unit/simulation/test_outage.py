"""Outages: the shape of what happens is right, nothing is lost that need not be, and scaling changes little."""

from __future__ import annotations

import msgspec
import pytest

from hookline.connections.model import DeliveryOptions
from hookline.outcomes.outcome import Outcome
from hookline.settings import Bytes, Deliver, Retention, Seconds, Settings
from hookline.simulation import outage as module
from hookline.simulation.outage import Outage, Report, scale_of, simulate
from tests.unit.deliver.rig import destination

PLAIN = Outage(
    destination=destination("crm"),
    settings=Settings(),
    rate=20.0,
    outage_seconds=600.0,
    after_seconds=30.0,
    latency_seconds=0.05,
    failure=503,
)


@pytest.fixture(scope="module")
def report() -> Report:
    return simulate(PLAIN)


def test_the_backlog_grows_with_the_rate_and_goes(report: Report) -> None:
    """Ten minutes at 20 events/s are 12,000 events; they go once the receiver is back."""
    assert 12_000 <= report.peak_backlog <= 12_000 + 20 * 620
    assert report.peak_backlog_at_seconds >= 600
    assert report.recovered_after_seconds is not None
    assert report.samples[-1].backlog < report.peak_backlog / 4  # sampled every few seconds while thousands go in one


def test_the_first_event_is_tried_until_it_arrives(report: Report) -> None:
    """Its attempts begin with the outage and end with a success after it."""
    times = [attempt.at_seconds for attempt in report.attempts]
    assert times == sorted(times)
    assert times[0] < 1
    assert [attempt.result for attempt in report.attempts[:-1]] == ["503"] * (len(times) - 1)
    assert (report.attempts[-1].result, times[-1] >= 600) == ("200", True)


@pytest.mark.parametrize(("failure", "retry_after"), [(503, None), (429, 30), (422, None), (Outcome.TIMED_OUT, None)])
def test_a_repaired_receiver_gets_events_within_a_minute(failure: int | Outcome, retry_after: int | None) -> None:
    """However long it was away, and whatever it answered meanwhile."""
    away = msgspec.structs.replace(
        PLAIN, outage_seconds=7_300.0, rate=1.0, failure=failure, retry_after_seconds=retry_after
    )
    report = simulate(away)
    assert report.noticed_after_seconds is not None
    assert report.noticed_after_seconds <= 60 + 5
    assert report.failed == 0


def test_few_requests_meet_the_outage(report: Report) -> None:
    """The breaker opens after about ten seconds, and few events have retry rows."""
    assert report.breaker_opened_seconds is not None
    assert 10 <= report.breaker_opened_seconds < 30
    assert report.peak_retry_rows < 100
    assert (report.expired, report.failed, report.expired_by_retention) == (0, 0, 0)


def test_what_was_tried_before_does_not_expire_during_a_long_recovery() -> None:
    """A lane that is busy catching up still retries what is due: a window that ends meanwhile burns nothing."""
    settings = Settings(deliver=Deliver(retry_window=Seconds(360.0), retry_max=Seconds(20.0)))
    narrow = destination("crm", delivery=DeliveryOptions(max_concurrency=15))
    slow = msgspec.structs.replace(
        PLAIN, destination=narrow, rate=30.0, outage_seconds=300.0, latency_seconds=0.3, settings=settings
    )
    report = simulate(slow)
    assert report.peak_retry_rows > 0
    assert report.recovered_after_seconds is not None
    assert report.recovered_after_seconds > 360 + 60 - 300
    assert report.expired == 0


def test_an_outage_beyond_the_window_burns_what_was_tried() -> None:
    """Events that were tried once expire with their window; those that only waited do not."""
    settings = Settings(deliver=Deliver(retry_window=Seconds(120.0), retry_max=Seconds(20.0)))
    report = simulate(msgspec.structs.replace(PLAIN, settings=settings))
    assert 0 < report.expired <= report.attempts_of_all
    assert report.recovered_after_seconds is not None


def test_retention_that_is_too_short_is_shown() -> None:
    """What the journal had to drop before the receiver came back is counted."""
    settings = Settings(retention=Retention(bytes=Bytes(4_000_000)))
    report = simulate(msgspec.structs.replace(PLAIN, settings=settings))
    assert report.expired_by_retention >= 8_000


def test_a_hanging_receiver_and_one_that_asks_to_wait() -> None:
    """Outcomes without a status and Retry-After are simulated too."""
    hanging = simulate(msgspec.structs.replace(PLAIN, failure=Outcome.TIMED_OUT, outage_seconds=120.0))
    waiting = simulate(msgspec.structs.replace(PLAIN, failure=429, retry_after_seconds=60, outage_seconds=120.0))
    assert hanging.attempts[0].result == "timed_out"
    assert waiting.attempts[0].result == "429"
    assert hanging.recovered_after_seconds is not None


def test_scaling_keeps_the_shape(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an event in ten the backlog, and when it peaks, stay about the same."""
    monkeypatch.setattr(module, "EVENTS_MAX", 2_460)
    assert scale_of(PLAIN) == 10
    scaled = simulate(PLAIN)
    assert scaled.peak_backlog == pytest.approx(report.peak_backlog, rel=0.15)
    assert scaled.peak_retry_rows == pytest.approx(report.peak_retry_rows, abs=30)


def test_a_report_repeats_itself(report: Report) -> None:
    """The same question with the same seed has the same answer."""
    assert simulate(PLAIN) == report
