"""Dead letters in the deliver role: settled by a replay, or discarded."""

from __future__ import annotations

from hookline.replays.dead_letters import DeadLetterFilter
from tests.unit.deliver.rig import Rig
from tests.unit.deliver.test_replays import begin


def test_a_dead_letter_is_settled_by_a_replay(rig: Rig) -> None:
    """Delivered by a replay it is no dead letter any more; given up again it is one, once."""
    begin(rig)
    rig.append("m0", "m1")
    rig.turn()
    rig.answer_all(400)
    rig.checkpoint()
    replay = rig.replay(positions={0: [0, 1]}, deadLetteredSince="2020-01-01T00:00:00Z")
    rig.follow()
    rig.answer(rig.network.waiting[0], 400)
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert rig.replay_row(replay) == ("done", 1, 1)
    assert rig.dead_letters() == [("m0", replay.lane, "failed")]


def test_one_of_a_source_that_is_not_connected(rig: Rig) -> None:
    """A replay of that source could not deliver it; sent once more it is settled like any other."""
    begin(rig)
    rig.append(rig.record("m0", source="app"))
    rig.turn()
    rig.replay(source="app")
    rig.follow()
    rig.answer_all(400)
    rig.pass_time(0.1)
    rig.checkpoint()
    assert len(rig.dead_letters()) == 1
    rig.replay(positions={0: [0]}, deadLetters={"destination": "crm"})
    rig.follow()
    rig.come_to_rest()
    assert len(rig.network.sent) == 2
    assert rig.dead_letters() == []


def test_discarded_while_it_was_down(rig: Rig) -> None:
    """A discard that was asked for meanwhile is carried out at the start."""
    begin(rig)
    rig.append("m0")
    rig.turn()
    rig.answer_all(400)
    rig.checkpoint()
    rig.kill()
    rig.replays.discard(DeadLetterFilter(destination="crm"), "test")
    rig.start()
    rig.checkpoint()
    assert [status for _, _, status in rig.dead_letters()] == ["discarded"]


def test_discarding(rig: Rig) -> None:
    """Dead letters that are discarded keep their row with that status, and it is done once."""
    begin(rig)
    rig.append("m0", "m1")
    rig.turn()
    rig.answer_all(400)
    rig.checkpoint()
    rig.replays.discard(DeadLetterFilter(destination="crm", ids=(1,)), "test")
    rig.follow()
    rig.checkpoint()
    rig.restart()
    rig.follow()
    rig.checkpoint()
    assert [(name, status) for name, _, status in rig.dead_letters()] == [("m0", "discarded"), ("m1", "failed")]
    assert rig.status_at("m0", "crm") == "discarded"


def test_what_was_asked_for_many_times(rig: Rig) -> None:
    """More discards between two looks than are read at once: all are carried out."""
    begin(rig)
    rig.append(*(f"m{number}" for number in range(150)))
    rig.turn()
    rig.answer_all(400)
    rig.checkpoint()
    for number in range(150):
        rig.replays.discard(DeadLetterFilter(ids=(number + 1,)), "test")
    for _ in range(4):
        rig.follow()
        rig.checkpoint()
    assert {status for _, _, status in rig.dead_letters()} == {"discarded"}
