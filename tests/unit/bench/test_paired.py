"""The comparison with another version: ratios within pairs, and when they say that something is worse."""

from __future__ import annotations

import pytest
from bench.paired import Pair, interval, page, verdict


def pair(rate: float, cpu: float, *, lost: float = 0) -> Pair:
    """This version does so much of the other's rate, at so much of its CPU."""
    other = {"e2e_per_second": 40_000.0, "e2e_cpu_us_per_event": 20.0, "e2e_lost": 0.0, "gone": 1.0}
    return Pair(other, {"e2e_per_second": 40_000 * rate, "e2e_cpu_us_per_event": 20 * cpu, "e2e_lost": lost, "new": 1})


def test_a_figure_is_worse_when_all_of_its_interval_is() -> None:
    """And figures that only one of the two has are left out."""
    text = page("1.0", [pair(0.9, 1.0), pair(0.91, 1.1), pair(0.92, 0.9), pair(0.9, 1.0)]).markdown()
    assert "| e2e_per_second | 40,000 | 36,200 | 0.91 | 0.90 to 0.92 | worse |" in text
    assert "| e2e_cpu_us_per_event | 20 | 20 | 1.00 | 0.90 to 1.10 |  |" in text
    assert "gone" not in text
    assert "| new |" not in text


def test_what_was_lost_is_said() -> None:
    """By its sum."""
    assert "e2e_lost: 3" in page("1.0", [pair(1, 1, lost=3), pair(1, 1)]).markdown()
    assert "None, in no run" in page("1.0", [pair(1, 1), pair(1, 1)]).markdown()


@pytest.mark.parametrize(
    ("figure", "low", "high", "said"),
    [
        ("collect_per_second", 0.9, 0.94, "worse"),
        ("collect_per_second", 0.94, 1.2, ""),
        ("collect_per_second", 1.06, 1.2, "better"),
        ("cpu_us_per_event", 1.04, 1.2, "worse"),
        ("cpu_us_per_event", 0.9, 0.96, "better"),
        ("cpu_us_per_event", 0.98, 1.02, ""),
    ],
)
def test_rates_and_costs_are_judged_the_other_way_round(figure: str, low: float, high: float, said: str) -> None:
    """Three per cent of CPU, five of throughput."""
    assert verdict(figure, low, high) == said


def test_the_interval_holds_the_median() -> None:
    """And is as narrow as the ratios are alike."""
    assert interval([1.0] * 8) == (1.0, 1.0)
    low, high = interval([0.8, 0.9, 1.0, 1.1, 1.2])
    assert 0.8 <= low < 1.0 < high <= 1.2
