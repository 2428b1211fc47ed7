"""Rejected items, new names, shares of failed requests, and destinations that are behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hookline.features.notices.conditions.destinations import Breakers, DeadLetters
from hookline.features.notices.conditions.finding import Finding
from hookline.features.notices.conditions.traffic import Backlog, FailedShare, Traffic
from hookline.insights.schema import News
from hookline.insights.series import Recent
from hookline.journal.local.appender import LocalAppender
from hookline.outcomes import positions
from hookline.settings import Settings
from tests.unit.control.running import record
from tests.unit.features.notices.conditions.moments import HOUR_MS, NOW_MS, deliver_db, moment, notice, report, strong

MINUTE_MS = 60_000


class Heard:
    """News that somebody read, given out once."""

    def __init__(self) -> None:
        self.news: list[News] = []

    def reject(self, count: int, at_ms: int = NOW_MS, source: str = "site") -> None:
        """So many items are rejected."""
        self.news += [News(source, at_ms, rejected="missing_user_id")] * count

    def take(self) -> list[News]:
        """Give them out."""
        taken, self.news = self.news, []
        return taken


def rejected(condition: Traffic, **given: Any) -> list[Finding]:
    """Look, with this source."""
    return list(condition.findings(moment(sources=["site"], **given)))


def test_many_rejected_items_within_an_hour() -> None:
    """They add up, are told with the commonest reasons, keep a notice down to half as many, and are forgotten."""
    heard = Heard()
    condition = Traffic(heard.take, 10)
    heard.reject(4)
    assert rejected(condition) == []
    heard.reject(7, NOW_MS + MINUTE_MS)
    (finding,) = rejected(condition, now_ms=NOW_MS + MINUTE_MS)
    assert (finding.subject, finding.count, finding.weak) == ("site", 11, False)
    assert "missing_user_id (11)" in finding.detail
    (weak,) = rejected(condition, now_ms=NOW_MS + HOUR_MS + MINUTE_MS)
    assert (weak.count, weak.weak) == (7, True)
    assert rejected(condition, now_ms=NOW_MS + HOUR_MS + 3 * MINUTE_MS) == []


def test_a_rule_asks_for_fewer_and_a_setting_of_0_for_none() -> None:
    """The lowest threshold counts, for the sources that the rule is about."""
    rule = {"when": ["rejected_events"], "sources": ["site"], "threshold": {"count": 3}}
    heard = Heard()
    heard.reject(3)
    heard.reject(50, source="app")
    found = Traffic(heard.take, 0).findings(moment(sources=["site", "app"], rules=[rule]))
    assert strong(found) == [("events_rejected", "site")]


def test_after_a_restart_an_open_notice_waits_for_the_counts() -> None:
    """For the first hour of a process it stays; then it goes by what was counted."""
    condition = Traffic(Heard().take, 10)
    open_one = {("events_rejected", "site"): notice()}
    (kept,) = rejected(condition, notices=open_one)
    assert kept.weak
    assert rejected(condition, notices=open_one, now_ms=NOW_MS + HOUR_MS) == []


def test_new_names_are_told_together_and_only_if_a_rule_waits() -> None:
    """Those of the last hour: what the reader comes upon later is history."""
    heard = Heard()
    condition = Traffic(heard.take, 0)
    heard.news = [News("site", NOW_MS, name="Orderd Completed")]
    assert rejected(condition) == []
    heard.news = [News("site", NOW_MS, name=f"Name {number}") for number in range(8)]
    heard.news.append(News("site", NOW_MS - 2 * HOUR_MS, name="Old"))
    (finding,) = rejected(condition, rules=[{"when": ["new_event_name"]}])
    assert finding.count == 8
    assert finding.detail.startswith("“Name 0”, ")
    assert finding.detail.endswith("and 3 more")
    assert rejected(condition, rules=[{"when": ["new_event_name"]}]) == []


def share(counts: Mapping[str, Recent], *rules: dict[str, Any]) -> list[Finding]:
    """Look at these counts with these rules."""
    return list(FailedShare(lambda seconds, now: counts).findings(moment(None, "crm", "erp", rules=rules)))


@pytest.mark.parametrize(
    ("delivered", "failures", "found"),
    [(80, 20, [False]), (83, 17, [True]), (90, 10, []), (3, 6, []), (0, 10, [False]), (0, 0, [])],
)
def test_a_share_of_failed_requests(delivered: int, failures: int, found: list[bool]) -> None:
    """From the share on, weakly down to four fifths of it, and only of ten requests or more."""
    rule = {"when": ["destination_failing"], "threshold": {"failedShare": 0.2}}
    assert [each.weak for each in share({"crm": Recent(delivered, failures)}, rule)] == found


def test_no_rule_no_share() -> None:
    """Without a share, for another destination, or of one that is disabled nothing is found."""
    counts = {"crm": Recent(0, 50), "gone": Recent(0, 50)}
    failing = {"when": ["destination_failing"]}
    asks = {**failing, "threshold": {"failedShare": 0.2}}
    assert share(counts) == share(counts, failing) == share(counts, {**asks, "destinations": ["erp"]}) == []
    assert strong(share(counts, asks)) == [("destination_degraded", "crm")]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A journal whose first events go elsewhere."""

    async def fill() -> None:
        appender = LocalAppender(tmp_path / "journal", retention_seconds=1e9, retention_bytes=2**30)
        await appender.append([record("m1", source="app"), record("m2", rejected="no"), record("m3", source="site")])
        await appender.close()

    asyncio.run(fill())
    return tmp_path


