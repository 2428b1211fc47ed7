"""A destination's ``maxConcurrency`` and ``maxRate``: never passed, whatever else would like to."""

from __future__ import annotations

import pytest

from hookline.connections.model import DeliveryOptions
from tests.unit.deliver.rig import Rig, destination, source

AT_ONCE = 8


def test_due_retries_do_not_go_beyond_the_users_limit(rig: Rig) -> None:
    """A stream that fills every place leaves retries an eighth more of its own places, never of the user's."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_concurrency=AT_ONCE)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(60)))
    rig.turn()
    for request in list(rig.network.waiting)[:2]:
        rig.answer(request, 500)
    rig.checkpoint()
    for _ in range(40):
        rig.answer(rig.network.waiting[0])
        rig.turn()
        rig.pass_time(0.5)
        assert len(rig.network.waiting) <= AT_ONCE


def test_replays_and_live_events_share_the_users_limit(rig: Rig) -> None:
    """Two replays and the live stream have no more requests in flight together than the destination wants."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_concurrency=AT_ONCE)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(60)))
    rig.turn()
    rig.answer_all()
    rig.checkpoint()
    rig.replay()
    rig.replay()
    rig.follow()
    rig.turn()
    rig.append(*(f"n{number}" for number in range(60)))
    for _ in range(120):
        rig.pass_time(0.05)
        assert len(rig.network.waiting) <= AT_ONCE
        if rig.network.waiting:
            rig.answer(rig.network.waiting[0])
            rig.turn()


def test_a_limit_that_is_lifted_leaves_no_place_to_rows(rig: Rig) -> None:
    """What the stream left to a due row was of the user's limit. Without one it goes on, although the row is due only
    in an hour."""
    rig.limit(first_allowance=1, full_allowance=1, allowance_max=1)
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_concurrency=1)))
    rig.start()
    rig.append("m0", "m1", "m2")
    rig.turn()
    rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()
    for _ in range(8):
        rig.pass_time(0.5)  # the row is due, and the place is taken
    rig.change(destination("crm"))
    rig.follow()
    rig.answer(rig.network.waiting[0])
    rig.pass_time(0.5)
    rig.answer(rig.network.waiting[0], 503, retry_after=b"3600")
    rig.checkpoint()
    rig.pass_time(0.5)
    assert sorted(rig.offsets("crm")) == [0, 0, 1, 2]


@pytest.fixture
def replaying(rig: Rig) -> Rig:
    """A rig whose destination takes one request at a time, and has had 300 events that can be sent again."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_concurrency=1)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(300)))
    rig.come_to_rest()
    return rig


def test_a_live_event_gets_the_place_that_a_replay_frees(replaying: Rig) -> None:
    """The stream has waited since before: the replay comes behind it."""
    replaying.replay()
    replaying.follow()
    replaying.append("late")
    for _ in range(20):
        replaying.pass_time(0.05)
        replaying.answer(replaying.network.waiting[0])
        replaying.turn()
    assert replaying.offsets("crm").count(300) == 1


def test_a_due_retry_gets_the_place_that_a_replay_frees(replaying: Rig) -> None:
    """A replay leaves to due rows what the stream leaves to them."""
    replaying.append("late")
    replaying.turn()
    replaying.answer(replaying.network.waiting[0], 500)
    replaying.checkpoint()
    replaying.replay()
    replaying.follow()
    for _ in range(20):
        replaying.pass_time(60)
        replaying.answer(replaying.network.waiting[0])
        replaying.turn()
        replaying.checkpoint()
    assert replaying.status_at("late", "crm") == "delivered"


def test_a_stream_that_keeps_to_a_rate_leaves_some_of_it_to_due_retries(rig: Rig) -> None:
    """An answer comes as often as the rate allows, and takes the next event of the stream with it; rows are looked at
    with each beat."""
    rig.change(source(), destination("crm", delivery=DeliveryOptions(max_rate=100.0)))
    rig.start()
    rig.append(*(f"m{number}" for number in range(3_000)))
    rig.turn()
    rig.answer(rig.network.waiting[0], 500)
    rig.checkpoint()
    rig.pass_time(60)
    for step in range(500):
        rig.clock.seconds += 0.01
        if rig.network.waiting:
            rig.answer(rig.network.waiting[0])
        rig.turn()
        if step % 5 == 0:
            rig.role.beat()
            rig.turn()
        if step % 10 == 0:
            rig.checkpoint()
    assert rig.offsets("crm").count(0) == 2
