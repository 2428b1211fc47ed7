"""Which events a replay of dead letters is of: rows, rows that made room, and what a disabled destination lost."""

from __future__ import annotations

import pytest

from hookline.connections.model import Filter
from hookline.database.location import location_of
from hookline.deliver.store import writer as store
from hookline.features.destinations.service import DestinationPast
from hookline.features.replays.planning import Planning, past_of
from hookline.outcomes import rows
from hookline.replays.dead_letters import DeadLetterFilter
from hookline.replays.model import Replay
from tests.unit.deliver.conftest import make_rig, rig
from tests.unit.deliver.rig import Rig, destination, source

__all__ = ["make_rig", "rig"]


def planned(rig: Rig, **given: object) -> list[int]:
    """The offsets that a request for everything given up comes to."""
    replay: Replay = rig.replay(deadLetteredSince="2020-01-01T00:00:00Z", **given)
    past = DestinationPast(location_of(rig.settings, "control"))
    parts = replay.request, destination("crm"), replay.starts, replay.ends, past_of(past, "crm")
    past.close()
    planning = Planning(rig.folder, rig.folder / "deliver.db", *parts)
    for _ in planning.steps():
        pass
    assert planning.positions is not None
    return [offset for places in planning.positions.values() for offset in places]


def begin(rig: Rig, events: int, *, answers: dict[int, int]) -> None:
    """Some events, answered as said by offset, the others well."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(events)))
    rig.turn()
    while rig.network.waiting:
        request = rig.network.waiting[0]
        rig.answer(request, answers.get(request.offset, 200))
        rig.turn()
    rig.checkpoint()


def test_those_that_have_a_row(rig: Rig) -> None:
    """Delivered events and discarded letters are not meant."""
    begin(rig, 4, answers={1: 400, 3: 404})
    assert planned(rig) == [1, 3]


def test_those_whose_row_made_room(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the oldest rows go, and a replay still finds their events."""
    for module in (store, rows):
        monkeypatch.setattr(module, "DEAD_LETTERS_MAX", 2)
    begin(rig, 8, answers={0: 400, 2: 400, 4: 400, 6: 400})
    assert len(rig.dead_letters()) == 2
    assert planned(rig) == [0, 2, 4, 6]


def discard_two(rig: Rig) -> None:
    """Have two more events discarded with their destination, which is enabled again."""
    rig.append("m4", "m5")
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.change(destination("crm"))
    rig.follow()
    rig.answer_all()
    rig.checkpoint()


def test_what_was_discarded_with_the_destination(rig: Rig) -> None:
    """Of a stretch only what was not delivered, and nothing of a replay that somebody cancelled, nor once that is
    forgotten."""
    begin(rig, 4, answers={2: 500})
    discard_two(rig)
    cancelled = rig.replay()
    rig.follow()
    rig.want(cancelled, "cancelled")
    rig.checkpoint()
    assert planned(rig) == [2, 4, 5]
    rig.replays.end(cancelled.lane, rig.clock.now_ms())
    rig.replays.forget(cancelled.lane)
    rig.follow()
    rig.loop.run_until_complete(rig.role.checkpointer.forget_replays())
    assert planned(rig) == [2, 4, 5]


def test_other_fields_restrict_too(rig: Rig) -> None:
    """A dead letter of another name or user is not meant."""
    begin(rig, 2, answers={0: 400, 1: 400})
    assert planned(rig, event="Order") == [0, 1]
    assert planned(rig, event="Other") == []
    assert planned(rig, userId="u2") == []


def test_what_an_earlier_replay_has_delivered_is_not_meant(rig: Rig) -> None:
    """Of what was discarded with the destination: its record stays."""
    begin(rig, 4, answers={})
    discard_two(rig)
    assert planned(rig) == [4, 5]
    rig.replay(deadLetteredSince="2020-01-01T00:00:00Z", positions={0: [4]})
    rig.follow()
    rig.come_to_rest()
    assert planned(rig) == [5]


def test_what_a_person_discarded_is_not_meant(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows have made room for newer ones."""
    for module in (store, rows):
        monkeypatch.setattr(module, "DEAD_LETTERS_MAX", 3)
    begin(rig, 8, answers={0: 400, 2: 400, 4: 400, 6: 400})
    id = rig.role.store.reader.dead_letters.last_id()
    rig.replays.discard(DeadLetterFilter(ids=(id,)), "test")
    rig.follow()
    rig.checkpoint()
    assert planned(rig) == [0, 2, 4]


def test_what_came_before_the_destination_was_connected_is_not_meant(rig: Rig) -> None:
    """It was disabled while one event of it waited for another try."""
    rig.change(source())
    rig.append("before0", "before1")
    begin(rig, 2, answers={2: 500})
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.checkpoint()
    rig.change(destination("crm"))
    rig.follow()
    assert planned(rig) == [2]


def test_what_a_filter_had_stopped_is_not_meant(rig: Rig) -> None:
    """A later event waited for another try when the destination was disabled; now nothing is filtered any more."""
    rig.change(source(), destination("crm", filters=(Filter(condition='messageId = "m0"', do="drop"),)))
    rig.start()
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer_all(500)
    rig.checkpoint()
    rig.change(destination("crm", enabled=False))
    rig.follow()
    rig.checkpoint()
    rig.change(destination("crm"))
    rig.follow()
    assert planned(rig) == [1, 2]
