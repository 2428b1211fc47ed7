"""What a caller may give as time, and what is sent for it."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from hookline_client.errors import InvalidCall
from hookline_client.messages import build
from hookline_client.timestamps import iso, timestamp


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (datetime(2026, 11, 20, 7, 0, 0, 123456, tzinfo=timezone.utc), "2026-11-20T07:00:00.123Z"),
        (datetime(2026, 11, 20, 9, 0, tzinfo=timezone(timedelta(hours=2))), "2026-11-20T07:00:00.000Z"),
        (datetime(33, 1, 1, tzinfo=timezone.utc), "0033-01-01T00:00:00.000Z"),
        (date(2026, 11, 20), "2026-11-20T00:00:00.000Z"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.000Z"),
        (1763622000, "2025-11-20T07:00:00.000Z"),
        (1763622000.5, "2025-11-20T07:00:00.500Z"),
        (1763622000.1239, "2025-11-20T07:00:00.124Z"),
        ("1763622000", "2025-11-20T07:00:00.000Z"),
        (1763622000123, "2025-11-20T07:00:00.123Z"),
        ("2026-11-20T07:00:00Z", "2026-11-20T07:00:00Z"),
        ("2026-11-20T07:00:00.123456789+02:00", "2026-11-20T07:00:00.123456789+02:00"),
        ("2026-11-20T07:00:00+0000", "2026-11-20T07:00:00+0000"),
        ("2026-11-20 07:00", "2026-11-20 07:00"),
        ("2026-11-20", "2026-11-20"),
    ],
)
def test_times_in_every_form(given: Any, sent: str) -> None:
    """datetimes and numbers become ISO with milliseconds; a float keeps them; ISO strings go as they are."""
    assert timestamp(given) == sent


def test_a_naive_datetime_is_local_time() -> None:
    """As everywhere in Python."""
    moment = datetime(2026, 11, 20, 7, 0)
    assert timestamp(moment) == iso(int(moment.timestamp()) * 1_000_000_000)


def test_a_datetime_of_a_library_is_one() -> None:
    """pandas' does not move a time that has no zone."""

    class Timestamp(datetime):
        def astimezone(self, tz: Any = None) -> Any:
            raise TypeError("Cannot convert tz-naive Timestamp, use tz_localize to localize")

    assert timestamp(Timestamp(2026, 11, 20, 7)) == timestamp(datetime(2026, 11, 20, 7))
    assert timestamp(Timestamp(2026, 11, 20, 7, tzinfo=timezone.utc)) == "2026-11-20T07:00:00.000Z"


@pytest.mark.parametrize(
    "given",
    [
        *("soon", "20/11/2026", True, [], float("nan"), float("inf"), 1e18, "1e9", datetime.min, "2026-11-20T7Z"),
        pytest.param(10**400, id="beyond all floats"),
    ],
)
def test_what_is_no_time_is_refused(given: Any) -> None:
    """It is told rather than sent as 1970."""
    if given is datetime.min and time.timezone <= 0:
        given = datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))
    with pytest.raises(InvalidCall) as raised:
        timestamp(given)
    assert raised.value.code == "invalid_timestamp"


def test_now_is_taken_when_none_is_given() -> None:
    """Missing and empty both mean the time of the call, in milliseconds, also across a second's border."""
    for given in (None, ""):
        before = time.time_ns()
        sent = build("identify", {"userId": "u", "timestamp": given}, {}, None)["timestamp"]
        assert iso(before) <= sent <= iso(time.time_ns())
    assert iso(1_999_999_999) == "1970-01-01T00:00:01.999Z"
    assert iso(2_000_000_000) == "1970-01-01T00:00:02.000Z"
