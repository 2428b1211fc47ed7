"""What the pages say, without a browser."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import msgspec
import pytest

from hookline.connections.model import Source
from hookline.connections.state import Stored
from hookline.features.destinations.figures import Figures, Snapshot
from hookline.features.destinations.state import is_degraded
from hookline.features.events.pages import stations
from hookline.features.fleet.metrics import RoleReport
from hookline.features.notices.conditions import finding, machine
from hookline.features.overview import connections
from hookline.features.overview.connections import the_ways
from hookline.features.setup.first_steps import set_up_href
from hookline.features.setup.snippets import url_of
from hookline.insights.series import Recent
from hookline.outcomes.delivery import DestinationStatus
from hookline.outcomes.event_status import EventStatus
from hookline.outcomes.outcome import NOT_ROUTED_BECAUSE, QUEUED_BECAUSE, DeliveryStatus, QueuedReason, because
from hookline.route import decision
from hookline.telemetry.metrics import METRICS
from hookline.web.rendering import number, rate

AS_OF = "2026-11-23T10:00:00.000Z"


def reports(**values: object) -> dict[str, RoleReport]:
    """Both roles report the same values."""
    return {role: RoleReport(role, True, values) for role in ("collect", "deliver")}


def test_each_line_of_figures_counts_one_thing() -> None:
    """Events as the roles report them, deliveries as the destinations' figures have them."""
    told = reports(
        hookline_collect_accepted_total=10,
        hookline_deliver_lag_events=1,
        hookline_deliver_duplicates_total=2,
    )
    figures = {
        "crm": Figures(AS_OF, queued=4, retrying=2, failed=3, expired=1, delivered=5),
        "erp": Figures(AS_OF, queued=1, queued_exact=False, delivered=7),
    }
    events, deliveries = the_ways(told, Snapshot(AS_OF, 0, figures, {}))
    assert [(each.value, each.note) for each in events.stations] == [
        ("10", "durable on disk"),
        ("1", "behind what is accepted"),
    ]
    assert [(each.value, each.word) for each in events.asides] == [("2", "duplicates dropped")]
    assert [(each.name, each.value) for each in deliveries.stations] == [
        ("Queued", "≤ 5"),
        ("Retrying", "2"),
        ("Delivered", "12"),
        ("Not delivered", "4"),
    ]
    assert deliveries.since == AS_OF
    # The one counts from the last start, the other does not: who compares them reads so.
    assert events.note == "since collect started"
    assert deliveries.stations[2].note == "accepted by receivers, all time"


def test_without_reports_there_are_zeros() -> None:
    """Before any role has reported both lines are all zeros and nothing stands beside them."""
    ways = the_ways({}, Snapshot(AS_OF, 0, {}, {}))
    assert {(each.value, each.state) for way in ways for each in way.stations} == {("0", "off"), ("0", "good")}
    assert [list(way.asides) for way in ways] == [[], []]


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
    assert codes == set(NOT_ROUTED_BECAUSE)
    assert because("paused") == QUEUED_BECAUSE[QueuedReason.PAUSED]
    assert because("a sentence") == "a sentence"
    assert because(None) == ""


def test_what_became_of_an_event_elsewhere_is_counted() -> None:
    """Beside "1 of 1 delivered" stands how many destinations filtered it; those without it are not counted."""
    statuses = (DeliveryStatus.DELIVERED, DeliveryStatus.FILTERED, DeliveryStatus.FILTERED, DeliveryStatus.NOT_ROUTED)
    event = EventStatus(
        message_id="m",
        source="site",
        type="track",
        user_id=None,
        received_at="2026-01-01T00:00:00.000Z",
        duplicates=0,
        status=None,
        rejection=None,
        event=msgspec.Raw(b"{}"),
        destinations=tuple(DestinationStatus(f"d{n}", status) for n, status in enumerate(statuses)),
    )
    delivered = stations(event)[-1]
    assert (delivered.value, delivered.note) == ("1 of 1", "2 filtered")


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


def test_rates_are_in_the_unit_that_reads_well() -> None:
    """Two events a minute are not 0.0333 a second."""
    assert [rate(each) for each in (1 / 30, 0.7, 1.0, 12.5, 1_234.0)] == [
        "2/min",
        "42/min",
        "1/s",
        "12.5/s",
        "1\u202f234/s",
    ]


def test_starting_does_not_load_what_only_a_page_needs() -> None:
    """Control starts without template engine, Prometheus client and YAML: it stays light until somebody looks."""
    program = (
        "import sys, hookline.control.serve, hookline.control.pages;"
        "print([n for n in ('jinja2', 'prometheus_client', 'rich', 'cyclopts')"
        " if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("recent", "retrying", "found"),
    [
        (Recent(delivered=9), 8, True),
        (Recent(delivered=9), 2, False),
        (Recent(delivered=900), 8, False),
        (Recent(delivered=9), 0, False),
    ],
)
def test_events_that_wait_for_a_retry_count_before_the_series_know_of_them(
    recent: Recent, retrying: int, found: bool
) -> None:
    """A tenth and at least three: what waits for a retry has failed, although no failed request is on record yet."""
    assert is_degraded(recent, retrying) is found


def test_the_set_up_goes_on_behind_the_only_source() -> None:
    """With one source there is nothing to choose; with none, or several, the set-up begins with it."""
    one, two = (Stored(Source(id=id, name=id), 0) for id in ("web shop", "app"))
    assert set_up_href([one], seen_event=False) == "/setup?source=web%20shop&step=event"
    assert set_up_href([one], seen_event=True) == "/setup?source=web%20shop&step=catalog"
    assert set_up_href([], seen_event=False) == set_up_href([one, two], seen_event=True) == "/setup"
