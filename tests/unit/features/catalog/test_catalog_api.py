"""The catalog and the installed kinds as the API tells them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.control.running import Running, destination, source


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Control with a source and a destination."""
    with Running(tmp_path_factory.mktemp("catalog") / "data") as running:
        running.api("POST", "/sources", source())
        assert running.api("POST", "/destinations", destination()).status == 201
        yield running


def test_a_kind_tells_its_form_and_its_own_settings(control: Running) -> None:
    """The webhook has the schema of webhooks, the kind http its own, with its secrets marked."""
    entries = {each["kind"]: each for each in control.api("GET", "/catalog").json["items"]}
    webhook, http = entries["webhook"], entries["http"]
    assert (webhook["form"], webhook["category"], webhook["requests"]) == ("webhook", "Webhooks", [])
    assert "WebhookSettings" in webhook["settingsSchema"]["$defs"]
    assert (http["form"], http["webhooksMax"], http["hasIcon"]) == ("requests", 0, True)
    assert http["settingsSchema"]["properties"]["secrets"]["additionalProperties"]["secret"] is True
    assert control.api("GET", "/catalog/http").json["guide"].startswith("## ")


def test_installed_kinds_with_how_many_destinations_each_has(control: Running) -> None:
    """What is in use is counted, and nothing is wrong with what comes with Hookline."""
    listed = {each["kind"]: each for each in control.api("GET", "/kinds").json["items"]}
    assert (listed["webhook"]["destinations"], listed["http"]["destinations"]) == (1, 0)
    assert listed["http"]["form"] == "requests"
    assert {each["problem"] for each in listed.values()} == {None}


def test_a_kind_is_checked_from_its_text(control: Running) -> None:
    """Each fault comes with a pointer; one that is right has none; nothing is stored of it."""
    text = "name: A\npublishedName: A\ndescription: A\ncalls: [track]\nrequests:\n  - {name: a, url: 'https://a.example/'}\n"
    assert control.api("POST", "/kinds/check", {"manifest": text}).json == {
        "problems": [],
        "name": "A",
        "form": "requests",
    }
    (problem,) = control.api("POST", "/kinds/check", {"manifest": text.replace("https:", "ftp:")}).json["problems"]
    assert problem["pointer"] == "/requests/0/url"
    assert "http" in problem["detail"]
    assert len(control.api("GET", "/kinds").json["items"]) == len(control.api("GET", "/catalog").json["items"])


def test_a_kind_that_cannot_be_used_says_why(control: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package's kind with a fault is in the list with the reason, and not in the catalog."""
    from hookline.kinds.catalog import kinds

    package = tmp_path / "bad_kind"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kind.yaml").write_text("name: Bad\n")
    facts = tmp_path / "bad_kind-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: bad-kind\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[hookline.destinations]\nbad = bad_kind\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds.cache_clear()
    try:
        bad = next(each for each in control.api("GET", "/kinds").json["items"] if each["kind"] == "bad")
        assert (bad["origin"], bad["form"]) == ("bad-kind 1.0", None)
        assert "publishedName" in bad["problem"]
        assert control.api("GET", "/catalog/bad").status == 404
    finally:
        monkeypatch.undo()
        kinds.cache_clear()
