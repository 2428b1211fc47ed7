"""What the pages of destinations say, without a browser."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.open import open_deliver
from hookline.features.destinations.pages.routes import destination_list
from hookline.features.destinations.pages.view import rates
from hookline.features.fleet.metrics import RoleMetrics
from hookline.features.insights.service import SeriesWatch
from hookline.insights.series import SeriesStore
from hookline.telemetry.time_buckets import (
    TIME_BUCKET_SECONDS,
    DestinationCounts,
    TimeBucket,
    time_bucket_of,
    write_time_buckets,
)
from hookline.web.lists import address
from tests.unit.control.running import Running, destination, record, source
from tests.unit.features.accounts.test_access import sign_in


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Running]:
    """A control role with four destinations, of which one is off and one fails."""
    with Running(tmp_path) as running:
        running.api("PUT", "/sources/site", source())
        for id in ("crm", "erp", "mail", "old"):
            running.api("PUT", f"/destinations/{id}", destination(id, enabled=id != "old"))
        yield running


def listed(control: Running, search: str = "", state: str = "", after: str = "") -> list[str]:
    """The ids on one page of the list."""
    return [row.view.id for row in destination_list(control.services, search, state, after).rows]


def retrying(control: Running, *ids: str) -> None:
    """One event of each waits for another attempt."""
    lanes = {each.object.id: each.lane.number for each in control.services.store.destinations() if each.lane}
    connection = open_deliver(control.data_path / "deliver.db")
    connection.executemany("INSERT INTO retries VALUES (?, 0, 1, 1, 0, 0, 1)", [(lanes[id],) for id in ids])
    connection.close()


def test_the_list_is_searched_and_filtered_by_state(control: Running) -> None:
    """By a part of name, id or URL, and by what deliver reports."""
    retrying(control, "erp")
    control.api("POST", "/destinations/mail/pause")
    assert listed(control) == ["crm", "erp", "mail", "old"]
    assert listed(control, search="CRM.example.com/H") == ["crm", "erp", "mail", "old"]
    assert listed(control, search="MAIL") == ["mail"]
    assert [listed(control, state=state) for state in ("failing", "paused", "off", "healthy")] == [
        ["erp"],
        ["mail"],
        ["old"],
        ["crm"],
    ]


def test_health_is_judged_over_minutes(control: Running) -> None:
    """One 503 in 16 is no outage although its event waits for another attempt, nor is one in two; a tenth of many is,
    and so are refusals where nothing else comes, and events that wait where nothing is sent at all."""
    run = control.data_path / "run"
    run.mkdir(exist_ok=True)
    did = {
        "crm": DestinationCounts(delivered=15, failures=1, retries=1),
        "erp": DestinationCounts(delivered=27, failures=3, not_delivered=3),
        "new": DestinationCounts(delivered=1, failures=1, retries=1),
        "mail": DestinationCounts(failures=4, not_delivered=4),
    }
    write_time_buckets(
        run, [TimeBucket(at=time_bucket_of(time.time_ns() // 1_000_000) - TIME_BUCKET_SECONDS, destinations=did)]
    )
    store = SeriesStore(control.data_path / "insights.db")
    SeriesWatch(control.data_path, store, RoleMetrics(control.data_path)).run_once()
    store.close()
    for id in ("new", "still"):
        control.api("PUT", f"/destinations/{id}", destination(id))
    retrying(control, "crm", "new", "still")
    assert listed(control, state="failing") == ["erp", "mail", "still"]
    views = {row.view.id: row.view.word for row in destination_list(control.services, "", "", "").rows}
    assert (views["crm"], views["erp"]) == ("Healthy", "Degraded (10% failing)")
    assert control.api("GET", "/destinations/erp/metrics").json["state"] == "degraded"


def test_sources_are_called_by_their_names(control: Running) -> None:
    """Wherever a page mentions one; the id is what is sent, and what the pointer shows. One that is gone has its id."""
    control.api("PUT", "/sources/site", source(name="Web shop"))
    to = [{"email": ["a@example.com"]}]
    rule = {"id": "calm", "name": "Calm", "when": ["source_silent"], "sources": ["site"], "to": to}
    assert control.api("PUT", "/notifications/calm", rule).status == 201
    control.append(record("m1"), record("m2", source="gone"))
    named = re.compile(r"<bdi[^>]*>Web shop</bdi>")
    for path in ("/", "/destinations", "/destinations/crm", "/events/m1?source=site", "/people/user/u1"):
        assert named.search(page(control, path)), path
    assert named.search(page(control, "/settings/notifications/calm"))
    assert '<option value="site">Web shop</option>' in page(control, "/destinations/crm/replay")
    assert "<bdi>gone</bdi>" in page(control, "/events/m2?source=gone")
    assert 'data-source-names="{&#34;site&#34;:&#34;Web shop&#34;}"' in page(control, "/events")


def test_tabs_are_told_apart_by_their_titles(control: Running) -> None:
    """In the browser's history, and in several windows; the first tab has the plain name, as one that has no link."""
    control.api("PUT", "/audiences/all", {"id": "all", "name": "All", "condition": {"event": "*"}})
    titles = {
        "/destinations/crm": "CRM",
        "/destinations/crm/attempts": "CRM · Attempts",
        "/destinations/crm/mapping": "CRM",
        "/sources/site/keys": "Site · Keys",
        "/audiences/all/members": "All · Members",
    }
    for path, title in titles.items():
        assert f"<title>{title} · Hookline</title>" in page(control, path), path


