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
