"""Results read back: from the ring, from blocks that grow, and from what was kept of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookline.database.open import ensure
from hookline.database.sqlite import Connection, connect
from hookline.outcomes import results as module
from hookline.outcomes.progress import BUCKET_SHIFT, ENTRY, ProgressRing
from hookline.outcomes.reader import DeliverReader
from hookline.outcomes.results import Results
from tests.unit.journal.conftest import BadPages, bad_pages

__all__ = ["bad_pages"]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Connection]:
    """A deliver.db without rows."""
    ensure(tmp_path / "deliver.db", "deliver")
    connection = connect(tmp_path / "deliver.db")
    yield connection
    connection.close()


def block(database: Connection, id: int, *offsets: int, at_ms: int = 1) -> None:
    """Write a block with one result of lane 1 for each offset, or make one longer."""
    entries = b"".join(ENTRY.pack(offset, at_ms, 1 << 3, 200, 5) for offset in offsets)
    database.execute(
        "INSERT INTO outcome_blocks (id, partition, first_offset, last_offset, at, first_at, entries)"
        " VALUES (?1, 0, ?2, ?3, 1, 1, ?4) ON CONFLICT (id) DO UPDATE SET entries = CAST(entries || ?4 AS BLOB),"
        " last_offset = max(last_offset, ?3)",
        (id, min(offsets), max(offsets), entries),
    )


def times(results: Results, offset: int) -> list[int]:
    """When each result of an offset came."""
    return [entry.at_ms for entry in results.of_position(0, offset)]


def test_a_block_that_grew_is_read_again(tmp_path: Path, database: Connection) -> None:
    """What is kept of it is not what it was."""
    results = Results(tmp_path, DeliverReader.on(database))
    block(database, 1, 5, 6)
    assert times(results, 6) == [1]
    block(database, 1, 6, at_ms=2)
    assert times(results, 6) == [1, 2]
    assert times(results, 7) == []


def test_few_blocks_are_kept(tmp_path: Path, database: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and what was let go is found again."""
    monkeypatch.setattr(module, "BLOCKS_KEPT", 2)
    results = Results(tmp_path, DeliverReader.on(database))
    for number in range(5):
        block(database, number + 1, number << BUCKET_SHIFT | 9)
    for _ in range(2):
        assert [times(results, number << BUCKET_SHIFT | 9) for number in range(5)] == [[1]] * 5
    assert len(results._kept) == 2


def test_the_newest_are_in_the_ring(tmp_path: Path) -> None:
    """Also before there is a database; without a ring nothing is known."""
    results = Results(tmp_path, DeliverReader(tmp_path / "deliver.db"))
    assert times(results, 5) == []
    ring = ProgressRing(tmp_path / "progress.ring")
    ring.add(5, 70, 1 << 3, 200, 1)
    found = times(results, 5)
    assert found == [70]
    results.close()
    ring.close()


def test_a_ring_on_a_bad_sector_holds_nothing(tmp_path: Path, bad_pages: BadPages) -> None:
    """To map it ended control, as often as somebody looked at an event."""
    results = Results(tmp_path, DeliverReader(tmp_path / "deliver.db"))
    ring = ProgressRing(tmp_path / "progress.ring")
    ring.add(5, 70, 1 << 3, 200, 1)
    bad_pages.add(tmp_path / "progress.ring")
    assert times(results, 5) == []
    bad_pages.mend()
    assert times(results, 5) == [70]
    results.close()
    ring.close()
