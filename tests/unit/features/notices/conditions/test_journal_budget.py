"""The journal's bytes as notices: nearly spent on what is waited for, and whose events are refused."""

from __future__ import annotations

from typing import Any

from hookline.events.timestamps import iso
from hookline.features.fleet.metrics import RoleReport
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.journal import JournalBudget
from hookline.telemetry.notices import EVERY
from tests.unit.features.notices.conditions.moments import NOW_MS, moment

MEGABYTE = 1024 * 1024
BYTES_MAX = 1_000 * MEGABYTE


def look(fresh: bool = True, **values: Any) -> list[Finding] | None:
    """What is found in collect's report."""
    report = {f"hookline_{name}": value for name, value in values.items()}
    made = moment(None)
    made.reports = {"collect": RoleReport("collect", fresh, report)}
    found = JournalBudget(BYTES_MAX).findings(made)
    return None if found is None else list(found)


def test_it_is_told_long_before() -> None:
    """From four fifths on; once told it stays down to a tenth below."""
    assert look(journal_waited_bytes=700 * MEGABYTE) == []
    (near,) = look(journal_waited_bytes=750 * MEGABYTE) or ()
    assert near.weak
    (told,) = look(journal_waited_bytes=800 * MEGABYTE) or ()
    assert (told.kind, told.detail, told.weak) == ("journal_filling", "800 MB of 1000 MB", False)


def test_who_is_refused_is_named_with_since_when() -> None:
    """Each source above its share, and everybody when the reserve is spent; one request is not written as several."""
    since = {"source": {"flood": NOW_MS / 1000, "*": NOW_MS / 1000}}
    counts = {"source": {"flood": 7, "web": 2}}
    found = look(collect_over_budget_since_seconds=since, collect_over_budget_total=counts) or []
    assert [(each.kind, each.subject, each.count) for each in found] == [
        ("events_refused", EVERY, 9),
        ("events_refused", "flood", 7),
    ]
    assert [each.detail for each in found] == [
        f"since {iso(NOW_MS)}; 9 requests refused since collect started",
        f"it stored more than its share, since {iso(NOW_MS)}; 7 requests refused since collect started",
    ]
    counts = {"source": {"flood": 1}}
    found = look(collect_over_budget_since_seconds=since, collect_over_budget_total=counts) or []
    assert "; 1 request refused" in found[1].detail


def test_without_a_report_nothing_is_said() -> None:
    """A role that does not report is neither well nor ill."""
    assert look(fresh=False, journal_waited_bytes=BYTES_MAX) is None
