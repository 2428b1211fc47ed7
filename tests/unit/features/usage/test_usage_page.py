"""The usage as its page shows it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from hookline.features.usage.pages import usage_page
from hookline.insights.series import SeriesStore
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket
from tests.unit.control.running import Running, destination, source
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.usage.test_usage import fill


def days_ago(days: int) -> str:
    """A day as the counts write it."""
    return (datetime.now(UTC) - timedelta(days=days)).date().isoformat()


def test_days_and_sources_add_up_to_the_same(control: Running) -> None:
    """Every day of the range has its place in the chart, the busiest source is the first, deleted ones have no name."""
    control.api("POST", "/sources", source("web"))
    fill(control, (days_ago(1), "gone", 5, 1), (days_ago(0), "web", 10, 4), (days_ago(10), "web", 99, 0))
    view = asyncio.run(usage_page(control.services, "7d"))
    assert (view.events, view.filtered, view.counted) == (15, 5, 10)
    assert [(each.id, each.name, each.counted) for each in view.sources] == [("web", "Web", 6), ("gone", "", 4)]
    assert [list(row.values) for row in view.chart.rows] == [[0, 0]] * 5 + [[5, 1], [10, 4]]


def test_a_year_is_shown_by_month(control: Running) -> None:
    """From the first of a month on, each month once."""
    fill(control, (days_ago(0), "web", 10, 4), (days_ago(300), "web", 7, 0))
    view = asyncio.run(usage_page(control.services, "12m"))
    assert len(view.chart.rows) in (12, 13)
    assert view.chart.rows[-1].values == [10, 4]
    assert (view.events, view.first[-2:]) == (17, "01")


def test_the_csv_has_a_line_per_day_and_source(control: Running) -> None:
    """With a head, and nothing but the head where nothing was counted."""
    head = "period,source,events,filtered,counted,suppressed"
    for counts, lines in (((), []), (((days_ago(0), "web", 10, 4),), [f"{days_ago(0)},web,10,4,6,0"])):
        fill(control, *counts)
        answer = control.call("GET", "/usage.csv?range=7d", headers=sign_in(control), token=False)
        assert answer.text.splitlines() == [head, *lines]
        assert answer.headers["content-disposition"] == 'attachment; filename="usage-7d.csv"'


def test_what_the_page_leaves_out_is_said(control: Running) -> None:
    """More destinations than it has rows for are not all there are."""
    store, now = SeriesStore(control.data_path / "insights.db"), int(time.time()) // 10 * 10
    for count, is_said in ((50, False), (51, True)):
        counts = {f"d{number}": DestinationCounts(delivered=1) for number in range(count)}
        store.add_time_buckets([TimeBucket(at=now - count, destinations=counts)])
        text = control.call("GET", "/usage", headers=sign_in(control), token=False).text
        assert (text.count('<tr data-key="d'), "These got most." in text) == (50, is_said)
    store.close()


def test_destinations_are_added_up_over_the_range(control: Running) -> None:
    """The busiest first, also one that is gone; what came before the range is left out."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination("crm"))
    store, now = SeriesStore(control.data_path / "insights.db"), int(time.time()) // 10 * 10
    counts = {"crm": DestinationCounts(delivered=3, failures=2), "gone": DestinationCounts(delivered=1)}
    store.add_time_buckets([TimeBucket(at=now - days * 86_400, destinations=counts) for days in (20, 1, 0)])
    store.close()
    found = asyncio.run(usage_page(control.services, "7d")).destinations
    assert [(each.id, each.name, each.delivered, each.failures) for each in found] == [
        ("crm", "CRM", 6, 4),
        ("gone", "", 2, 0),
    ]
