"""One routing decision: whether a record belongs to a destination's stream, with the reason when it does not.

The delivery engine asks the same questions in its hot loop (``deliver/lanes/lane.py``); this is the explained form,
used for an event's status. Both read the same lane definition, so they agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from hookline.connections.model import Destination, LaneConfig
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name


def not_routed_reason(
    record: Record, destination: Destination, lane: LaneConfig | None, partition: int, offset: int
) -> str | None:
    """Return why the record at this place is not in the destination's stream; None when it is."""
    if record.to is not None and destination.id not in record.to:
        return "aimed_at_others"
    # A lane that only ends keeps its sources: what was accepted before is still sent.
    connected = lane.sources if lane is not None and lane.until is not None else destination.sources
    if record.to is None and record.source not in connected:
        return "source_not_connected"
    if lane is None or (lane.until is not None and offset >= lane.until.get(partition, 0)):
        return "destination_disabled"
    if record.to is None:
        start = lane.sources.get(record.source)
        if start is None or offset < start.get(partition, 0):
            return "connected_later"
    return refusal(record.selection, published_name(destination.kind))


def refusal(selection: Mapping[str, bool] | None, published_name: str) -> str | None:
    """Return why an event with this selection does not go to a destination of this name, or None when it does.

    By default every destination is chosen; ``All: false`` refuses those not named true. Names are case-sensitive.
    """
    if selection is None:
        return None
    chosen = selection.get(published_name)
    if chosen is None:
        return None if selection.get("All", True) else "integrations_all_false"
    return None if chosen else "integrations_name_false"
