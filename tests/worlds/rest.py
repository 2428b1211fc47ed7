"""When nothing is left to do: everything was read, sent and saved."""

from __future__ import annotations

from hookline.deliver.lanes.lane import Lane
from hookline.deliver.role import DeliverRole
from tests.worlds.machine import Machine


def at_rest(machine: Machine) -> bool:
    """Whether the deliver process lives and has nothing to do."""
    role = machine.role
    if role is None or role.checkpointer.version != machine.store.version:
        return False
    ends = machine.ends()
    if any(shared.next_offset < ends[partition] for partition, shared in role.feeder.shared.items()):
        return False
    engine = role.engine
    open_work = any(_has_work(role, lane) for lane in engine.lanes.values())
    is_unsaved = not engine.batch.empty or role.checkpointer.committing is not None
    return not (open_work or engine.in_flight or engine.ring.uncheckpointed or is_unsaved)


def _has_work(role: DeliverRole, lane: Lane) -> bool:
    if lane.busy or lane.retry_count or lane.pending_rows:
        return True
    # A breaker stays open, or suspect, when everything was given up or has expired: the next event will find out.
    has_nothing_to_try = lane.breaker.allowance == 0 and not role.feeder.catch_up.is_behind(lane)
    return bool(lane.detached) and not has_nothing_to_try
