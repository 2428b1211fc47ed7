"""The roles' reports in Prometheus' text format; names, kinds and help are those of ``telemetry.metrics``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from hookline.features.fleet.metrics import RoleReport
from hookline.telemetry.metrics import METRICS, PROCESS_MEMORY, PROCESS_STARTED, Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST


_PROCESS = {
    PROCESS_STARTED: "When the role's process started, since the epoch.",
    PROCESS_MEMORY: "Memory the role holds.",
}


def exposition(reports: Mapping[str, RoleReport]) -> bytes:
    """Return the text a scraper gets; a role that no longer reports is 0 in ``hookline_role_up`` and has no other
    values."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Reports(reports))
    return generate_latest(registry)


class _Reports(Collector):
    def __init__(self, reports: Mapping[str, RoleReport]) -> None:
        self._reports = reports

    def collect(self) -> Iterable[Family]:
        fresh = {role: report for role, report in self._reports.items() if report.fresh}
        up = GaugeMetricFamily("hookline_role_up", "1 while the role reports.", labels=["role"])
        for role in self._reports:
            up.add_metric([role], 1 if role in fresh else 0)
        yield up
        for name, text in _PROCESS.items():
            family = GaugeMetricFamily(name, text, labels=["role"])
            for role, report in fresh.items():
                if name in report.values:
                    family.add_metric([role], report.number(name))
            yield family
        for name, metric in METRICS.items():
            source = fresh.get(metric.role)
            if source is not None and name in source.values:
                yield _family(name, metric, source)


def _family(name: str, metric: Metric, report: RoleReport) -> Family:
    if metric.kind == "histogram":
        return _histogram(name, metric, report.values[name])
    made = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    if metric.label is None:
        return made(name, metric.help, value=report.number(name))
    family = made(name, metric.help, labels=[metric.label])
    for value, number in report.by_label(name).items():
        family.add_metric([value], number)
    return family


def _histogram(name: str, metric: Metric, value: Any) -> Family:
    cumulative: list[tuple[str, float]] = []
    total = 0.0
    for bound, count in value["buckets"].items():
        total += count
        cumulative.append((bound, total))
    return HistogramMetricFamily(name, metric.help, buckets=cumulative, sum_value=value["sum"])
