"""When a failed delivery is tried again."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.deliver.retry.policy import RetrySchedule, retry_after_ms
from hookline.limits import LIMITS
from hookline.settings import Deliver, Seconds

NOW_MS = 1_795_158_000_000
WINDOW_MS = 4 * 3600 * 1000
ATTEMPTS = st.integers(1, 10_000)
SINCE_FIRST_MS = st.integers(0, 2 * WINDOW_MS)
ASKED_MS = st.none() | st.integers(0, 10**12)


def schedule(seed: int = 0, settings: Deliver | None = None) -> RetrySchedule:
    """A schedule with the default settings unless given."""
    return RetrySchedule(settings or Deliver(), random.Random(seed))


@given(st.integers(), SINCE_FIRST_MS, ATTEMPTS, ASKED_MS)
def test_the_next_attempt_lies_between_now_and_the_end_of_the_window(
    seed: int, since_ms: int, attempt: int, asked_ms: int | None
) -> None:
    """There is a next attempt exactly while the window lasts; it is later than now and never past the window's end."""
    due_ms = schedule(seed).next_due(NOW_MS, NOW_MS - since_ms, attempt, asked_ms)
    assert (due_ms is None) == (since_ms >= WINDOW_MS)
    if due_ms is not None:
        assert NOW_MS < due_ms <= NOW_MS - since_ms + WINDOW_MS


@given(st.integers(), ATTEMPTS, st.integers(0, 10**12))
def test_what_the_receiver_asks_for_is_honoured(seed: int, attempt: int, asked_ms: int) -> None:
    """A Retry-After wait is kept, also beyond retry_max, but for the window's end."""
    due_ms = schedule(seed).next_due(NOW_MS, NOW_MS, attempt, asked_ms)
    assert due_ms is not None
    assert due_ms >= min(NOW_MS + asked_ms, NOW_MS + WINDOW_MS)


@given(st.integers(), ATTEMPTS)
def test_the_wait_is_within_the_ceiling_of_its_attempt(seed: int, attempt: int) -> None:
    """Full jitter: anything from nothing to first x 2^(n-1), never above retry_max."""
    wait_ms = schedule(seed).backoff_ms(attempt)
    assert 0 <= wait_ms <= min(600_000, 1_000 * 2 ** min(attempt - 1, 60))


def test_the_wait_uses_its_whole_range() -> None:
    """Many waits of one attempt fill the range from end to end, so that receivers are not hit in step."""
    fixed = schedule(7)
    waits = sorted(fixed.backoff_ms(4) for _ in range(2_000))
    assert waits[0] < 400
    assert waits[-1] > 7_600
    assert 3_600 < sum(waits) / len(waits) < 4_400


@given(st.integers(), ATTEMPTS)
def test_an_event_is_never_past_its_time_when_it_is_due(seed: int, attempt: int) -> None:
    """What the schedule allows is not expired when it is due, a beat late included."""
    due_ms = schedule(seed).next_due(NOW_MS, NOW_MS - WINDOW_MS + 1, attempt)
    assert due_ms is not None
    assert not schedule().expired(due_ms + 1_000, NOW_MS - WINDOW_MS + 1)


def test_an_event_expires_when_the_service_was_down_over_the_windows_end() -> None:
    """A minute past the window nothing is sent any more; a short window allows only its own length."""
    assert not schedule().expired(NOW_MS + WINDOW_MS + LIMITS.late_ms_max, NOW_MS)
    assert schedule().expired(NOW_MS + WINDOW_MS + LIMITS.late_ms_max + 1, NOW_MS)
    assert schedule(0, Deliver(retry_window=Seconds(2))).expired(NOW_MS + 4_001, NOW_MS)


@pytest.mark.parametrize(
    ("value", "wait_ms"),
    [
        (b"0", 0),
        (b" 120 ", 120_000),
        (b"315360000", 315_360_000_000),
        (b"9" * 64, 10**12),
        (b"-5", None),
        (b"1.5", None),
        (b"soon", None),
        (b"", None),
        (b"\xb2", None),
        (b"\xff\xfe", None),
        (b"Wed, 99 Nov 2026 07:00:00 GMT", None),
    ],
)
def test_a_retry_after_header_is_seconds_or_nothing(value: bytes, wait_ms: int | None) -> None:
    """Whole seconds are read, absurd ones capped, everything else is as if it were not there."""
    assert retry_after_ms(value, 0) == wait_ms


def test_a_retry_after_header_may_be_a_date() -> None:
    """A date is the wait until then; one that has passed is no wait."""
    now = datetime(2026, 11, 20, 7, tzinfo=UTC)
    now_ms = int(now.timestamp() * 1000)
    assert retry_after_ms(format_datetime(now + timedelta(hours=1), usegmt=True).encode(), now_ms) == 3_600_000
    assert retry_after_ms(b"Wed, 21 Oct 2015 07:28:00 GMT", now_ms) == 0


def test_a_date_without_a_zone_is_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of the three forms names no zone: it is not that of this machine."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert retry_after_ms(b"Sun Nov  6 08:49:37 1994", 784_111_767_000) == 10_000
    finally:
        monkeypatch.undo()
        time.tzset()
