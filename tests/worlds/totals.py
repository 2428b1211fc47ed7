"""What is counted for good: events delivered by destination, and the usage of sources, against what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hookline.database.connection import Connection
from hookline.deliver.read.feeder import DAY_MS
from hookline.route.decision import not_routed_reason
from tests.worlds.ledger import LanePlace, Ledger, Place, Version


class Totals:
    """Compares the totals of one deliver database with the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def wrong(self, connection: Connection, delivered: set[LanePlace]) -> Iterator[str]:
        """Yield each total that is not that of ``delivered``, the events whose success is saved, or of the journal."""
        yield from self._of_destinations(connection, delivered)
        yield from self._of_sources(connection)

    def _of_destinations(self, connection: Connection, delivered: set[LanePlace]) -> Iterator[str]:
        names = ((self._ledger.name_of(lane), place) for lane, place in delivered if lane not in self._ledger.replays)
        found = Counter((name, partition) for name, (partition, _) in names)
        rows = connection.execute("SELECT destination, partition, delivered FROM delivered").fetchall()
        counted = {(destination, partition): count for destination, partition, count in rows}
        for key in sorted(found.keys() | counted.keys()):
            if found[key] != counted.get(key, 0):
                yield f"{key[0]} has {found[key]} events of partition {key[1]}, its total says {counted.get(key, 0)}"

    def _of_sources(self, connection: Connection) -> Iterator[str]:
        """What was erased may have been counted before; which filters an event has met is not known to the second."""
        fewest, most = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        fewest_filtered, most_filtered = Counter[tuple[int, str]](), Counter[tuple[int, str]]()
        for position, event in self._ledger.events.items():
            if event.duplicate or event.record.to is not None:
                continue
            key = event.record.received_at // DAY_MS, event.record.source
            is_sure = position not in self._ledger.erasing
            verdicts = {self._is_filtered(position, version) for version in self._ledger.since(event.at)}
            fewest[key] += is_sure
            most[key] += 1
            fewest_filtered[key] += is_sure and verdicts == {True}
            most_filtered[key] += True in verdicts
        rows = connection.execute("SELECT day, source, events, filtered FROM usage").fetchall()
        counted = {(day, source): (events, filtered) for day, source, events, filtered in rows}
        for key in sorted(most.keys() | counted.keys()):
            events, filtered = counted.get(key, (0, 0))
            if not fewest[key] <= events <= most[key]:
                yield f"{key[1]} has sent {fewest[key]} to {most[key]} events, its usage says {events}"
            if not fewest_filtered[key] <= filtered <= most_filtered[key]:
                bounds = f"{fewest_filtered[key]} to {most_filtered[key]}"
                yield f"of {key[1]}, {bounds} events are kept from every destination, its usage says {filtered}"

    def _is_filtered(self, position: Place, version: Version) -> bool:
        """Whether filters keep the event from every destination that would get it by this version."""
        record, snapshot = self._ledger.events[position].record, version.snapshot
        filters = [
            self._ledger.filters(each)
            for each in snapshot.destinations
            if each.id in snapshot.lanes and not_routed_reason(record, each, snapshot.lanes[each.id], *position) is None
        ]
        return bool(filters) and not any(each.passes(record) for each in filters)
