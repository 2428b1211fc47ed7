"""Count the events that a destination's sources sent while it was not connected to them, or was disabled.

They are not in its stream, so its figures say nothing of them, and only a replay sends them. They are found as routing
finds them: by the offsets at which its sources were connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hookline.api.services import Services
from hookline.connections.model import Destination, LaneConfig, Offsets
from hookline.connections.state import Stored
from hookline.events.timestamps import iso
from hookline.features.destinations.service import destination_past
from hookline.features.events.service import event_log
from hookline.web.lists import address, destination_href

EVENTS_LOOKED_AT = 2_000
"""About 10 ms, each time a page looks; where more came before, they are not counted."""

Streams = Iterable[tuple[LaneConfig, Offsets | None]]
"""The states of a destination's lane, each with the journal's ends when the next one began."""


class Unconnected(NamedTuple):
    """Such events of a range. With ``is_whole`` false there are more than ``events``; ``was_connected`` tells that the
    destination got events before them. ``replay_href`` leads to the replay that sends them. ``erased`` ones are counted
    by themselves: their sources sent them, too, but no replay does."""

    events: int
    is_whole: bool
    was_connected: bool
    replay_href: str
    erased: int = 0


class _Stretches:
    """The offsets of each source and partition that were in the destination's stream at some time."""

    def __init__(self, streams: Streams) -> None:
        self._found: dict[tuple[str, int], list[tuple[int, int | None]]] = {}
        for lane, ends in streams:
            until = lane.until if lane.until is not None else ends
            for source, starts in lane.sources.items():
                for partition, start in starts.items():
                    end = None if until is None else until.get(partition, 0)
                    self._found.setdefault((source, partition), []).append((start, end))

    def hold(self, source: str, partition: int, offset: int) -> bool:
        """Return whether an event was in the stream."""
        return any(
            start <= offset and (end is None or offset < end)
            for start, end in self._found.get((source, partition), ((0, None),))
        )

    def begin_before(self, source: str, partition: int, offset: int) -> bool:
        """Return whether the stream had events of the source before this one."""
        return any(start < offset for start, _ in self._found.get((source, partition), ()))


async def unconnected_of(services: Services, stored: Stored[Destination], since_ms: int) -> Unconnected | None:
    """Return the events since a time that an enabled destination was not connected for; None if there are none."""
    lane = stored.lane
    if lane is None:
        return None
    ends = _newest_starts(lane)
    stretches = _Stretches(destination_past(services).streams(stored.object.id))
    return await event_log(services).run(lambda: _look(services, stored.object, stretches, ends, since_ms))


def _newest_starts(lane: LaneConfig) -> dict[int, int]:
    """Return the offset of each partition from which on the lane has the events of all its sources."""
    ends: dict[int, int] = {}
    for starts in lane.sources.values():
        for partition, start in starts.items():
            ends[partition] = max(start, ends.get(partition, 0))
    return ends


def _look(
    services: Services, destination: Destination, stretches: _Stretches, ends: Mapping[int, int], since_ms: int
) -> Unconnected | None:
    times: list[int] = []
    sources: set[str] = set()
    erased = 0
    was_connected, is_whole = False, True
    for looked, (partition, offset, record) in enumerate(event_log(services).before(ends)):
        if record.received_at < since_ms:
            break
        if looked == EVENTS_LOOKED_AT:
            is_whole = False
            break
        if record.to is not None or record.rejection is not None:
            continue
        source = record.source
        if source not in destination.sources or stretches.hold(source, partition, offset):
            continue
        if record.erased:
            erased += 1
            continue
        times.append(record.received_at)
        sources.add(source)
        was_connected = was_connected or stretches.begin_before(source, partition, offset)
    if not times:
        return Unconnected(0, is_whole, was_connected, "", erased) if erased else None
    asked = {"from": iso(min(times)), "to": iso(max(times) + 1)}
    only = {"source": next(iter(sources))} if len(sources) == 1 else {}
    href = address(destination_href(destination.id, "replay"), {**(asked if is_whole else {"to": asked["to"]}), **only})
    return Unconnected(len(times), is_whole, was_connected, href, erased)
