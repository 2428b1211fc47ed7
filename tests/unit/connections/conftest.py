"""A store on a real database, and feeds that follow it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.connections.state import Feed
from hookline.connections.store import Store
from hookline.database.location import DatabaseLocation
from tests.unit.conftest import LocationOf


@pytest.fixture
def location(location_of: LocationOf) -> DatabaseLocation:
    """Where the control database is."""
    return location_of("control")


@pytest.fixture
def store(location: DatabaseLocation) -> Iterator[Store]:
    """An empty store."""
    opened = Store(location, now_ms=lambda: 1_700_000_000_000)
    yield opened
    opened.close()


@pytest.fixture
def feed(location: DatabaseLocation) -> Iterator[Feed]:
    """A feed of the store's database."""
    opened = Feed(location)
    yield opened
    opened.close()
