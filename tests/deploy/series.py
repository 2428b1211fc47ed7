"""The series that Hookline serves, and those that an expression of Prometheus asks for."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from hookline.features.fleet.exposition import exposition
from hookline.features.fleet.metrics import RoleReport
from hookline.telemetry.metrics import DURATION_BUCKETS_MS, METRICS, PROCESS_MEMORY, PROCESS_STARTED, Metric, histogram

ROLES = ("collect", "deliver", "profiles", "control")
ADDED = {"job", "instance"}
"""Labels that Prometheus gives to every series."""
OF_PROMETHEUS = "up"

_STRING = re.compile(r'"[^"]*"')
_BY = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]")
_SELECTOR = re.compile(r"\b([a-z_:]\w*)\b(?!\s*\()(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
_WORDS = {"and", "or", "unless", "bool", "on", "ignoring", "offset"}


class Asked(NamedTuple):
    """One series of an expression: its name, and the labels that it is chosen by."""

    name: str
    labels: frozenset[str]


@cache
def served() -> dict[str, set[str]]:
    """The name of every series on ``/metrics`` with its labels, as a scraper reads them."""
    reports = {role: RoleReport(role, True, _values(role)) for role in ROLES}
    found: dict[str, set[str]] = {OF_PROMETHEUS: set(ADDED)}
    for family in text_string_to_metric_families(exposition(reports).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set(ADDED)).update(sample.labels)
    return found


def asked(expression: str) -> list[Asked]:
    """The series of an expression."""
    bare = _RANGE.sub("", _BY.sub("", _STRING.sub('""', expression)))
    return [
        Asked(name, frozenset(_MATCHER.findall(matchers)))
        for name, matchers in _SELECTOR.findall(bare)
        if name not in _WORDS
    ]


def unknown(expression: str) -> list[str]:
    """What an expression asks for that is not served: series, labels of a series, and labels that are grouped by."""
    series = asked(expression)
    wrong = [name for name, _ in series if name not in served()]
    wrong += [f"{name}{{{label}}}" for name, labels in series for label in labels - served().get(name, labels)]
    known = set[str]().union(*(served().get(name, set()) for name, _ in series))
    grouped = {label.strip() for group in _BY.findall(expression) for label in group.split(",")}
    return wrong + [f"by ({label})" for label in sorted(grouped - known)]


def _values(role: str) -> dict[str, object]:
    own = {name: _value(metric) for name, metric in METRICS.items() if metric.role == role}
    return {PROCESS_STARTED: 1.0, PROCESS_MEMORY: 1, **own}


def _value(metric: Metric) -> object:
    if metric.kind == "histogram":
        return histogram(DURATION_BUCKETS_MS, [1] * (len(DURATION_BUCKETS_MS) + 1), 1)
    return 1 if metric.label is None else {metric.label: {"one": 1}}
