"""Notices opened, refreshed and resolved by what is found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hookline.connections.model import Pause
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation
from hookline.features.fleet.metrics import OwnMetrics, RoleMetrics
from hookline.features.notices import log
from hookline.features.notices.conditions.finding import Finding, Moment
from hookline.features.notices.log import Notice, NoticeLog
from hookline.features.notices.service import SUBJECTS_MAX, NoticeWatch
from hookline.telemetry.metrics import publish
from tests.unit.conftest import LocationOf
from tests.unit.connections.examples import change, destination, source

OPEN = "destination_breaker_open"


class Told:
    """A condition that finds what it is told to find."""

    kinds = (OPEN, "destination_paused", "destination_gone", "role_restarted")

    def __init__(self) -> None:
        self.found: Sequence[Finding] | None = ()
        self.error: Exception | None = None

    def findings(self, moment: Moment) -> Sequence[Finding] | None:
        """What it was told."""
        if self.error is not None:
            raise self.error
        return self.found

    def close(self) -> None:
        """Nothing is held."""


class Rig:
    """A watch over one told condition, with a clock set by hand."""

    def __init__(self, folder: Path, location: DatabaseLocation) -> None:
        (folder / "run").mkdir()
        self.folder = folder
        self.seconds = 1_760_000_000.0
        self.store = Store(location)
        self.log = NoticeLog(location)
        self.told = Told()
        self.own_metrics = OwnMetrics()
        self.watch = NoticeWatch(
            self.log,
            self.store,
            RoleMetrics(folder),
            [self.told],
            self.own_metrics,
            clock=lambda: self.seconds,
        )

    def look(self, *found: Finding, after_seconds: float = 5) -> list[Notice]:
        """Find this, and return all notices, newest first."""
        self.seconds += after_seconds
        self.told.found = found
        self.watch.run_once()
        return self.log.newest(1_000)


@pytest.fixture
def rig(tmp_path: Path, location_of: LocationOf) -> Iterator[Rig]:
    """A watch on an empty installation."""
    made = Rig(tmp_path, location_of("control"))
    yield made
    made.log.close()
    made.store.close()


def test_one_notice_however_often_it_is_found(rig: Rig) -> None:
    """It is opened once, refreshed when it changes or once a minute, and resolved when it is no longer found."""
    (first,) = rig.look(Finding(OPEN, "crm", "timed out"))
    (again,) = rig.look(Finding(OPEN, "crm", "timed out"))
    assert again == first
    (changed,) = rig.look(Finding(OPEN, "crm", "server error 503", count=2))
    assert (changed.id, changed.count, changed.opened_at) == (first.id, 2, first.opened_at)
    assert "503" in changed.message
    (resolved,) = rig.look()
    assert resolved.resolved_at is not None
    assert rig.log.open_ones() == {}


def test_the_same_again_is_a_new_notice(rig: Rig) -> None:
    """What was over and comes back is told again."""
    rig.look(Finding(OPEN, "crm", "timed out"))
    rig.look()
    found = rig.look(Finding(OPEN, "crm", "timed out"))
    assert [each.resolved_at is None for each in found] == [True, False]


def test_a_minute_without_a_change_is_noted(rig: Rig) -> None:
    """When it was last seen is at most a minute old."""
    (first,) = rig.look(Finding(OPEN, "crm", "timed out"))
    (later,) = rig.look(Finding(OPEN, "crm", "timed out"), after_seconds=60)
    assert later.last_seen_at > first.last_seen_at


def test_a_weak_finding_opens_nothing_and_keeps_open(rig: Rig) -> None:
    """Around a threshold a notice is neither opened nor resolved."""
    assert rig.look(Finding(OPEN, "crm", "", weak=True)) == []
    rig.look(Finding(OPEN, "crm", "timed out"))
    (kept,) = rig.look(Finding(OPEN, "crm", "", weak=True))
    assert kept.resolved_at is None
    assert "timed out" in kept.message


def test_what_cannot_be_told_changes_nothing(rig: Rig) -> None:
    """Without an answer, or with an error, open notices stay open."""
    rig.look(Finding(OPEN, "crm", "timed out"))
    rig.told.found = None
    rig.watch.run_once()
    rig.told.error = OSError("the disk is gone")
    rig.watch.run_once()
    assert set(rig.log.open_ones()) == {(OPEN, "crm")}


def test_what_happened_while_the_disk_was_full_is_reported_once_there_is_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Restarts and moments are found once, so they wait; what lasts is found again, and stays unsaid if it is over."""
    restarted, resumed = Finding("role_restarted", "deliver", "once"), Finding("destination_resumed", "crm", "")

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(rig.log, "settle", full)
        with pytest.raises(OSError, match="no space"):
            rig.look(restarted, resumed, Finding(OPEN, "crm", "timed out"))
        with pytest.raises(OSError, match="no space"):
            rig.look()
    found = rig.look()
    assert {(each.kind, each.resolved_at is None) for each in found} == {
        ("role_restarted", True),
        ("destination_resumed", False),
    }
    assert [each.kind for each in rig.look()].count("destination_resumed") == 1


