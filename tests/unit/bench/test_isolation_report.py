"""The isolation report's verdict: each way in which isolation may be broken makes it fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from bench.isolation.case import FIVE_KINDS, ONE_OF_A_THOUSAND, Figures, Latency, Recovery
from bench.isolation.report import checks, isolation_page
from bench.isolation.sick_receiver import Sickness
from bench.isolation.stage import Rows

GOOD = Figures(
    plan=FIVE_KINDS,
    rate=1_000.0,
    alone=Latency(0.001, 0.004, 0.010, 60_000),
    beside=Latency(0.001, 0.005, 0.011, 60_000),
    healthy_missing=0,
    healthy_duplicates=0,
    refused=0,
    deliver_bytes_before=50_000_000,
    deliver_bytes_after=52_000_000,
    rows=Rows(40, 0),
    recoveries=(Recovery(Sickness.HANGING, 30_000, 0, 0),),
    recovery_seconds=4.0,
)


def test_good_figures_pass() -> None:
    """When every aim is met the report passes and names each sick receiver."""
    report = isolation_page([GOOD], 30.0, 1_000.0)
    assert report.passed
    assert "| hanging | 30,000 | 0 | 0 |" in report.markdown()


@pytest.mark.parametrize(
    "broken",
    [
        {"beside": Latency(0.001, 0.0141, 0.2, 60_000)},
        {"beside": Latency(0.0, 0.0, 0.0, 0)},
        {"healthy_missing": 1},
        {"healthy_duplicates": 1},
        {"refused": 1},
        {"deliver_bytes_after": 90_000_000},
        {"rows": Rows(100_001, 0)},
        {"rows": Rows(40, 1)},
        {"recoveries": (Recovery(Sickness.HANGING, 30_000, 1, 0),)},
        {"recoveries": (Recovery(Sickness.HANGING, 30_000, 0, 1),)},
        {"recoveries": (Recovery(Sickness.HANGING, 0, 0, 0),)},
    ],
    ids=lambda broken: next(iter(broken)),
)
def test_whatever_is_broken_fails_it(broken: dict[str, Any]) -> None:
    """One aim missed is a report that fails, and exactly one line of it says so."""
    missed = [check for check in checks(msgspec.structs.replace(GOOD, **broken)) if not check.passed]
    assert len(missed) == 1
    assert not isolation_page([msgspec.structs.replace(GOOD, **broken)], 30.0, 1_000.0).passed


@pytest.mark.parametrize(
    ("alone", "beside", "met"), [(0.004, 0.0139, True), (0.100, 0.119, True), (0.100, 0.121, False)]
)
def test_the_limit_is_the_larger_of_share_and_time(alone: float, beside: float, met: bool) -> None:
    """Beside five sick ones p99 may rise by a fifth, or by 10 ms where that is more."""
    figures = msgspec.structs.replace(GOOD, alone=Latency(0.001, alone, 1.0, 9), beside=Latency(0.001, beside, 1.0, 9))
    assert checks(figures)[0].passed is met


def test_of_a_thousand_the_share_is_smaller() -> None:
    """Beside one hanging of 1,000 it may rise by a twentieth only."""
    latencies = {"alone": Latency(0.001, 0.400, 1.0, 9), "beside": Latency(0.001, 0.430, 1.0, 9)}
    assert checks(msgspec.structs.replace(GOOD, **latencies))[0].passed
    assert not checks(msgspec.structs.replace(GOOD, plan=ONE_OF_A_THOUSAND, **latencies))[0].passed
