"""The schema of a source over the API and the command line."""

from __future__ import annotations

import pytest

from hookline.cli.admin_api import AdminApi
from hookline.features.insights.cli import print_schema
from hookline.features.sources import pages
from hookline.features.sources.service import schema_watcher
from tests.unit.control.running import TOKEN, Running, record, source
from tests.unit.features.accounts.test_access import sign_in


def test_the_api(control: Running) -> None:
    """Names in order, by pages and by filters, and how many events are still to be looked at."""
    control.api("POST", "/sources", source())
    control.append(*(record(f"m{n}", f"Event {n % 5}", properties={"n": n}) for n in range(10)))
    schema_watcher(control.services).run_once()
    control.append(record("later", "Later"))
    answer = control.api("GET", "/sources/site/schema?limit=3").json
    assert [each["name"] for each in answer["items"]] == ["Event 0", "Event 1", "Event 2"]
    assert (answer["names"], answer["unread"], answer["missed"], answer["otherEvents"]) == (5, 1, 0, 0)
    rest = control.api("GET", f"/sources/site/schema?limit=3&after={answer['after'].replace(' ', '%20')}").json
    assert ([each["name"] for each in rest["items"]], rest["after"]) == (["Event 3", "Event 4"], None)
    (one,) = control.api("GET", "/sources/site/schema?type=track&name=Event%204").json["items"]
    assert (one["count"], one["examined"], one["propertiesComplete"]) == (2, 2, True)
    assert one["properties"] == [{"path": "n", "types": {"number": 2}}]
    assert control.api("GET", "/sources/nobody/schema").status == 404


def test_the_page_shows_some_properties(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each name, and leads to all of them."""
    monkeypatch.setattr(pages, "PROPERTIES_SHOWN", 3)
    control.api("POST", "/sources", source())
    control.append(record("m", "Event <1>", properties={f"p{n}": n for n in range(5)}), record("n", "Few"))
    schema_watcher(control.services).run_once()
    text = control.call("GET", "/sources/site/schema", headers=sign_in(control), token=False).text
    assert [f">p{n}</bdi>" in text for n in range(5)] == [True] * 3 + [False] * 2
    assert '2 more in <a href="/api/v1/sources/site/schema?type=track&amp;name=Event%20%3C1%3E">' in text
    assert text.count("more in") == 1


def test_the_command(control: Running, capsys: pytest.CaptureFixture[str]) -> None:
    """Names as lines; properties where one name is asked for; nothing is said too."""
    control.api("POST", "/sources", source())
    admin = AdminApi(f"http://127.0.0.1:{control.port}", TOKEN)
    print_schema(admin, "site", None, None, 50, as_json=False)
    assert "no events of this kind yet" in capsys.readouterr().out
    control.append(*(record(f"m{n}", f"Event {n}", properties={"total": n}) for n in range(3)))
    schema_watcher(control.services).run_once()
    print_schema(admin, "site", None, None, 2, as_json=False)
    shown = capsys.readouterr().out
    assert "track Event 0  once" in shown
    assert "1 more names" in shown
    print_schema(admin, "site", "track", "Event 1", 50, as_json=False)
    assert "total  number 1" in capsys.readouterr().out