def bury(control: Running, http_status: int) -> None:
    """Write a dead letter of ``crm`` as deliver does."""
    connection = open_deliver(control.data_path / "deliver.db")
    connection.execute(
        'INSERT INTO dead_letters (lane, destination, partition, "offset", message_id, source, type, status, attempts,'
        " at, outcome, http_status) VALUES (1, 'crm', 0, 0, 'm1', 'site', 'track', 'failed', 1, 1700000000123,"
        " 'refused', ?)",
        (http_status,),
    )
    connection.close()


@pytest.mark.parametrize(
    ("asked", "is_shown"), [("", True), ("400", True), ("%20400", True), ("422", False), ("4xx", False)]
)
def test_what_is_no_status_is_that_of_no_answer(control: Running, asked: str, is_shown: bool) -> None:
    """A list that shows everything instead has buttons that retry and discard everything."""
    bury(control, 400)
    assert ("Discard all" in page(control, f"/destinations/crm/dead-letters?httpStatus={asked}")) == is_shown


def test_one_dead_letter_is_not_called_several(control: Running) -> None:
    """Above the list, and in the questions before all of them are sent again or discarded."""
    bury(control, 400)
    text = page(control, "/destinations/crm/dead-letters")
    assert len(re.findall(r"\b1 dead letter\b", text)) == 3
    assert "1 dead letters" not in text


def test_a_rate_has_the_same_unit_on_every_page(control: Running) -> None:
    """Few events are shown per minute, by the overview and by the destination: nobody reads 0.0667 per second."""
    assert 'data-chart="events" data-unit="/min"' in page(control, "/")
    assert 'data-chart="rates" data-unit="/min"' in page(control, "/destinations/crm")


def page(control: Running, path: str) -> str:
    """A page, for somebody who is signed in."""
    return control.call("GET", path, headers=sign_in(control), token=False).text


def test_the_list_has_pages_whose_filters_stay(control: Running) -> None:
    """Fifty at a time; the next page has the same search and state in its address."""
    for number in range(60):
        control.api("PUT", f"/destinations/n{number:02}", destination(f"n{number:02}"))
    page = destination_list(control.services, "N", "healthy", "")
    assert (len(page.rows), page.matched, page.total) == (50, 60, 64)
    assert page.after == "/destinations?search=N&state=healthy&after=n49%3An49"
    assert listed(control, "N", "healthy", "n49:n49")[0] == "n50"


def test_the_flow_is_that_of_the_last_slots(tmp_path: Path) -> None:
    """Delivered per second over the time buckets that deliver reported; long after the last report there is none."""
    assert rates(tmp_path) == {}
    (tmp_path / "run").mkdir()
    time_buckets = [
        TimeBucket(at=0, destinations={"crm": DestinationCounts(delivered=30, waiting=9)}),
        TimeBucket(at=TIME_BUCKET_SECONDS, destinations={"crm": DestinationCounts(delivered=10, waiting=2)}),
    ]
    write_time_buckets(tmp_path / "run", time_buckets)
    assert rates(tmp_path, lambda: 2 * TIME_BUCKET_SECONDS) == {"crm": 40 / (2 * TIME_BUCKET_SECONDS)}
    assert rates(tmp_path, lambda: 100 * TIME_BUCKET_SECONDS) == {}


def test_an_address_has_only_what_is_asked_for() -> None:
    """Empty filters are left out, others are escaped, and a change replaces what was there."""
    assert address("/x", {"a": "", "b": "1 & 2"}) == "/x?b=1+%26+2"
    assert address("/x", {"a": "1"}, a="2", after=None) == "/x?a=2"
    assert address("/x", {}) == "/x"
