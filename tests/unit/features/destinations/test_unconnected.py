"""Events that a destination was not connected for, in files and in PostgreSQL."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import pytest
from msgspec.structs import replace

from hookline.events.timestamps import iso
from hookline.features.destinations import unconnected as module
from hookline.features.destinations.unconnected import Unconnected, unconnected_of
from tests.unit.control.running import Running, destination, record, source


@pytest.fixture
def control(control_on_both: Running) -> Running:
    """Two events of a source come before its destination."""
    control_on_both.api("POST", "/sources", source())
    control_on_both.api("POST", "/sources", source("app"))
    control_on_both.append(record("m0"), record("m1"), record("other", source="app"))
    control_on_both.api("POST", "/destinations", destination())
    return control_on_both


def unconnected(control: Running, since_ms: int = 0) -> Unconnected | None:
    """What the page of the destination says."""
    stored = control.services.store.destination("crm")
    assert stored is not None
    return asyncio.run(unconnected_of(control.services, stored, since_ms))


def test_what_came_before_it_was_connected_is_counted(control: Running) -> None:
    """Those of its sources in the range, with the replay of exactly them; what came since is in its stream."""
    late = record("m2")
    control.append(late)
    found = unconnected(control)
    assert found is not None
    assert found[:3] == (2, True, False)
    asked = {name: value for name, (value,) in parse_qs(urlsplit(found.replay_href).query).items()}
    assert (asked["source"], asked["from"] < asked["to"] <= iso(late.received_at + 1)) == ("site", True)
    assert unconnected(control, late.received_at + 1) is None


def test_what_came_while_it_was_off_is_counted_and_what_it_got_is_not(control: Running) -> None:
    """Enabled again it has another lane; what the earlier one had was sent."""
    control.append(record("m2"))
    control.api("PATCH", "/destinations/crm", {"enabled": False})
    control.append(record("m3"))
    assert unconnected(control) is None
    control.api("PATCH", "/destinations/crm", {"enabled": True})
    found = unconnected(control)
    assert found is not None
    assert found[:3] == (3, True, True)
    control.api("PATCH", "/destinations/crm", {"sources": ["site", "app"]})
    found = unconnected(control)
    assert found is not None
    assert (found.events, "source=" in found.replay_href) == (4, False)


def test_what_was_erased_since_is_counted_by_itself(control: Running) -> None:
    """No replay sends it, and the counts of what the sources sent still have it."""
    control.api("PATCH", "/destinations/crm", {"enabled": False})
    control.append(replace(record("m2"), erased=True))
    late = record("m3")
    control.append(replace(late, received_at=late.received_at + 1, erased=True))
    control.api("PATCH", "/destinations/crm", {"enabled": True})
    found = unconnected(control)
    assert found is not None
    assert (found.events, found.erased) == (2, 2)
    assert unconnected(control, late.received_at + 1) == Unconnected(0, True, False, "", 1)


def test_more_than_a_page_looks_at_are_not_counted(control: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page says that there are more, and leaves the first figure as it is."""
    monkeypatch.setattr(module, "EVENTS_LOOKED_AT", 2)
    found = unconnected(control)
    assert found is not None
    assert found[:3] == (1, False, False)
