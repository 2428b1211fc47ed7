"""What a scraper gets."""

from __future__ import annotations

import os
import time
from pathlib import Path

from hookline.features.fleet.exposition import exposition
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.fleet.service import own_metrics
from hookline.telemetry.metrics import METRICS, PROCESS_CLOCK_SHIFT, histogram, publish
from tests.unit.control.running import Running


def text_of(folder: Path, values: dict[str, object], role: str = "deliver") -> str:
    """The exposition of one role's report."""
    (folder / "run").mkdir(exist_ok=True)
    publish(folder / "run", role, values)  # type: ignore[arg-type]
    return exposition(RoleMetrics(folder).reports()).decode()


def test_numbers_labels_and_histograms(tmp_path: Path) -> None:
    """A plain number, one per label value, and cumulative buckets come out as Prometheus reads them."""
    text = text_of(
        tmp_path,
        {
            "hookline_deliver_delivered_total": 7,
            "hookline_deliver_failures_total": {"outcome": {"timed_out": 2, "refused": 1}},
            "hookline_deliver_latency_seconds": histogram((1, 5), [3, 2, 1], 42),
        },
    )
    assert "\nhookline_deliver_delivered_total 7.0\n" in text
    assert 'hookline_deliver_failures_total{outcome="timed_out"} 2.0' in text
    assert 'hookline_deliver_latency_seconds_bucket{le="0.005"} 5.0' in text
    assert 'hookline_deliver_latency_seconds_bucket{le="+Inf"} 6.0' in text
    assert "hookline_deliver_latency_seconds_sum 0.042" in text


def test_kind_and_meaning_are_told(tmp_path: Path) -> None:
    """Each metric has the HELP and TYPE of the table."""
    text = text_of(tmp_path, {"hookline_deliver_in_flight": 1})
    assert f"# HELP hookline_deliver_in_flight {METRICS['hookline_deliver_in_flight'].help}" in text
    assert "# TYPE hookline_deliver_in_flight gauge" in text


def test_what_is_not_registered_is_not_shown(tmp_path: Path) -> None:
    """A name outside the table, or of another role, does not get out."""
    text = text_of(tmp_path, {"hookline_made_up": 1, "hookline_collect_accepted_total": 5})
    assert "made_up" not in text
    assert "accepted" not in text


def test_a_role_that_stopped_reporting_is_down(tmp_path: Path) -> None:
    """An old report says nothing but that the role is not up."""
    text_of(tmp_path, {"hookline_deliver_delivered_total": 7})
    for at_seconds in (time.time() - 60, time.time() + 3_600):  # the latter since the clock was set back
        os.utime(tmp_path / "run" / "metrics-deliver.json", (at_seconds, at_seconds))
        text = exposition(RoleMetrics(tmp_path).reports()).decode()
        assert 'hookline_role_up{role="deliver"} 0.0' in text
    assert "delivered" not in text


def test_a_torn_report_is_no_report(tmp_path: Path) -> None:
    """Half a file, or something else entirely, is skipped."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics-collect.json").write_text('{"a": ')
    (tmp_path / "run" / "metrics-deliver.json").write_text("[]")
    assert RoleMetrics(tmp_path).reports() == {}


def test_control_counts_its_own_answers(control: Running) -> None:
    """Every answer is counted by its status and scraped with the rest."""
    control.api("GET", "/sources")
    control.api("GET", "/nope")
    publish(control.data_path / "run", "control", own_metrics(control.services).values())
    text = control.call("GET", "/metrics", token=False).text
    assert 'hookline_control_requests_total{status="200"} 1.0' in text
    assert 'hookline_control_requests_total{status="404"} 1.0' in text
    assert 'process_resident_memory_bytes{role="control"}' in text


def test_a_role_says_by_how_much_its_clock_was_set(tmp_path: Path) -> None:
    """Nobody has set it since this process started; the value is not for scrapers."""
    text = text_of(tmp_path, {})
    assert abs(RoleMetrics(tmp_path).reports()["deliver"].number(PROCESS_CLOCK_SHIFT)) < 2
    assert "clock_shift" not in text
