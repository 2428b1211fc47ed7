"""What may never grow: queues, places in flight, retry rows and the sets a lane keeps, checked while a run goes on."""

from __future__ import annotations

from collections.abc import Iterator

from hookline.deliver.lanes.lane import Lane
from hookline.deliver.role import DeliverRole
from tests.worlds.plan import BURST_EVENTS_MAX


def engine_exceeds(role: DeliverRole) -> Iterator[str]:
    """Yield what the engine has too much of; to be asked at every request."""
    engine, limits = role.engine, role.engine.limits
    # A probe may go out beside a full engine: one per lane, which may be paused before it is answered.
    probes = len(engine.probing | {lane for lane in engine.lanes.values() if lane.paused and lane.in_flight})
    if engine.in_flight > limits.in_flight_max + probes:
        yield f"{engine.in_flight} deliveries are in flight, at most {limits.in_flight_max} and {probes} probes may"
    if engine.unhealthy > limits.unhealthy_in_flight_max + probes:
        most = limits.unhealthy_in_flight_max
        yield f"{engine.unhealthy} places are taken by lanes that are not well, at most {most} and {probes} probes may"
    if engine.ring.uncheckpointed > limits.ring_entries:
        yield f"{engine.ring.uncheckpointed} results are not saved, the ring holds {limits.ring_entries}"


def lanes_exceed(role: DeliverRole) -> Iterator[str]:
    """Yield what a lane has too much of."""
    engine = role.engine
    for lane in engine.lanes.values():
        for what, found, most in _of_lane(lane):
            if found > most:
                yield f"lane {lane.number} has {found} {what}, at most {most} are allowed"
    in_flight = sum(len(lane.in_flight) for lane in engine.lanes.values())
    if in_flight > engine.in_flight:
        yield f"the engine counts {engine.in_flight} deliveries in flight, its lanes hold {in_flight}"
    held_long = sum(len(lane.in_flight) for lane in engine.lanes.values() if lane.holds_long)
    if not held_long <= engine.held_long <= engine.in_flight:
        yield f"the engine counts {engine.held_long} of {engine.in_flight} as held for long, its lanes hold {held_long}"


def _of_lane(lane: Lane) -> Iterator[tuple[str, int, int]]:
    # A full queue may take one group more; after a restart it also holds what was in flight.
    limits = lane.limits
    queue = limits.queue_high + BURST_EVENTS_MAX + limits.in_flight_max
    yield "queued events", len(lane.queue), queue
    # At the cap a lane takes nothing new; what is in flight, given back or requeued then still comes on top.
    rows = limits.retry_rows_max + 2 * queue
    yield "retry rows", lane.retry_count, rows
    yield "rows not settled", len(lane.pending_rows), rows + limits.ring_entries
    yield "places to skip", len(lane.already_delivered), 2 * limits.ring_entries
    yield "places out of order", len(lane.out_of_order), queue
    if lane.retry_count < 0:
        yield "missing retry rows", -lane.retry_count, 0
