"""The charts of the overview: what was accepted and delivered, what failed, what waited, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from hookline.insights.resolutions import Range
from hookline.insights.series_log import Series, SeriesLog
from hookline.web.chart_view import ChartView, Line, Values, chart

TIME_BUCKET_SECONDS = 10
"""Series do not change more often, so what was drawn within one may be shown again."""
MINUTE_SECONDS = 60
PEAK_PER_SECOND = 10
"""From this peak on rates are per second; below it they would be fractions, and are per minute."""


class Rate(NamedTuple):
    """What counts are multiplied with, and the unit that makes of them."""

    factor: float
    unit: str


def overview_charts(log: SeriesLog, range: Range, now_seconds: int) -> Sequence[ChartView]:
    """Return all charts of a range; reads a file, so not on an event loop."""
    return _charts(log, range, now_seconds // TIME_BUCKET_SECONDS)


@lru_cache(maxsize=4)
def _charts(log: SeriesLog, range: Range, time_bucket: int) -> Sequence[ChartView]:
    found = log.totals(range, time_bucket * TIME_BUCKET_SECONDS)
    of = found.values
    events = _rate(found, "accepted", "delivered", "rejected")
    failed = _rate(found, "failures", "not_delivered")
    return [
        chart(
            "events",
            "Accepted and delivered",
            events.unit,
            found.times,
            [
                (Line("accepted", "accent"), _scaled(of["accepted"], events)),
                (Line("delivered", "good"), _scaled(of["delivered"], events)),
                (Line("rejected", "off"), _scaled(of["rejected"], events)),
            ],
        ),
        chart(
            "failed",
            "Failed",
            failed.unit,
            found.times,
            [
                (Line("failed requests", "warn"), _scaled(of["failures"], failed)),
                (Line("not delivered", "dead"), _scaled(of["not_delivered"], failed)),
            ],
        ),
        chart(
            "waiting",
            "Queued",
            "events",
            found.times,
            [(Line("to deliver", "wait"), of["waiting"]), (Line("to route", "off"), of["lag"])],
            join=max,
        ),
        chart(
            "latency",
            "Time from acceptance to the receiver's answer",
            "ms",
            found.times,
            [(Line("p50", "accent"), of["latency_p50"]), (Line("p95", "warn"), of["latency_p95"])],
        ),
    ]


def _rate(found: Series, *names: str) -> Rate:
    peak = max((value for name in names for value in found.values[name] if value is not None), default=0)
    if peak / found.resolution >= PEAK_PER_SECOND:
        return Rate(1 / found.resolution, "/s")
    return Rate(MINUTE_SECONDS / found.resolution, "/min")


def _scaled(values: Values, rate: Rate) -> Values:
    return [None if value is None else value * rate.factor for value in values]
