"""The history of the connections, through the API."""

from __future__ import annotations

import threading

import pytest

from hookline.connections.past import ALL, Past, Version
from tests.unit.control.running import Running, destination, source


def test_history_and_the_way_back(control: Running) -> None:
    """A change is listed, shown by itself, looked at before it is undone, and undone as a new version."""
    control.api("POST", "/sources", source())
    control.api("POST", "/destinations", destination())
    control.api("PATCH", "/destinations/crm", {"name": "Other"})
    first = control.api("GET", "/connections/versions?limit=2").json
    assert [each["version"] for each in first["items"]] == [3, 2]
    rest = control.api("GET", f"/connections/versions?limit=2&after={first['after']}").json
    assert ([each["version"] for each in rest["items"]], rest["after"]) == ([1], None)
    shown = control.api("GET", "/connections/versions/3").json["changes"][0]
    assert (shown["action"], shown["fields"][0]["after"]) == ("change", "Other")
    looked = control.api("POST", "/connections/versions/2/roll-back", {"dryRun": True}).json
    assert (looked["version"], [each["id"] for each in looked["changes"]]) == (3, ["crm"])
    assert control.api("POST", "/connections/versions/2/roll-back").json["version"] == 4
    assert control.api("GET", "/destinations/crm").json["name"] == destination()["name"]


def test_a_way_back_that_leads_nowhere(control: Running) -> None:
    """Versions that are not there, cursors nobody gave, and a change that is refused change nothing."""
    control.api("POST", "/sources", source())
    control.api("PATCH", "/sources/site", {"writeKeys": ["wk_other"]})
    control.api("POST", "/sources", source("second"))
    for path in ("/connections/versions/99", f"/connections/versions/{1 << 70}"):
        assert control.api("GET", path).status == 404
    assert control.api("POST", "/connections/versions/99/roll-back", {}).status == 404
    assert control.api("GET", "/connections/versions?after=x").json["code"] == "invalid_parameter"
    assert control.api("POST", "/connections/versions/1/roll-back", {"when": 1}).status == 422


def test_nobody_waits_for_a_version_of_others(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a large file takes long: it is read in a thread, also to go back to it."""
    version, threads = Past.version, []

    def noting(past: Past, number: int, limit: int = ALL) -> Version | None:
        threads.append(threading.current_thread().name)
        return version(past, number, limit)

    monkeypatch.setattr(Past, "version", noting)
    control.api("POST", "/sources", source())
    assert control.api("GET", "/connections/versions/1").status == 200
    assert control.api("POST", "/connections/versions/1/roll-back", {"dryRun": True}).status == 200
    assert [name.partition("_")[0] for name in threads] == ["asyncio", "asyncio"]
