"""Roles that restart or are away, and the disk."""

from __future__ import annotations

from pathlib import Path

from hookline.features.notices.conditions.machine import DOWN_MS, QUIET_MS, DiskRoom, Roles
from tests.unit.features.notices.conditions.moments import NOW_MS, moment, notice, report, strong

STARTED = "process_start_time_seconds"
KEY = ("role_restarted", "deliver")


def test_a_later_start_is_a_restart() -> None:
    """The first report is no news; another start time is, once."""
    roles = Roles()
    assert strong(roles.findings(moment(report("deliver", **{STARTED: 100.0})))) == []
    assert strong(roles.findings(moment(report("deliver", **{STARTED: 160.0})))) == [KEY]
    assert strong(roles.findings(moment(report("deliver", **{STARTED: 160.0})))) == []


def test_restarts_are_counted_while_the_notice_is_open() -> None:
    """A role that ends again and again has one notice with a number."""
    roles = Roles()
    roles.findings(moment(report("deliver", **{STARTED: 100.0})))
    found = roles.findings(moment(report("deliver", **{STARTED: 160.0}), notices={KEY: notice(count=4)}))
    assert [each.count for each in found if not each.weak] == [5]


def test_a_quiet_hour_ends_it() -> None:
    """Until then the notice is kept open without another restart."""
    roles = Roles()
    kept = roles.findings(moment(now_ms=NOW_MS + QUIET_MS - 1, notices={KEY: notice()}))
    assert [each.weak for each in kept] == [True]
    assert roles.findings(moment(now_ms=NOW_MS + QUIET_MS, notices={KEY: notice()})) == []


def test_control_tells_of_itself() -> None:
    """A control role that stands in for one that ended says so at its first look."""
    roles = Roles(control_restarted=True)
    assert strong(roles.findings(moment())) == [("role_restarted", "control")]
    assert strong(roles.findings(moment())) == []


def test_a_role_that_stays_away_is_down() -> None:
    """A missing report is given time, since a restart takes seconds; the next report ends it."""
    roles = Roles()
    assert strong(roles.findings(moment(report("deliver", fresh=False)))) == []
    later = NOW_MS + DOWN_MS
    assert strong(roles.findings(moment(report("deliver", fresh=False), now_ms=later))) == [("role_down", "deliver")]
    assert strong(roles.findings(moment(report("deliver"), now_ms=later))) == []


def test_a_role_that_is_down_stays_so_whatever_the_clock_says() -> None:
    """Its notice is not resolved by a clock that is set back, nor by a restart of control; only by a report."""
    roles, open_one = Roles(), {("role_down", "deliver"): notice()}
    roles.findings(moment(report("deliver", fresh=False)))
    for looking, now_ms in ((roles, NOW_MS - 3_600_000), (Roles(), NOW_MS + 5_000)):
        found = looking.findings(moment(report("deliver", fresh=False), now_ms=now_ms, notices=open_one))
        assert strong(found) == [("role_down", "deliver")]
    assert strong(roles.findings(moment(report("deliver"), notices=open_one))) == []


def test_a_role_that_never_reported_is_down_too() -> None:
    """A supervisor runs it, and nothing was ever heard of it."""
    roles = Roles(wanted=lambda: ("collect", "deliver"))
    reports = [report("collect")]
    assert strong(roles.findings(moment(*reports))) == []
    assert strong(roles.findings(moment(*reports, now_ms=NOW_MS + DOWN_MS))) == [("role_down", "deliver")]


def test_a_role_that_moved_away_is_down_until_its_last_report_is_removed() -> None:
    """Started alone, nothing else says that it ought to run here."""
    roles = Roles()
    for now_ms, found in ((NOW_MS, []), (NOW_MS + DOWN_MS, [("role_down", "deliver")])):
        assert strong(roles.findings(moment(report("deliver", fresh=False), now_ms=now_ms))) == found
    open_one = {("role_down", "deliver"): notice()}
    assert strong(roles.findings(moment(now_ms=NOW_MS + DOWN_MS, notices=open_one))) == []


def test_little_room_is_told_until_there_is_clearly_more(tmp_path: Path) -> None:
    """Below the threshold strong, just above it weak, then nothing."""
    found = [DiskRoom(tmp_path, 1000, lambda _, free=free: free).findings(moment()) for free in (999, 1050, 1100)]
    assert [[each.weak for each in findings] for findings in found] == [[False], [True], []]


def test_the_real_disk_is_asked(tmp_path: Path) -> None:
    """No disk has so much room, every disk has some."""
    assert len(DiskRoom(tmp_path, 2**80).findings(moment())) == 1
    assert DiskRoom(tmp_path, 0).findings(moment()) == ()
