"""docs/explanation/sizing.md against the report that its figures are from."""

from __future__ import annotations

import pytest

from tests.scale import report, sizing
from tests.scale.workers import Phase


def test_the_tables_follow_from_the_report() -> None:
    """What is measured and what the example needs is what the report's figures give; the page cannot drift."""
    stored = report.read()
    assert stored.crowd is not None
    page = report.SIZING.read_text()
    assert sizing.written(page, stored.work, stored.crowd) == page


def test_the_report_stands_for_what_was_measured() -> None:
    """The page of the report is the one of its data, but for the day and machine that it names."""
    made = report.read().page().markdown().splitlines()
    written = report.PAGE.read_text().splitlines()
    assert [line for line in written if not line.startswith("Made on ")] == [
        line for line in made if not line.startswith("Made on ")
    ]


def test_time_per_event_is_of_all_processes_of_a_kind() -> None:
    """Workers count together, a broker is no worker."""
    phase = Phase(
        events=1_000, seconds=1.0, cpu={"deliver 1": 0.01, "deliver 2": 0.02, "broker 1": 0.5, "deliver": 0.0}
    )
    assert phase.microseconds("deliver") == pytest.approx(30.0)
    assert phase.plus(phase).microseconds("deliver") == pytest.approx(30.0)
