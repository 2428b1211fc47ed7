"""A store on a real database, and feeds that follow it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookline.connections.feed import Feed
from hookline.connections.store import Store
from hookline.database.place import Place
from tests.unit.conftest import PlaceOf


@pytest.fixture
def place(place_of: PlaceOf) -> Place:
    """Where the control database is."""
    return place_of("control")


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    """An empty store."""
    opened = Store(place, now_ms=lambda: 1_700_000_000_000)
    yield opened
    opened.close()


@pytest.fixture
def feed(place: Place) -> Iterator[Feed]:
    """A feed of the store's database."""
    opened = Feed(place)
    yield opened
    opened.close()
