"""Closes a slot every ten seconds and reports the last few of them (``telemetry.slots``)."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path

from hookline.deliver.engine import Engine
from hookline.deliver.feeder import Feeder
from hookline.deliver.lane import Lane
from hookline.deliver.tallies import Tally
from hookline.telemetry.slots import (
    DESTINATIONS_MAX,
    SLOTS_KEPT,
    SOURCES_MAX,
    DestinationSlot,
    Slot,
    SourceSlot,
    slot_of,
    write_slots,
)


class SlotReports:
    """Turns counters that run since the start into counts of one slot."""

    def __init__(self, engine: Engine, feeder: Feeder, run_folder: Path) -> None:
        self._engine = engine
        self._feeder = feeder
        self._run_folder = run_folder
        self._slots: deque[Slot] = deque(maxlen=SLOTS_KEPT)
        self._at = slot_of(engine.clock.now_ms())
        self._before: Counter[str] = Counter()
        self._events_before: Counter[str] = Counter()
        self._filtered_before: Counter[str] = Counter()
        self._lane_filtered: dict[int, int] = {}

    def tick(self) -> None:
        """Close the slot if its time is over, and write the report; called about once a second."""
        at = slot_of(self._engine.clock.now_ms())
        if at != self._at:
            self._slots.append(self._closed(self._at))
            self._at = at
            write_slots(self._run_folder, list(self._slots))

    def _closed(self, at: int) -> Slot:
        engine, counters = self._engine, self._engine.counters
        engine.count_times()
        now = Counter(
            {
                "delivered": counters.delivered,
                "failures": sum(counters.failures.values()),
                "retries": counters.retries_scheduled,
                "given_up": counters.dead_lettered,
                **{f"response {index}": count for index, count in enumerate(counters.durations.buckets)},
                **{f"latency {index}": count for index, count in enumerate(counters.latencies.buckets)},
            }
        )
        moved = Counter({name: count - self._before[name] for name, count in now.items()})
        self._before = now
        waiting = {lane: self._waiting(lane) for lane in engine.lanes.values() if not lane.is_replay}
        destinations = self._destinations(engine.tallies.take(), waiting)
        return Slot(
            at=at,
            delivered=moved["delivered"],
            failures=moved["failures"],
            retries=moved["retries"],
            given_up=moved["given_up"],
            waiting=sum(waiting.values()),
            lag=sum(max(shared.end - shared.next_offset, 0) for shared in self._feeder.shared.values()),
            response=[moved[f"response {index}"] for index in range(len(counters.durations.buckets))],
            latency=[moved[f"latency {index}"] for index in range(len(counters.latencies.buckets))],
            destinations=dict(destinations[:DESTINATIONS_MAX]),
            sources=self._sources(),
            omitted=max(0, len(destinations) - DESTINATIONS_MAX),
        )

    def _waiting(self, lane: Lane) -> int:
        """Events held, rows, and what lies between the lane's place and the journal's end: the most that can wait."""
        behind = sum(
            (intake.end or self._feeder.shared[intake.partition].end) - intake.next_offset for intake in lane.detached
        )
        return lane.size + len(lane.in_flight) + lane.retry_count + behind

    def _destinations(self, tallies: dict[int, Tally], waiting: dict[Lane, int]) -> list[tuple[str, DestinationSlot]]:
        """Those with anything to tell, the failing ones first and then the busiest."""
        found: list[tuple[str, DestinationSlot]] = []
        filtered: dict[int, int] = {}
        for lane, waits in waiting.items():
            tally = tallies.get(lane.number)
            if lane.filtered:
                filtered[lane.number] = lane.filtered
            kept = lane.filtered - self._lane_filtered.get(lane.number, 0)
            if tally is not None or waits or kept:
                found.append((lane.destination.id, _slot(tally or Tally(), kept, waits)))
        self._lane_filtered = filtered
        found.sort(key=lambda pair: (-pair[1].failures, -pair[1].delivered, -pair[1].waiting))
        return found

    def _sources(self) -> dict[str, SourceSlot]:
        events, filtered = Counter(self._engine.counters.events), Counter(self._engine.counters.filtered)
        moved = (events - self._events_before).most_common(SOURCES_MAX)
        found = {id: SourceSlot(count, filtered[id] - self._filtered_before[id]) for id, count in moved}
        self._events_before, self._filtered_before = events, filtered
        return found


def _slot(tally: Tally, filtered: int, waiting: int) -> DestinationSlot:
    return DestinationSlot(
        delivered=tally.delivered,
        attempted=tally.attempted,
        failures=tally.failures,
        retries=tally.retries,
        given_up=tally.given_up,
        filtered=filtered,
        waiting=waiting,
        response=tally.response if tally.delivered else [],
    )
