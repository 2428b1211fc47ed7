"""A destination's ``maxConcurrency`` and ``maxRate``: never passed, whatever else would like to."""

from __future__ import annotations

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
