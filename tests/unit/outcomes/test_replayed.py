"""``why`` of events that were replayed: the first status and every replay beside it."""

from __future__ import annotations

from hookline.outcomes.delivery import DestinationStatus
from tests.unit.deliver.rig import Rig, destination, source


def begin(rig: Rig, *events: str) -> None:
    """A destination that has received some events."""
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*events)
    rig.turn()
    rig.come_to_rest()


def at(rig: Rig, message_id: str, id: str) -> DestinationStatus:
    """The status at one destination."""
    return next(each for each in rig.event(message_id).destinations if each.id == id)


def test_both_ways_are_shown(rig: Rig) -> None:
    """The first delivery keeps its status; the attempts of the replay carry its id."""
    begin(rig, "m0")
    replay = rig.replay()
    rig.follow()
    rig.come_to_rest()
    found = at(rig, "m0", "crm")
    assert (found.status, [(each.id, each.status) for each in found.replays]) == (
        "delivered",
        [(replay.id, "delivered")],
    )
    assert [attempt.replay for attempt in found.attempts] == [None, replay.id]


def test_a_destination_that_came_later(rig: Rig) -> None:
    """At first it was not routed there, and by the replay it was delivered."""
    begin(rig, "m0")
    rig.change(destination("late"))
    replay = rig.replay("late")
    rig.follow()
    rig.come_to_rest()
    found = at(rig, "m0", "late")
    assert (found.status, found.reason) == ("not_routed", "connected_later")
    assert [(each.id, each.status) for each in found.replays] == [(replay.id, "delivered")]


def test_from_waiting_to_its_end(rig: Rig) -> None:
    """Asked for, begun, paused, cancelled: the status in the replay follows."""
    begin(rig, *(f"m{n}" for n in range(40)))
    replay = rig.replay()

    def status() -> str:
        return at(rig, "m39", "crm").replays[0].status

    assert status() == "queued"
    rig.follow()
    rig.checkpoint()
    assert status() == "queued"
    rig.want(replay, "paused")
    rig.checkpoint()
    assert status() == "queued"
    rig.want(replay, "cancelled")
    rig.checkpoint()
    assert status() == "discarded"


def test_a_replay_that_ended_before_deliver_went_back_is_left_out(rig: Rig) -> None:
    """Control knows that it ended, deliver has forgotten it and sends nothing: its events do not wait for it."""
    begin(rig, "m0")
    replay = rig.replay()
    assert at(rig, "m0", "crm").replays[0].status == "queued"
    rig.replays.end(replay.lane, rig.clock.now_ms())
    assert at(rig, "m0", "crm").replays == ()


def test_a_failure_in_a_replay_leaves_the_first_status(rig: Rig) -> None:
    """What was delivered stays delivered, although the receiver refused the replay."""
    begin(rig, "m0")
    rig.replay()
    rig.follow()
    rig.answer_all(400)
    rig.checkpoint()
    found = at(rig, "m0", "crm")
    assert (found.status, found.replays[0].status) == ("delivered", "failed")


def test_events_beside_a_replay_do_not_show_it(rig: Rig) -> None:
    """An event that the replay does not ask for, or that it left out as a repeat, has no part in it."""
    begin(rig, "m0", "m1", "m1")
    rig.replay(positions={0: [0, 2]}, messageIds=["m0", "m1"])
    rig.follow()
    rig.come_to_rest()
    rig.pass_time(0.1)
    rig.checkpoint()
    assert at(rig, "m0", "crm").replays
    assert not at(rig, "m1", "crm").replays
