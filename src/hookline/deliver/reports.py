"""Report on deliver: metrics about once a second, and every ten seconds the time bucket that closes.

Gathered on the event loop, so that it is of one moment, and written in a thread: a disk that is busy holds up nobody.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hookline.database.outages import OUTAGES
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.feeder import Feeder
from hookline.deliver.replays import Replays
from hookline.deliver.send.port import Sender
from hookline.deliver.work import Counts
from hookline.telemetry import metrics
from hookline.telemetry.time_buckets import (
    DESTINATIONS_MAX,
    SOURCES_MAX,
    TIME_BUCKETS_KEPT,
    DestinationCounts,
    SourceCounts,
    TimeBucket,
    time_bucket_of,
    write_time_buckets,
)

if TYPE_CHECKING:
    from hookline.telemetry.tracing import Tracing


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

    @property
    def is_over(self) -> bool:
        """Return whether the time bucket that is counted in has ended."""
        return time_bucket_of(self._engine.clock.now_ms()) != self._at

    def ended(self) -> list[TimeBucket] | None:
        """Return the last time buckets, if one has ended since the last call; asked about once a second."""
        if not self.is_over:
            return None
        self._time_buckets.append(self._closed(self._at))
        self._at = time_bucket_of(self._engine.clock.now_ms())
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
            destinations={each.lane.destination.id: _time_bucket(each) for each in _foremost(destinations)},
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
        active = {lane for lane in lanes if lane.filtered} | {lane for lane in lanes if lane.number in by_lane}
        active |= behind | (lanes & (engine.open_lanes | engine.retrying))
        for lane in sorted(active, key=_number):
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
        """Return what lies between the lane's position and the journal's end: the most that can wait there."""
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
        DESTINATIONS_MAX, found, key=lambda each: (-each.counts.failures, -each.counts.delivered, -each.waiting)
    )


def _time_bucket(each: ActiveDestination) -> DestinationCounts:
    counts = each.counts
    return DestinationCounts(
        delivered=counts.delivered,
        attempted=counts.attempted,
        failures=counts.failures,
        retries=counts.retries,
        not_delivered=counts.not_delivered,
        filtered=each.filtered,
        waiting=each.waiting,
        response=counts.response if counts.delivered else [],
    )


class Reports:
    """Writes them into the run folder."""

    def __init__(
        self,
        engine: Dispatcher,
        feeder: Feeder,
        replays: Replays,
        sender: Sender,
        tracing: Tracing | None,
        run_folder: Path,
    ) -> None:
        self._engine = engine
        self._feeder = feeder
        self._replays = replays
        self._sender = sender
        self._tracing = tracing
        self._run_folder = run_folder
        self._time_buckets = TimeBucketReports(engine, feeder)
        self._rested_since: float | None = None
        """When a report was written last, if nothing has moved since."""

    async def publish(self, is_at_rest: bool = False) -> None:
        """Write how things are now; return when it is written. At rest, what stands there is enough for a while."""
        now, before = self._engine.clock.monotonic(), self._rested_since
        is_recent = before is not None and now - before < metrics.REPEATED_SECONDS
        if is_at_rest and is_recent and not self._time_buckets.is_over:
            return
        self._rested_since = now if is_at_rest else None
        await asyncio.get_running_loop().run_in_executor(None, self.gather())

    def gather(self) -> Callable[[], None]:
        """Gather the report of now; call the answer to have it written."""
        values, time_buckets = self._values(), self._time_buckets.ended()

        def write() -> None:
            metrics.publish(self._run_folder, "deliver", values, OUTAGES.codes())
            if time_buckets is not None:
                write_time_buckets(self._run_folder, time_buckets)

        return write

    def _values(self) -> dict[str, Any]:
        engine, counters = self._engine, self._engine.counters
        shared = self._feeder.shared.values()
        lanes = [lane for lane in engine.lanes.values() if lane.filters is not None and not lane.is_replay]
        found = engine.open_lanes | engine.retrying | engine.probing
        found |= {lane for lane in engine.lanes.values() if lane.paused or not lane.targets}  # these are not probed
        busy = [
            lane for lane in found if (lane.queue or lane.retry_count or lane.breaker.failures) and not lane.is_replay
        ]
        values: dict[str, Any] = {
            "hookline_deliver_read_total": counters.read,
            "hookline_deliver_read_again_total": counters.read_again,
            "hookline_deliver_duplicates_total": counters.duplicates,
            "hookline_deliver_delivered_total": counters.delivered,
            "hookline_deliver_failures_total": {"outcome": counters.failures},
            "hookline_deliver_retries_total": counters.retries_scheduled,
            "hookline_deliver_dead_letters_total": counters.dead_lettered,
            "hookline_deliver_breaker_opened_total": counters.breaker_opened,
            "hookline_deliver_detached_total": counters.detached,
            "hookline_deliver_attached_again_total": counters.attached_again,
            "hookline_deliver_checkpoints_total": counters.checkpoints,
            "hookline_deliver_replays": len(self._replays.lanes),
            "hookline_deliver_replayed_total": self._replays.delivered,
            "hookline_deliver_partitions": len(shared),
            "hookline_deliver_in_flight": engine.in_flight,
            "hookline_deliver_connections": self._sender.connections,
            "hookline_deliver_lag_events": sum(max(s.end - s.next_offset, 0) for s in shared),
            "hookline_deliver_request_seconds": metrics.histogram(
                metrics.DURATION_BUCKETS_MS, counters.durations.buckets, counters.durations.sum_ms
            ),
            "hookline_deliver_latency_seconds": metrics.histogram(
                metrics.DURATION_BUCKETS_MS, counters.latencies.buckets, counters.latencies.sum_ms
            ),
            "hookline_deliver_queued": {"destination": {lane.destination.id: len(lane.queue) for lane in busy}},
            "hookline_deliver_retry_rows": {"destination": {lane.destination.id: lane.retry_count for lane in busy}},
            "hookline_deliver_breaker_open": {
                "destination": {lane.destination.id: int(lane.breaker.state == "open") for lane in busy}
            },
            "hookline_deliver_next_probe_timestamp_seconds": {
                "destination": {
                    lane.destination.id: self._next_probe(lane) for lane in busy if lane.breaker.state == "open"
                }
            },
            "hookline_deliver_filtered_total": {"destination": {lane.destination.id: lane.filtered for lane in lanes}},
            "hookline_usage_events_total": {"source": counters.events},
            "hookline_usage_filtered_total": {"source": counters.filtered},
            "hookline_deliver_database_away": int(bool(OUTAGES.current())),
            "hookline_deliver_database_trouble": OUTAGES.gauge(),
            "hookline_dedup_window_seconds": min(
                (s.duplicates.window_seconds_real(engine.clock.steady_ms()) for s in shared), default=0.0
            ),
            "hookline_dedup_index_failing": sum(s.report_index_failure() for s in shared),
            "hookline_dedup_ranges_given_up_total": sum(s.duplicates.runs_given_up for s in shared),
        }
        if self._tracing is not None:
            values["hookline_deliver_spans_total"] = {"outcome": self._tracing.counts}
        return values

    def _next_probe(self, lane: Lane) -> float:
        """Return when a lane's receiver is asked next, by the wall clock; now, where that is due."""
        clock = self._engine.clock
        at = max(lane.probe_at_seconds, lane.others_probe_until_seconds)
        return round(clock.now_ms() / 1000 + max(0.0, at - clock.monotonic()), 3)
