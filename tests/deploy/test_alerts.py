"""Alert rules and dashboard against what Hookline serves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hookline.telemetry.notices import KINDS
from tests.deploy.files import DEPLOY, ROOT, read_yaml
from tests.deploy.series import asked, served, unknown

RULES: list[dict[str, Any]] = [
    rule for group in read_yaml(DEPLOY / "prometheus" / "alerts.yml")["groups"] for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "hookline.json").read_text())


def drawn() -> Iterator[str]:
    """Every expression of the dashboard."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def every_expression() -> list[str]:
    """Those of the rules and of the dashboard."""
    return [rule["expr"] for rule in RULES] + list(drawn())


@pytest.mark.parametrize("expression", every_expression())
def test_every_series_and_label_is_served(expression: str) -> None:
    """No rule or panel asks for a metric, a part of a histogram, or a label that /metrics does not have."""
    assert asked(expression)
    assert unknown(expression) == []


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("rate(hookline_collect_accepted[5m]) > 0", ["hookline_collect_accepted"]),
        ("sum(hookline_deliver_lag_events_bucket)", ["hookline_deliver_lag_events_bucket"]),
        ('hookline_deliver_queued{source="a"} > 0', ["hookline_deliver_queued{source}"]),
        ("sum by (le, url) (rate(hookline_deliver_latency_seconds_bucket[5m]))", ["by (url)"]),
        ("hookline_role_up == 0 or made_up > 1", ["made_up"]),
    ],
)
def test_what_is_not_served_is_noticed(expression: str, wrong: list[str]) -> None:
    """A wrong name, suffix or label is found, so the test above can fail."""
    assert unknown(expression) == wrong


def test_parts_of_histograms_are_served() -> None:
    """The series of a histogram are those that its kind has."""
    parts = {f"hookline_deliver_latency_seconds_{part}" for part in ("bucket", "sum", "count")}
    assert parts <= served().keys()
    assert "hookline_deliver_latency_seconds" not in served()


def test_kinds_of_notices_exist() -> None:
    """A rule that waits for a notice names a kind that Hookline opens."""
    values = [value for rule in RULES for value in re.findall(r'kind=~?"([^"]+)"', rule["expr"])]
    kinds = {kind for value in values for kind in value.split("|")}
    assert kinds
    assert kinds <= KINDS.keys()


def test_rules_say_what_is_wrong_and_what_to_do() -> None:
    """Each alert has a name of its own, a severity, a sentence and a next step; pages it points to exist."""
    names = [rule["alert"] for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "action"}, rule["alert"]
        for page in re.findall(r"docs/\S+\.md", rule["annotations"]["action"]):
            assert (ROOT / page).is_file(), page


def test_rules_use_labels_that_their_series_have() -> None:
    """What a sentence takes from ``$labels`` is a label of the series that the rule looks at."""
    for rule in RULES:
        labels = set[str]().union(*(served()[series.name] for series in asked(rule["expr"])))
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert used <= labels, rule["alert"]


def test_panels_do_not_overlap() -> None:
    """Each panel has an id and a place of its own."""
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    places = [
        (x, y)
        for panel in BOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24


@pytest.mark.parametrize("path", ["prometheus/scrape.yml", "compose/prometheus.yml"])
def test_scrapes_take_the_rules_and_the_job_that_rules_name(path: str) -> None:
    """Both files read the rules, and call the job as the rules do."""
    settings = read_yaml(DEPLOY / path)
    assert settings["rule_files"] == ["alerts.yml"]
    assert [job["job_name"] for job in settings["scrape_configs"]] == ["hookline"]
    jobs = {job for expression in every_expression() for job in re.findall(r'job="([^"]+)"', expression)}
    assert jobs == {"hookline"}
