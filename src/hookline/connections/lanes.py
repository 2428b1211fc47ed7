"""When a destination's lane begins: the rules by which enabling and connecting miss no event (DESIGN 4)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from hookline.connections.model import Destination, LaneConfig, Offsets


def next_lane(
    lane: LaneConfig | None, destination: Destination, ends: Offsets, new_number: Callable[[], int]
) -> LaneConfig | None:
    """Return the destination's lane after a change: ``lane`` is the one before it, ``ends`` the journal's ends within
    it.

    A disabled destination has none, unless it is still getting what was accepted before. An enabled one keeps the
    number and the begin of each source it already had; what it is connected to anew begins at ``ends``. A number is
    drawn only for a new lane.
    """
    if not destination.enabled:
        return lane if lane is not None and lane.until is not None else None
    number = new_number() if lane is None else lane.number
    before = {} if lane is None else lane.sources
    sources = {id: before[id] if id in before else dict(ends) for id in destination.sources}
    return LaneConfig(number=number, sources=sources) if lane is None else replace(lane, sources=sources)
