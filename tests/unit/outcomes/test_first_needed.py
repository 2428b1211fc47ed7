"""From which offset on the journal is waited for, as deliver's last checkpoint has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hookline.database.connect import connect
from hookline.database.connection import Connection
from hookline.database.location import DatabaseLocation, Which
from hookline.database.open import ensure, open_deliver
from hookline.outcomes import positions
from hookline.outcomes.reader import _FIRST_RETRIES, NOBODY, DeliverReader, FirstNeeded


@pytest.fixture
def deliver(tmp_path: Path) -> Iterator[Connection]:
    """A deliver database whose shared reader of partition 0 is at offset 100."""
    connection = open_deliver(tmp_path / "deliver.db")
    checkpoint(connection, {})
    yield connection
    connection.close()


def checkpoint(deliver: Connection, opened: dict[int, positions.Ranges]) -> None:
    """Save a checkpoint with these open offsets of attached lanes."""
    deliver.execute("DELETE FROM checkpoints")
    blob = positions.encode(positions.SavedPositions(opened))
    deliver.execute("INSERT INTO checkpoints VALUES (0, 100, 1, ?)", (blob,))


def stands(deliver: Connection, lane: int, offset: int, state: str, undone: positions.Ranges = ()) -> None:
    """Save a lane's own row."""
    blob = positions.encode(positions.SavedCursor(False, undone))
    deliver.execute("INSERT INTO lanes VALUES (?, 0, ?, ?, ?)", (lane, offset, state, blob))


def retries(deliver: Connection, lane: int, offset: int) -> None:
    """Save an event that waits for another try."""
    deliver.execute("INSERT INTO retries VALUES (?, 0, ?, 1, 0, 0, 31)", (lane, offset))


def test_the_shared_reader_is_waited_for(deliver: Connection) -> None:
    """And before it what attached lanes have taken and not finished."""
    assert DeliverReader.on(deliver).first_needed() == {0: FirstNeeded(100, NOBODY)}
    checkpoint(deliver, {1: (90, 2), 2: (95, 1)})
    assert DeliverReader.on(deliver).first_needed() == {0: FirstNeeded(90, NOBODY)}


@pytest.mark.parametrize("state", ["paused", "open", "gone"])
def test_lanes_that_are_held_are_told_apart(deliver: Connection, state: str) -> None:
    """With their retries; what working lanes wait for is not theirs."""
    stands(deliver, 1, 40, state)
    retries(deliver, 1, 30)
    stands(deliver, 2, 60, "closed", undone=(55, 1))
    retries(deliver, 3, 50)
    assert DeliverReader.on(deliver).first_needed() == {0: FirstNeeded(50, 30)}


@pytest.mark.parametrize("state", ["finished", "drained"])
def test_what_has_ended_waits_for_nothing(deliver: Connection, state: str) -> None:
    """The row of a replay that is done, or of a destination that has drained."""
    stands(deliver, 1, 5, state)
    assert DeliverReader.on(deliver).first_needed() == {0: FirstNeeded(100, NOBODY)}


def test_what_is_unknown_counts_as_waited_for(deliver: Connection) -> None:
    """A partition that deliver has no checkpoint of."""
    deliver.execute("DELETE FROM checkpoints")
    stands(deliver, 1, 40, "paused")
    assert DeliverReader.on(deliver).first_needed() == {0: FirstNeeded(0, 40)}


@pytest.mark.parametrize(
    "rows", [[], [(3, 0, 9)], [(-1, 0, 8), (-1, 0, 2), (-1, 3, 0), (2, 1, 5), (2, 2, 5), (9, 0, 1)]]
)
def test_the_first_retries_of_each_place(
    location_of: Callable[[Which], DatabaseLocation], rows: list[tuple[int, int, int]]
) -> None:
    """One for each lane and partition that has some."""
    ensure(location_of("deliver"), "deliver")
    with closing(connect(location_of("deliver"))) as connection:
        for row in rows:
            connection.execute("INSERT INTO retries VALUES (?, ?, ?, 1, 0, 0, 31)", row)
        expected = {(lane, partition): 2**63 for lane, partition, _ in rows}
        for lane, partition, offset in rows:
            expected[lane, partition] = min(expected[lane, partition], offset)
        found = DeliverReader.on(connection).first_retries()
    assert sorted(found) == sorted((*place, offset) for place, offset in expected.items())


def test_the_first_retries_are_found_without_reading_the_others(deliver: Connection) -> None:
    """Who asks answers requests meanwhile, and a destination that is down may have 100,000."""
    plan = [row[3] for row in deliver.execute(f"EXPLAIN QUERY PLAN {_FIRST_RETRIES}").fetchall()]
    looks = [step for step in plan if "retries" in step]
    assert len(looks) == 5
    assert [step for step in looks if not step.startswith("SEARCH retries USING ")] == []
