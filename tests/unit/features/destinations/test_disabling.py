"""Disabling a destination whose events wait, by the API."""

from __future__ import annotations

import asyncio

import pytest

from hookline.features.destinations import api
from hookline.features.destinations.state import DestinationState
from tests.unit.control.running import Running, destination, record, source


def test_what_is_accepted_while_it_is_disabled_is_drained_too(
    control: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing waited at the look, and an event came before the change: ``drain`` says that it is sent."""
    control.api("PUT", "/sources/site", source())
    assert control.api("PUT", "/destinations/crm", destination(enabled=True)).status == 201
    look = api._state

    async def look_and_go_on(services: api.Services, id: str) -> DestinationState:
        found = await look(services, id)
        await asyncio.to_thread(control.append, record("late"))
        return found

    monkeypatch.setattr(api, "_state", look_and_go_on)
    assert control.api("POST", "/destinations/crm/disable", {"waiting": "drain"}).status == 200
    stored = control.services.store.destination("crm")
    assert stored is not None
    assert stored.lane is not None
    assert stored.lane.until == {0: 1}
