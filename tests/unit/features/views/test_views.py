"""Saved views: who sees them, who changes them, and what they may lead to."""

from __future__ import annotations

from typing import Any

import pytest

from hookline.features.views import service
from tests.unit.control.running import Running
from tests.unit.features.accounts.test_users import as_browser, join, owner


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Each test once in files and once in PostgreSQL."""
    return control_on_both


def names(control: Running, cookie: str, path: str = "/events") -> list[str]:
    """The views that somebody sees of a page."""
    return [each["name"] for each in as_browser(control, "GET", f"/views?path={path}", cookie).json["items"]]


def test_own_views_and_those_of_everybody(control: Running) -> None:
    """A viewer keeps private ones, an editor shares; an owner does not look into either's private ones."""
    olga, vera = owner(control), join(control, "vera", "viewer")
    emma = join(control, "emma", "editor")

    def save(cookie: str, **view: Any) -> Any:
        return as_browser(control, "POST", "/views", cookie, {"path": "/events", "query": "range=1h", **view})

    mine = save(vera, name="Mine").json
    assert (mine["href"], mine["shared"], mine["mine"], mine["changeable"]) == ("/events?range=1h", False, True, True)
    assert save(vera, name="Not mine to give", shared=True).status == 403
    shared = save(emma, name="All orders", query="?event=Order", shared=True).json
    assert shared["href"] == "/events?event=Order"
    save(emma, name="Other page", path="/people")
    assert names(control, vera) == ["All orders", "Mine"]
    assert names(control, olga) == names(control, emma) == ["All orders"]
    assert names(control, emma, "/people") == ["Other page"]
    assert as_browser(control, "DELETE", f"/views/{mine['id']}", olga).status == 404
    assert as_browser(control, "DELETE", f"/views/{shared['id']}", vera).status == 403
    change = {"Cookie": olga, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/merge-patch+json"}
    renamed = control.call("PATCH", f"/api/v1/views/{shared['id']}", {"name": "Orders"}, change, token=False).json
    assert (renamed["name"], renamed["shared"], renamed["mine"]) == ("Orders", True, False)
    change["Cookie"] = vera
    assert control.call("PATCH", f"/api/v1/views/{mine['id']}", {"shared": True}, change, token=False).status == 403
    assert as_browser(control, "DELETE", f"/views/{mine['id']}", vera).status == 204
    assert as_browser(control, "DELETE", f"/views/{shared['id']}", emma).status == 204
    assert names(control, vera) == []


WRONG: tuple[dict[str, str], ...] = (
    {"path": "//evil.example"},
    {"path": "https://evil.example"},
    {"path": "/events?x=1"},
    {"path": "javascript:alert(1)"},
    {"path": "/\\evil"},
    {"query": "a\nb"},
    {"query": "x" * 2_001},
    {"name": ""},
)


def test_a_view_leads_to_a_page_of_ours(control: Running) -> None:
    """Anything else is refused."""
    for wrong in WRONG:
        assert control.api("POST", "/views", {"name": "A", "path": "/events", **wrong}).status == 422, wrong
        assert control.api("GET", "/views").json["items"] == [], wrong


def test_views_are_bounded(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each owner."""
    monkeypatch.setattr(service, "VIEWS_MAX", 2)
    made = [control.api("POST", "/views", {"name": "A", "path": "/events"}).status for _ in range(3)]
    assert made == [201, 201, 422]
