"""What deliver finds out about lanes: control records it when a power cut cannot take it back any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.connections.edits import Delete
from hookline.database.sqlite import connect
from hookline.features.destinations.service import LaneWatch
from tests.unit.deliver.rig import Rig, destination, source


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Control's and deliver's files, with one destination that gets an event."""
    (tmp_path / "run").mkdir()
    made = Rig(tmp_path)
    made.change(source(), destination("crm"))
    made.start()
    made.append("m")
    made.turn()
    yield made
    made.close()


def drain(rig: Rig, ends: Callable[[], dict[int, int]]) -> None:
    """Disable the destination, and have deliver send what it is to get still."""
    rig.store.drain("crm", "test", ends)
    rig.follow()
    rig.come_to_rest()
    rig.checkpoint()


def test_a_drained_lane_ends_at_the_second_look(rig: Rig) -> None:
    """Between two looks what deliver said is brought to the disk."""
    drain(rig, rig.appender.ends)
    watch = LaneWatch(rig.settings, rig.store)
    watch.look()
    assert "crm" in rig.store.snapshot().lanes
    watch.look()
    watch.close()
    assert rig.store.snapshot().lanes == {}


def test_what_deliver_took_back_is_not_ended(rig: Rig) -> None:
    """After a power cut the lane is not drained: it has to say so twice again."""
    drain(rig, rig.appender.ends)
    watch = LaneWatch(rig.settings, rig.store)
    connection = connect(rig.folder / "deliver.db")
    for state in ("drained", "closed", "drained"):
        connection.execute("UPDATE lanes SET state = ?", (state,))
        watch.look()
    connection.close()
    watch.close()
    assert "crm" in rig.store.snapshot().lanes


def test_one_that_is_deleted_when_it_is_drained_ends_no_look(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be applied in another thread while control looks."""
    drain(rig, rig.appender.ends)
    watch = LaneWatch(rig.settings, rig.store)
    watch.look()
    seen = rig.store.destinations()
    rig.store.change([Delete("destination", "crm")], "test", None, rig.appender.ends)
    monkeypatch.setattr(rig.store, "destinations", lambda: seen)
    assert watch.look() == []
    watch.close()


def test_a_destination_that_is_gone_is_paused(rig: Rig) -> None:
    """410 from every URL; the pause begins by the store's clock."""
    rig.answer_all(410)
    rig.checkpoint()
    watch = LaneWatch(rig.settings, rig.store)
    assert watch.look() == ["crm"]
    watch.close()
    paused = rig.store.snapshot().lanes["crm"].paused
    assert paused is not None
    assert (paused.since, paused.by) == (rig.clock.now_ms(), "hookline")


def test_a_lane_ends_when_it_is_drained_in_every_partition(rig: Rig) -> None:
    """Where partitions have several owners, the first one that has nothing left to send does not end it for others,
    however many partitions the settings name."""
    drain(rig, lambda: {**rig.appender.ends(), 1: 1})
    watch = LaneWatch(rig.settings, rig.store)
    connection = connect(rig.folder / "deliver.db")
    connection.execute("INSERT INTO lanes SELECT lane, 1, next_offset, 'closed', blob FROM lanes")
    for state, ends in (("closed", False), ("drained", True)):
        connection.execute("UPDATE lanes SET state = ? WHERE partition = 1", (state,))
        watch.look()
        watch.look()
        assert ("crm" not in rig.store.snapshot().lanes) is ends
    connection.close()
    watch.close()
