"""The overview's charts, from the time series."""

from __future__ import annotations

from pathlib import Path

import pytest

from hookline.features.overview.pages import overview_charts
from hookline.insights.series import SeriesLog, SeriesStore
from hookline.telemetry.time_buckets import TimeBucket
from hookline.web.chart_view import ChartView

NOW = 1_800_000_000


@pytest.fixture
def log(tmp_path: Path) -> SeriesLog:
    """Two time buckets, half a minute apart, ten minutes ago; 20 events were accepted in the first."""
    store = SeriesStore(tmp_path / "insights.db")
    store.add_accepted(NOW - 600, 20, 0)
    store.add_time_buckets(
        [TimeBucket(at=NOW - 600, delivered=10, waiting=4), TimeBucket(at=NOW - 570, failures=5, waiting=2)]
    )
    store.close()
    return SeriesLog(tmp_path / "insights.db")


def lines(view: ChartView) -> dict[str, list[float]]:
    """What is known of each line."""
    columns = zip(*(row.values for row in view.rows), strict=True)
    return {
        line.name: [value for value in column if value is not None]
        for line, column in zip(view.lines, columns, strict=True)
    }


def test_counts_become_rates_and_gauges_stay(log: SeriesLog) -> None:
    """Few events are told per minute; what waits is told as it was; the rest of the hour is a gap."""
    events, failed, waiting, _ = overview_charts(log, "1h", NOW)
    assert events.unit == "/min"
    assert lines(events)["accepted"] == [120]
    assert lines(events)["delivered"] == [60, 0]
    assert lines(failed)["failed requests"] == [0, 30]
    assert lines(waiting)["to deliver"] == [4, 2]
    assert [len(each.rows) for each in (events, failed, waiting)] == [120] * 3


def test_many_events_are_told_per_second(tmp_path: Path) -> None:
    """From ten a second on."""
    store = SeriesStore(tmp_path / "insights.db")
    store.add_time_buckets([TimeBucket(at=NOW - 60, delivered=1_000)])
    store.close()
    events = overview_charts(SeriesLog(tmp_path / "insights.db"), "1h", NOW)[0]
    assert (events.unit, lines(events)["delivered"]) == ("/s", [100])


def test_before_the_first_slot_there_are_gaps(tmp_path: Path) -> None:
    """Nothing is drawn, and nothing fails."""
    charts = overview_charts(SeriesLog(tmp_path / "insights.db"), "30d", NOW)
    assert all(values == [] for view in charts for values in lines(view).values())