def behind(
    data: Path, next_offset: int, age_seconds: float, set_back_ms: int = 0, **given: Any
) -> list[Finding] | None:
    """What is found two hours after the events came in, with a lane of ``crm`` that is so far."""
    connection = deliver_db(data / "deliver.db")
    blob = positions.encode(positions.SavedCursor(False, ()))
    connection.execute("DELETE FROM lanes")
    connection.execute("INSERT INTO lanes VALUES (1, 0, ?, 'open', ?)", (next_offset, blob))
    connection.close()
    now_ms = int(data.joinpath("journal").stat().st_mtime * 1000) + 2 * HOUR_MS
    condition = Backlog(data, data / "deliver.db", age_seconds, lambda: now_ms)
    values = {"hookline_deliver_breaker_open": {"destination": given.pop("breakers", {})}}
    try:
        seen_ms = now_ms - set_back_ms
        found = condition.findings(
            moment(report("deliver", **values), "crm", now_ms=seen_ms, connected="site", **given)
        )
        return None if found is None else list(found)
    finally:
        condition.close()


def test_a_destination_that_is_behind(data: Path) -> None:
    """By the oldest event that goes to it; what it has passed, and what goes elsewhere, does not count."""
    (finding,) = behind(data, 0, 3600) or ()
    assert (finding.kind, finding.subject, finding.weak) == ("backlog_old", "crm", False)
    assert finding.since_ms is not None
    assert behind(data, 3, 3600) == []
    assert [each.weak for each in behind(data, 0, 3 * 3600) or ()] == [True]
    assert behind(data, 0, 5 * 3600) == []
    rule = {"when": ["backlog_age"], "threshold": {"for": "90m"}}
    assert strong(behind(data, 0, 0, rules=[rule])) == [("backlog_old", "crm")]
    assert behind(data, 0, 0) == []


def test_a_clock_that_is_set_back_makes_no_event_younger(data: Path) -> None:
    """How long it waits does not follow the wall clock."""
    assert strong(behind(data, 0, 3600, set_back_ms=2 * HOUR_MS)) == [("backlog_old", "crm")]


def test_an_outage_is_not_told_as_a_backlog_too(data: Path) -> None:
    """While the breaker is open another notice says so."""
    assert behind(data, 0, 3600, breakers={"crm": 1}) == []


def test_rules_open_notices_of_destinations_earlier(tmp_path: Path) -> None:
    """A breaker after the rule's time, dead letters from the rule's number on, for the destination it names."""
    location = tmp_path / "deliver.db"
    connection = deliver_db(location)
    connection.executemany(
        'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status, attempts,'
        " at) VALUES (1, ?, 0, 1, 'm', 'site', 'track', 'failed', 1, ?)",
        [("crm", NOW_MS), ("erp", NOW_MS)] * 3,
    )
    connection.close()
    rules = [
        {"when": ["destination_failing"], "destinations": ["crm"], "threshold": {"for": "10s"}},
        {"when": ["dead_letters"], "destinations": ["crm"], "threshold": {"count": 3}},
    ]
    reported = report("deliver", hookline_deliver_breaker_open={"destination": {"crm": 1, "erp": 1}})
    breakers, letters = Breakers(location, 300, Settings()), DeadLetters(location, 100)
    breakers.findings(moment(reported, "crm", "erp", rules=rules))
    later = moment(reported, "crm", "erp", rules=rules, now_ms=NOW_MS + 10_000)
    assert strong(breakers.findings(later)) == [("destination_breaker_open", "crm")]
    assert strong(letters.findings(later)) == [("dead_letters_growing", "crm")]
    breakers.close()
    letters.close()
