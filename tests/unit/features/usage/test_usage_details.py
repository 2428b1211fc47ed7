"""Usage per destination, tracked users, and reports as comma-separated values."""

from __future__ import annotations

import csv
import json
import threading
from datetime import UTC, datetime

import pytest

from hookline.cli.admin_api import AdminApi
from hookline.features.insights.cli import print_usage
from hookline.features.insights.service import series_log, series_store
from hookline.features.sources.service import schema_watcher
from hookline.features.usage import api
from hookline.features.usage.api import TrackedUsersItem, csv_answer
from hookline.features.usage.service import UsageCount, UsageLog
from hookline.insights import series
from hookline.telemetry.time_buckets import DestinationCounts, TimeBucket
from tests.unit.control.running import TOKEN, Running, record
from tests.unit.features.accounts.test_access import sign_in
from tests.unit.features.usage.test_usage import ALL, ROWS, fill

CSV = {"Accept": "text/csv, application/json;q=0.5"}


def deliver(control: Running, *days: tuple[str, str, int]) -> None:
    """Count deliveries as deliver and control do."""
    for day, destination, delivered in days:
        at = int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=UTC).timestamp())
        counts = DestinationCounts(delivered=delivered, failures=1, filtered=2)
        series_store(control.services).add_time_buckets([TimeBucket(at=at, destinations={destination: counts})])


def rows(text: str) -> list[list[str]]:
    """Comma-separated values as they are read."""
    return list(csv.reader(text.splitlines()))


def test_per_destination(control: Running) -> None:
    """Days add up to months; days outside do not count; pages lead through all."""
    deliver(
        control, ("2026-10-31", "crm", 5), ("2026-11-01", "crm", 7), ("2026-11-02", "crm", 8), ("2026-11-02", "erp", 9)
    )
    answer = control.api("GET", "/usage/destinations?from=2026-11-01&to=2026-11-30").json
    assert [(each["period"], each["destination"], each["delivered"]) for each in answer["items"]] == [
        ("2026-11", "crm", 15),
        ("2026-11", "erp", 9),
    ]
    assert (answer["delivered"], answer["items"][0]["failures"], answer["items"][0]["filtered"]) == (24, 2, 4)
    seen, query = [], "from=2026-10-01&to=2026-11-30&by=day&limit=1"
    after = ""
    while after is not None:
        page = control.api("GET", f"/usage/destinations?{query}{after and '&after=' + after}").json
        seen += [each["period"] + each["destination"] for each in page["items"]]
        after = page["after"]
    assert seen == ["2026-11-02crm", "2026-11-02erp", "2026-11-01crm", "2026-10-31crm"]


def test_nobody_waits_for_a_report_of_others(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of many sources by day takes seconds: it is made in a thread, and control answers others meanwhile."""
    fill(control, *ROWS)
    counts, threads = UsageLog.counts, set()

    def noting(*arguments: object) -> list[UsageCount]:
        threads.add(threading.current_thread())
        return counts(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(UsageLog, "counts", noting)
    assert control.api("GET", f"/usage?{ALL}&by=day").status == 200
    assert control.call("GET", "/usage.csv", headers=sign_in(control), token=False).status == 200
    assert {thread.name[:7] for thread in threads} == {"asyncio"}


def test_a_report_that_is_too_long_is_refused(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is left out without a word; the page needs the busiest alone."""
    deliver(control, ("2026-10-31", "crm", 5), ("2026-11-01", "crm", 7))
    fill(control, *ROWS)
    for module in (series, api):
        monkeypatch.setattr(module, "USAGE_ROWS_MAX", 1)
    for path, headers in ((f"destinations?{ALL}", {}), (f"destinations?{ALL}", CSV), (f"?{ALL}", {}), (f"?{ALL}", CSV)):
        answer = control.call("GET", f"/api/v1/usage/{path}".replace("/?", "?"), headers=headers)
        assert (answer.status, answer.json["code"]) == (400, "invalid_parameter")
        assert "more than 1 rows" in answer.json["detail"]
    days = [int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) for month in (10, 12)]
    found = series_log(control.services).busiest(*days, limit=1)
    assert [(each.destination, each.delivered, each.failures) for each in found] == [("crm", 12, 2)]


