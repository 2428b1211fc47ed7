"""Closes a time bucket every ten seconds, and has the last few of them for the report (``telemetry.time_buckets``)."""

from __future__ import annotations

from collections import Counter, deque
from heapq import nsmallest
from itertools import islice
from typing import NamedTuple

from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lane_counts import Counts
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.feeder import Feeder
from hookline.telemetry.time_buckets import (
    DESTINATIONS_MAX,
    SOURCES_MAX,
    TIME_BUCKETS_KEPT,
    DestinationCounts,
    SourceCounts,
    TimeBucket,
    time_bucket_of,
)


class ActiveDestination(NamedTuple):
    """A destination of which a time bucket tells."""

    lane: Lane
    counts: Counts
    filtered: int
    waiting: int


class TimeBucketReports:
    """Turns counters that run since the start into counts of one time bucket."""

    def __init__(self, engine: Dispatcher, feeder: Feeder) -> None:
        self._engine = engine
        self._feeder = feeder
        self._time_buckets: deque[TimeBucket] = deque(maxlen=TIME_BUCKETS_KEPT)
        self._at = time_bucket_of(engine.clock.now_ms())
        self._before: Counter[str] = Counter()
        self._lane_filtered: dict[int, int] = {}

    def ended(self) -> list[TimeBucket] | None:
        """Return the last time buckets, if one has ended since the last call; asked about once a second."""
        at = time_bucket_of(self._engine.clock.now_ms())
        if at == self._at:
            return None
        self._time_buckets.append(self._closed(self._at))
        self._at = at
        return list(self._time_buckets)

    def _closed(self, at: int) -> TimeBucket:
        engine, counters = self._engine, self._engine.counters
        now = Counter(
            {
                "delivered": counters.delivered,
                "failures": sum(counters.failures.values()),
                "retries": counters.retries_scheduled,
                "not_delivered": counters.dead_lettered,
                **{f"response {index}": count for index, count in enumerate(counters.durations.buckets)},
                **{f"latency {index}": count for index, count in enumerate(counters.latencies.buckets)},
            }
        )
        moved = Counter({name: count - self._before[name] for name, count in now.items()})
        self._before = now
        waiting, destinations = self._destinations(engine.lane_counts.take())
        return TimeBucket(
            at=at,
            delivered=moved["delivered"],
            failures=moved["failures"],
            retries=moved["retries"],
            not_delivered=moved["not_delivered"],
            waiting=waiting,
            lag=sum(max(shared.end - shared.next_offset, 0) for shared in self._feeder.shared.values()),
            response=[moved[f"response {index}"] for index in range(len(counters.durations.buckets))],
            latency=[moved[f"latency {index}"] for index in range(len(counters.latencies.buckets))],
            destinations={told.lane.destination.id: _time_bucket(told) for told in _foremost(destinations)},
            sources=self._sources(),
            omitted=max(0, len(destinations) - DESTINATIONS_MAX),
        )

    def _destinations(self, by_lane: dict[int, Counts]) -> tuple[int, list[ActiveDestination]]:
        """Return how much waits in all, and those with anything to tell."""
        waiting, found = 0, []
        filtered: dict[int, int] = {}
        engine, nothing = self._engine, Counts()
        lanes = set(engine.lanes.values())
        behind = (lanes - self._attached()) | {lane for lane in lanes if lane.backfills}
        # Of ten thousand lanes most have nothing to tell, and to ask each would hold up deliveries.
        told = {lane for lane in lanes if lane.filtered} | {lane for lane in lanes if lane.number in by_lane}
        told |= behind | (lanes & (engine.open_lanes | engine.retrying))
        for lane in sorted(told, key=_number):
            if lane.is_replay:
                continue
            counts = by_lane.get(lane.number, nothing)
            if lane.filtered:
                filtered[lane.number] = lane.filtered
            kept = lane.filtered - self._lane_filtered.get(lane.number, 0)
            waits = lane.size + len(lane.in_flight) + lane.retry_count
            if lane in behind:
                waits += self._behind(lane)
            waiting += waits
            if counts is not nothing or waits or kept:
                found.append(ActiveDestination(lane, counts, kept, waits))
        self._lane_filtered = filtered
        return waiting, found

    def _attached(self) -> set[Lane]:
        """Return the lanes that follow the shared reader in every partition, as nearly all do."""
        return set.intersection(*[shared.attached for shared in self._feeder.shared.values()] or [set()])

    def _behind(self, lane: Lane) -> int:
        """Return what lies between the lane's place and the journal's end: the most that can wait there."""
        return sum(
            (cursor.end or self._feeder.shared[cursor.partition].end) - cursor.next_offset for cursor in lane.detached
        )

    def _sources(self) -> dict[str, SourceCounts]:
        """Return the busiest sources."""
        counters = self._engine.counters
        usage, counters.usage = counters.usage, {}
        busiest = sorted(usage.items(), key=lambda pair: -pair[1][0])
        return {id: SourceCounts(*counts) for id, counts in islice(busiest, SOURCES_MAX) if counts[0]}


def _number(lane: Lane) -> int:
    return lane.number


def _foremost(found: list[ActiveDestination]) -> list[ActiveDestination]:
    """Return the failing ones first, and then the busiest."""
    return nsmallest(
        DESTINATIONS_MAX, found, key=lambda told: (-told.counts.failures, -told.counts.delivered, -told.waiting)
    )


def _time_bucket(told: ActiveDestination) -> DestinationCounts:
    counts = told.counts
    return DestinationCounts(
        delivered=counts.delivered,
        attempted=counts.attempted,
        failures=counts.failures,
        retries=counts.retries,
        not_delivered=counts.not_delivered,
        filtered=told.filtered,
        waiting=told.waiting,
        response=counts.response if counts.delivered else [],
    )
