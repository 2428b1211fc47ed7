"""Quiet hours by the clock of a time zone, over midnight, by day, and where the clock is set."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hookline.connections.notifications import QuietHours
from hookline.features.notifications.rules import is_quiet

NIGHT = {"from": "22:00", "to": "07:00", "timeZone": "Europe/Berlin"}


def quiet_at(when: str, **given: Any) -> bool:
    """Whether it is quiet at a time (UTC)."""
    at = datetime.fromisoformat(when).replace(tzinfo=UTC)
    return is_quiet(msgspec.convert({**NIGHT, **given}, QuietHours), int(at.timestamp() * 1000))


@pytest.mark.parametrize(
    ("when", "quiet"),
    [
        ("2026-01-15 20:59", False),
        ("2026-01-15 21:00", True),
        ("2026-01-16 05:59", True),
        ("2026-01-16 06:00", False),
        ("2026-07-15 19:59", False),
        ("2026-07-15 20:00", True),
        ("2026-07-16 04:59", True),
        ("2026-07-16 05:00", False),
    ],
)
def test_it_goes_by_the_clock_on_the_wall(when: str, quiet: bool) -> None:
    """In winter an hour later by UTC than in summer."""
    assert quiet_at(when) is quiet


@pytest.mark.parametrize(
    ("when", "quiet"),
    [
        ("2026-03-29 00:30", True),  # 01:30 CET; at 02:00 the clock goes to 03:00
        ("2026-03-29 04:59", True),  # 06:59 CEST
        ("2026-03-29 05:00", False),  # 07:00 CEST
        ("2026-10-25 00:30", True),  # 02:30 CEST
        ("2026-10-25 01:30", True),  # 02:30 CET, a second time
        ("2026-10-25 05:59", True),  # 06:59 CET
        ("2026-10-25 06:00", False),  # 07:00 CET
    ],
)
def test_the_night_of_the_change_ends_at_the_same_hour(when: str, quiet: bool) -> None:
    """It is an hour shorter in March and an hour longer in October."""
    assert quiet_at(when) is quiet


def test_hours_that_the_change_leaves_out_hold_nothing_back() -> None:
    """02:00 to 03:00 does not exist on that day in March, and comes twice in October."""
    hole = {"from": "02:00", "to": "03:00"}
    assert not any(
        quiet_at(f"2026-03-29 0{hour}:{minute}", **hole) for hour in range(4) for minute in ("00", "30", "59")
    )
    assert quiet_at("2026-10-25 00:30", **hole)
    assert quiet_at("2026-10-25 01:30", **hole)


def test_a_night_belongs_to_the_day_it_begins_on() -> None:
    """Friday's night lasts into Saturday morning, and Saturday's is no quiet one."""
    assert quiet_at("2026-01-16 22:00", days=["fri"])
    assert quiet_at("2026-01-17 04:00", days=["fri"])
    assert not quiet_at("2026-01-17 22:00", days=["fri"])
    assert not quiet_at("2026-01-16 04:00", days=["fri"])


def test_hours_of_one_day() -> None:
    """From a lower to a higher time it is the same day."""
    noon = {"from": "12:00", "to": "13:00", "timeZone": "UTC"}
    assert [quiet_at(f"2026-01-15 {time}", **noon) for time in ("11:59", "12:00", "12:59", "13:00")] == [
        False,
        True,
        True,
        False,
    ]
