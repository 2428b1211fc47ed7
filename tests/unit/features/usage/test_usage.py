"""Usage: what the report adds up, what counts on which plan, pages, and which days are refused."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from hookline.database.location import location_of
from hookline.database.open import open_deliver
from hookline.features.usage.service import usage_log
from hookline.settings import Plan
from tests.unit.control.running import Running, source

ROWS = [
    ("2026-10-30", "site", 100, 10),
    ("2026-10-31", "site", 50, 50),
    ("2026-10-31", "web", 7, 3),
    ("2026-11-01", "site", 5, 1),
]


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def fill(control: Running, *rows: tuple[str, str, int, int]) -> None:
    """Count as deliver does."""
    connection = open_deliver(location_of(control.settings, "deliver"))
    days = [((date.fromisoformat(day) - date(1970, 1, 1)).days, *rest) for day, *rest in rows]
    connection.executemany("INSERT INTO usage VALUES (?, ?, ?, ?)", days)
    connection.close()


def report(control: Running, query: str) -> tuple[list[list[Any]], list[int]]:
    """The items and the sums of a report."""
    answer = control.api("GET", f"/usage?{query}").json
    items = [[each[key] for key in ("period", "source", "events", "filtered", "counted")] for each in answer["items"]]
    return items, [answer[key] for key in ("events", "filtered", "counted")]


ALL = "from=2026-10-01&to=2026-11-30"


def test_by_month_and_by_day(control: Running) -> None:
    """Days add up to months; what filters kept back does not count."""
    fill(control, *ROWS)
    assert report(control, ALL) == (
        [["2026-11", "site", 5, 1, 4], ["2026-10", "site", 150, 60, 90], ["2026-10", "web", 7, 3, 4]],
        [162, 64, 98],
    )
    assert report(control, "from=2026-10-31&to=2026-10-31&by=day&source=site") == (
        [["2026-10-31", "site", 50, 50, 0]],
        [50, 50, 0],
    )


def test_a_grandfathered_plan_counts_what_servers_sent(tmp_path: Path) -> None:
    """Filtered events of server sources count, also of one that was deleted since; those of websites do not."""
    with Running(tmp_path / "data", plan=Plan(grandfathered=True)) as control:
        fill(control, *ROWS, ("2026-11-02", "gone", 9, 9))
        for made in (source(), source("web", type="web"), source("gone")):
            control.api("POST", "/sources", made)
        control.api("DELETE", "/sources/gone")
        items, sums = report(control, ALL)
        assert {(period, name): counted for period, name, _, _, counted in items} == {
            ("2026-11", "gone"): 9,
            ("2026-11", "site"): 5,
            ("2026-10", "site"): 150,
            ("2026-10", "web"): 4,
        }
        assert sums == [171, 73, 168]
        assert control.api("GET", "/usage").json["grandfathered"] is True


def test_this_month_is_the_default(control: Running) -> None:
    """Without days it is the month so far."""
    today = datetime.now(UTC).date()
    fill(control, *ROWS[:1], (today.isoformat(), "site", 3, 0))
    answer = control.api("GET", "/usage").json
    assert (answer["from"], answer["to"]) == (today.replace(day=1).isoformat(), today.isoformat())
    assert answer["events"] in (3, 103)  # the fixed rows may lie in the month of the test


def test_pages(control: Running) -> None:
    """Following `after` visits every item once; the sums are of all."""
    fill(control, *ROWS)
    seen, query = [], f"{ALL}&limit=1"
    while query:
        answer = control.api("GET", f"/usage?{query}").json
        seen += [each["period"] + each["source"] for each in answer["items"]]
        assert answer["events"] == 162
        query = f"{ALL}&limit=1&after={answer['after']}" if answer["after"] else ""
    assert seen == ["2026-11site", "2026-10site", "2026-10web"]


def test_before_deliver_ever_ran(control: Running) -> None:
    """Nothing was sent yet: nothing is reported."""
    assert report(control, ALL) == ([], [0, 0, 0])


@pytest.mark.parametrize("query", ["from=yesterday", "to=2026-13-01", "from=2026-11-02&to=2026-11-01", "after=x"])
def test_what_is_refused(asked: Running, query: str) -> None:
    """A parameter that cannot be used is named."""
    answer = asked.api("GET", f"/usage?{query}")
    assert (answer.status, answer.json["code"]) == (400, "invalid_parameter")


def test_sums_by_day_and_by_source(control: Running) -> None:
    """Both add up to what the report says; days outside are left out."""
    fill(control, *ROWS)
    log = usage_log(control.services)
    october = (date(2026, 10, 1), date(2026, 10, 31))
    assert log.of_days(*october) == {date(2026, 10, 30): (100, 10), date(2026, 10, 31): (57, 53)}
    assert log.of_sources(*october) == {"site": (150, 60), "web": (7, 3)}
