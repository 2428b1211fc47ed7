"""Limits are handed down: a role keeps to its own, whatever those of others are."""

from __future__ import annotations

from hookline.limits import LIMITS, Limits
from hookline.outcomes.progress import ENTRY_BYTES
from hookline.telemetry import crashpoints
from hookline.telemetry.crashpoints import crash_point, crash_points_tell
from tests.unit.deliver.conftest import MakeRig
from tests.unit.deliver.rig import Rig, destination, source
from tests.worlds.limits import SMALL


def started(rig: Rig, limits: Limits) -> Rig:
    rig.limits = limits
    rig.change(source(), destination("crm"))
    rig.start()
    return rig


def test_every_part_of_a_role_has_the_limits_it_was_started_with(make_rig: MakeRig) -> None:
    """Also its lanes, their breakers and the ring; another role of the same process has others."""
    for limits in (SMALL, LIMITS):
        role, lane = (rig := started(make_rig(), limits)).role, rig.lane("crm")
        assert (role.engine.limits, lane.limits, lane.breaker.full) == (limits, limits, limits.full_allowance)
        assert len(role.engine.ring.everything()) == limits.ring_entries * ENTRY_BYTES


def test_crash_points_are_told_while_somebody_asks() -> None:
    """And not afterwards."""
    seen: list[str] = []
    before = crashpoints._reached
    with crash_points_tell(seen.append):
        crash_point("deliver.detached")
    crash_point("deliver.detached")
    assert (seen, crashpoints._reached) == (["deliver.detached"], before)
