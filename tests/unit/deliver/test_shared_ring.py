"""What rings know is in the database for whoever takes a partition up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.open import ensure
from hookline.deliver.cluster.shared_ring import SharedRing, delivered, settled
from hookline.outcomes.progress import DUPLICATE_TAG, POSITION_SHIFT, URL_BITS, ProgressRing
from hookline.outcomes.reader import DeliverReader
from tests.unit.conftest import LocationOf

LANE = 5
TAG = LANE << URL_BITS
AT_MS = 1_795_158_000_000


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[ProgressRing]:
    """An empty ring."""
    with closing(ProgressRing(tmp_path / "progress.ring")) as opened:
        yield opened


@pytest.fixture
def database(location_of: LocationOf, ring: ProgressRing) -> Iterator[tuple[Connection, SharedRing]]:
    """A new deliver database, and the ring that is written to it."""
    ensure(location_of("deliver"), "deliver")
    with closing(connect(location_of("deliver"))) as connection:
        yield connection, SharedRing(location_of("deliver"), ring)


def test_deliveries_are_found_by_partition(ring: ProgressRing, database: tuple[Connection, SharedRing]) -> None:
    """Those that the ring knows now, and nothing of failures and repeats; of retry rows those that were delivered."""
    connection, shared = database
    ring.add(1, AT_MS, TAG, 200, 3)
    shared.publish()
    for offset, tag, result in ((7, TAG, 204), (8, TAG, 503), (9, DUPLICATE_TAG, 0)):
        ring.add(1 << POSITION_SHIFT | offset, AT_MS, tag, result, 3)
    shared.publish()
    assert list(delivered(connection, 0)[LANE]) == [1]
    known = delivered(connection, 1)
    assert {lane: list(entries) for lane, entries in known.items()} == {LANE: [1 << POSITION_SHIFT | 7]}
    for offset in (6, 7, 8):
        columns = 'lane, partition, "offset", attempt, first_at, due, urls'
        connection.execute(f"INSERT INTO retries ({columns}) VALUES (?, 1, ?, 1, 0, 0, 1)", (LANE, offset))
    assert settled(DeliverReader.on(connection), 1, known, [LANE, LANE + 1]) == [(LANE, 1 << POSITION_SHIFT | 7)]
    assert delivered(connection, 2) == {}