def test_very_many_subjects_are_told_together(rig: Rig) -> None:
    """Beyond the bound one notice stands for the rest, with their number; those open stay as they are."""
    rig.look(Finding(OPEN, "z", "timed out"))
    found = rig.look(*(Finding(OPEN, id, "timed out") for id in [*(f"d{n:04}" for n in range(500)), "z"]))
    assert len(found) == SUBJECTS_MAX + 1
    others = next(each for each in found if each.subject == "*")
    assert others.count == 501 - SUBJECTS_MAX
    assert f"Each of {others.count} more destinations" in others.message
    assert next(each for each in found if each.subject == "z").id == 1


def test_recovery_is_told_of_a_destination_that_is_well(rig: Rig) -> None:
    """When the breaker closes there is one notice of that, resolved from the start."""
    change(rig.store, source(), destination())
    publish(rig.folder / "run", "deliver", {"hookline_deliver_breaker_open": {"destination": {}}})
    rig.look(Finding(OPEN, "crm", "timed out"))
    newest, *_ = rig.look()
    assert (newest.kind, newest.subject, newest.severity) == ("destination_recovered", "crm", "info")
    assert newest.resolved_at == newest.opened_at
    assert [each.kind for each in rig.look()].count("destination_recovered") == 1


def test_a_resume_is_told_once(rig: Rig) -> None:
    """Also when it was paused by both a person and Hookline; not while it is paused."""
    change(rig.store, source(), destination())
    rig.store.pause("crm", Pause(since=0), "me", lambda: {0: 0})
    rig.look(Finding("destination_paused", "crm", "x"), Finding("destination_gone", "crm", "x"))
    found = rig.look(Finding("destination_gone", "crm", "x"))
    assert "destination_resumed" not in {each.kind for each in found}
    rig.store.resume("crm", None, "me", lambda: {0: 0})
    assert [each.kind for each in rig.look()].count("destination_resumed") == 1


def test_no_recovery_of_what_is_disabled_or_still_open(rig: Rig) -> None:
    """A destination that was taken away has not recovered, nor one whose breaker is still open."""
    change(rig.store, source(), destination())
    publish(rig.folder / "run", "deliver", {"hookline_deliver_breaker_open": {"destination": {"crm": 1}}})
    rig.look(Finding(OPEN, "crm", "timed out"), Finding(OPEN, "deleted", "timed out"))
    assert {each.kind for each in rig.look()} == {OPEN}


def test_resolved_notices_are_kept_up_to_a_bound(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest resolved ones go; an open one stays however old it is."""
    monkeypatch.setattr(log, "RESOLVED_KEPT_MAX", 3)
    keep = Finding(OPEN, "old", "timed out")
    rig.look(keep)
    for number in range(6):
        rig.look(keep, Finding(OPEN, f"d{number}", "timed out"))
    found = rig.look(keep)
    assert [each.subject for each in found] == ["d5", "d4", "d3", "old"]


def test_metrics_count_by_kind(rig: Rig) -> None:
    """How many are open now, and how many were opened since the start."""
    rig.look(Finding(OPEN, "crm", "x"), Finding(OPEN, "erp", "x"))
    rig.look(Finding(OPEN, "crm", "x"))
    values = rig.own_metrics.values()
    assert values["hookline_control_notices_open"]["kind"][OPEN] == 1
    assert values["hookline_control_notices_opened_total"]["kind"] == {OPEN: 2}
