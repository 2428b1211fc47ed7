"""Bounds: a role within its limits is fine, and each limit that is passed is said."""

from __future__ import annotations

from hookline.limits import LIMITS
from tests.unit.deliver.rig import Rig, destination, source
from tests.worlds.bounds import engine_exceeds, lanes_exceed


def started(rig: Rig) -> Rig:
    rig.change(source(), destination("crm"))
    rig.start()
    rig.append(*(f"m{n}" for n in range(20)))
    rig.turn()
    return rig


def test_an_ordinary_role_is_within_its_bounds(rig: Rig) -> None:
    """Queued and in flight, and nothing to say."""
    role = started(rig).role
    assert [*engine_exceeds(role), *lanes_exceed(role)] == []


def test_what_is_too_much_is_said(rig: Rig) -> None:
    """In flight, sick places and results of the engine; rows, skipped places and queue of a lane."""
    role, lane = started(rig).role, rig.lane("crm")
    role.engine.in_flight = role.engine.unhealthy = LIMITS.in_flight_max + 1
    role.engine.ring.written += 1_000_000
    lane.retry_count = 1_000_000
    lane.queue.extend(list(lane.queue) * LIMITS.queue_high)
    lane.already_delivered.update(range(1_000_000))
    assert len([*engine_exceeds(role)]) == 3
    assert len([*lanes_exceed(role)]) == 3
    role.engine.in_flight = 0
    assert any("its lanes hold" in wrong for wrong in lanes_exceed(role))