def test_tracked_users(control: Running) -> None:
    """Per month, all sources together and each."""
    control.append(*(record(f"m{n}", userId=f"u{n % 7}", source=("site", "app")[n % 2]) for n in range(28)))
    schema_watcher(control.services).run_once()
    answer = control.api("GET", "/usage/users").json
    month = datetime.now(UTC).strftime("%Y-%m")
    assert answer["items"] == [
        {"month": month, "source": None, "users": 7},
        {"month": month, "source": "app", "users": 7},
        {"month": month, "source": "site", "users": 7},
    ]
    assert rows(control.call("GET", "/api/v1/usage/users", headers=CSV).text)[1] == [month, "", "7"]


def test_storage(control: Running) -> None:
    """Every part of the data folder with what it takes, what is free, and how long events are kept."""
    control.append(record("m1"))
    answer = control.api("GET", "/usage/storage").json
    taken = {each["name"]: each["bytes"] for each in answer["parts"]}
    assert taken["journal"] > 0
    assert taken["insights.db"] > 0
    assert answer["bytes"] == sum(taken.values())
    assert (answer["freeBytes"] > 0, answer["retentionSeconds"]) == (True, 30 * 86_400)
    table = rows(control.call("GET", "/api/v1/usage/storage", headers=CSV).text)
    assert table[0] == ["name", "title", "bytes"]
    assert {row[0] for row in table[1:]} == set(taken)


def test_comma_separated_values(control: Running) -> None:
    """All items whatever the limit, with a line of names; who asks for JSON first gets that."""
    fill(control, *ROWS)
    answer = control.call("GET", f"/api/v1/usage?{ALL}&limit=1", headers=CSV)
    assert answer.headers["content-type"].startswith("text/csv")
    assert rows(answer.text) == [
        ["period", "source", "events", "filtered", "counted", "suppressed"],
        ["2026-11", "site", "5", "1", "4", "0"],
        ["2026-10", "site", "150", "60", "90", "0"],
        ["2026-10", "web", "7", "3", "4", "0"],
    ]
    deliver(control, ("2026-11-01", "crm", 7))
    destinations = control.call("GET", f"/api/v1/usage/destinations?{ALL}", headers=CSV)
    assert rows(destinations.text)[1] == ["2026-11", "crm", "7", "2", "1", "0"]
    both = {"Accept": "application/json, text/csv"}
    assert len(control.call("GET", f"/api/v1/usage?{ALL}", headers=both).json["items"]) == 3


def test_no_text_is_a_formula() -> None:
    """What a spreadsheet would calculate is kept a text."""
    items = [TrackedUsersItem("=1+1", "@x", 3), TrackedUsersItem("plain", None, -1)]
    answer = csv_answer(items, ("month", "source", "users"), "x")
    assert rows(str(answer.content))[1:] == [["'=1+1", "'@x", "3"], ["plain", "", "-1"]]


@pytest.mark.parametrize(
    "query",
    ["destinations?from=x", "destinations?from=2026-11-02&to=2026-11-01", "destinations?after=x", "users?months=25"],
)
def test_what_is_refused(asked: Running, query: str) -> None:
    """A parameter that cannot be used is named."""
    assert asked.api("GET", f"/usage/{query}").json["code"] == "invalid_parameter"


def test_the_command(control: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """As a table, as JSON, and for a spreadsheet."""
    fill(control, *ROWS)
    admin = AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
    query = {"by": "month", "from": "2026-10-01", "to": "2026-11-30"}
    print_usage(admin, "sources", query, "text")
    assert "2026-10  site    150     60        90" in capsys.readouterr().out
    print_usage(admin, "sources", query, "json")
    assert len(json.loads(capsys.readouterr().out)) == 3
    print_usage(admin, "destinations", query, "csv")
    assert capsys.readouterr().out.startswith("period,destination,")
    print_usage(admin, "storage", {}, "text")
    assert "control.db" in capsys.readouterr().out
    print_usage(admin, "users", {}, "text")
    assert "nothing was counted" in capsys.readouterr().out
