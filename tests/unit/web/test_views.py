"""What the pages say, without a browser."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

from hookline.features.events.pages import SENTENCES, in_words
from hookline.features.fleet.metrics import RoleReport
from hookline.features.notices.conditions import finding, machine
from hookline.features.overview import connections
from hookline.features.overview.connections import the_way
from hookline.features.setup.snippets import url_of
from hookline.outcomes.outcome import QUEUED_BECAUSE
from hookline.route import decision
from hookline.telemetry.metrics import METRICS, histogram
from hookline.web.rendering import number


def reports(**values: object) -> dict[str, RoleReport]:
    """Both roles report the same values."""
    return {role: RoleReport(role, True, values) for role in ("collect", "deliver")}


def test_the_way_counts_from_the_reports() -> None:
    """Accepted, routed, sent and delivered are the roles' own numbers; sent includes what failed."""
    stations, asides = the_way(
        reports(
            hookline_collect_accepted_total=10,
            hookline_deliver_read_total=9,
            hookline_deliver_lag_events=1,
            hookline_deliver_delivered_total=6,
            hookline_deliver_failures_total={"outcome": {"timed_out": 2}},
            hookline_deliver_latency_seconds=histogram((1, 5), [2, 4, 0], 20),
            hookline_deliver_retry_rows={"destination": {"crm": 2, "erp": 1}},
        )
    )
    assert [(each.value, each.note) for each in stations] == [
        ("10", "durable on disk"),
        ("9", "1 behind"),
        ("8", "25.0% failed"),
        ("6", "p50 ≤ 5 ms"),
    ]
    assert [(each.value, each.word) for each in asides] == [("3", "retrying")]


def test_without_reports_there_are_zeros() -> None:
    """Before any role has reported the way is all zeros and nothing stands beside it."""
    stations, asides = the_way({})
    assert [each.value for each in stations] == ["0"] * 4
    assert {each.state for each in stations} == {"off"}
    assert asides == []


def test_every_metric_that_is_shown_exists() -> None:
    """The names that the pages and the notices read are in the table of metrics: a renamed one is noticed."""
    for module in (connections, finding, machine):
        tree = ast.parse(inspect.getsource(module))
        names = {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and str(node.value).startswith("hookline_") and node.value != "hookline_"
        }
        assert names
        assert names <= set(METRICS)


def test_every_routing_reason_has_a_sentence() -> None:
    """Each code that routing gives is put into words, and there are no words for codes it does not give."""
    returned = {
        node.value
        for module in (decision,)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.replace("_", "").isalpha()
    }
    codes = {each for each in returned if "_" in each}
    assert codes == set(SENTENCES) - set(QUEUED_BECAUSE)
    assert in_words("a sentence") == "a sentence"
    assert in_words(None) == ""


@pytest.mark.parametrize(
    ("listen", "url"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("[::]:80", "http://[::1]:80"),
        ("hooks.internal:80", "http://hooks.internal:80"),
    ],
)
def test_addresses_can_be_pasted(listen: str, url: str) -> None:
    """A wildcard address becomes one that a client can use."""
    assert url_of(listen) == url


def test_numbers_are_grouped() -> None:
    """Thousands are told apart by a narrow space that does not break."""
    assert number(1_234_567) == "1\u202f234\u202f567"


def test_starting_does_not_load_what_only_a_page_needs() -> None:
    """Control starts without template engine, Prometheus client and YAML: it stays light until somebody looks."""
    program = (
        "import sys, hookline.control.serve, hookline.control.pages;"
        "print([n for n in ('jinja2', 'prometheus_client', 'rich', 'cyclopts')"
        " if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
