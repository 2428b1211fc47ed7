"""What may never grow: queues, places in flight, retry rows and the sets a lane keeps, checked while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.deliver import engine as engine_limits
from hookline.deliver import lane as lane_limits
from hookline.deliver.lane import Lane
from hookline.deliver.role import DeliverRole
from hookline.outcomes import progress
from hookline.simulation.plan import BURST_EVENTS_MAX


def exceeded(role: DeliverRole) -> Iterator[str]:
    """Yield what is larger than it may be."""
    engine = role.engine
    lanes = engine.lanes.values()
    # A probe may go out beside a full engine: one per lane.
    yield from _above("requests in flight", engine.flying, engine_limits.IN_FLIGHT_MAX + len(engine.probing))
    yield from _above("places of sick lanes", engine.sick, engine_limits.SICK_IN_FLIGHT_MAX + len(engine.probing))
    yield from _above("results not checkpointed", engine.ring.uncheckpointed, progress.CAPACITY)
    for lane in lanes:
        for what, found, most in _of_lane(lane):
            yield from _above(f"{what} of lane {lane.number}", found, most)
    flying = sum(len(lane.in_flight) for lane in lanes)
    if flying > engine.flying:
        yield f"the engine counts {engine.flying} deliveries in flight, its lanes hold {flying}"


def _of_lane(lane: Lane) -> Iterator[tuple[str, int, int]]:
    # A full queue may take one group more; after a restart it also holds what was in flight.
    queue = lane_limits.QUEUE_HIGH + BURST_EVENTS_MAX + engine_limits.IN_FLIGHT_MAX
    yield "queued events", len(lane.queue), queue
    # At the cap a lane takes nothing new; what is in flight, given back or recalled then still comes on top.
    rows = lane_limits.RETRY_ROWS_MAX + 2 * queue
    yield "retry rows", lane.retry_count, rows
    yield "rows not settled", len(lane.settling), rows + progress.CAPACITY
    yield "places to skip", len(lane.skip), 2 * progress.CAPACITY
    yield "places out of order", len(lane.loose), queue
    if lane.retry_count < 0:
        yield "missing retry rows", -lane.retry_count, 0


def _above(what: str, found: int, most: int) -> Iterator[str]:
    if found > most:
        yield f"{found} {what}, at most {most} are allowed"
