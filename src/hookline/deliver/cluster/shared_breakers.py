"""What one process's breakers find out, shared with the others: that a receiver is down, and that it is back.

What is found is numbered: an ``outage`` is over for everybody as soon as one process got an event through. Whoever saw
the receiver well after it began does not follow: then it is the other process that has the trouble. While it lasts the
processes probe in turn, together as often as one would alone. On the event loop alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from hookline.deliver.cluster.heartbeat import BREAKERS_MAX, BreakerFound, WorkerState
from hookline.deliver.dispatcher import Dispatcher
from hookline.deliver.lanes.breaker import OPEN_BEFORE, Breaker
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.read.feeder import Feeder
from hookline.telemetry.log import logger

HEARD_SECONDS = 10.0
"""How long another process is relied on to probe."""


class SharedBreakers:
    """Says what this process found, and follows what others did."""

    def __init__(self, worker: str, engine: Dispatcher, feeder: Feeder) -> None:
        self._worker = worker
        self._engine = engine
        self._feeder = feeder
        self._mine: dict[int, tuple[int, bool, int]] = {}
        """By lane: the number of the last outage, whether it is over, and when it began (ms)."""
        self._known: dict[int, tuple[int, bool]] = {}
        """By lane: the newest number that others know, and whether that outage is over."""
        self._probes: dict[int, int] = {}
        """By lane: how often others have probed."""
        self._log = logger()

    def found(self) -> dict[int, BreakerFound]:
        """Return what this process knows, by lane."""
        engine = self._engine
        for number in self._mine.keys() - engine.lanes.keys():
            del self._mine[number]
        for lane in engine.probing:
            # One that was open before is nobody's finding until it was tried again.
            if not lane.is_replay and lane.breaker.state == "open" and lane.breaker.reason != OPEN_BEFORE:
                self._note_open(lane)
        for number, (outage, is_over, since_ms) in self._mine.items():
            if not is_over and engine.lanes[number].breaker.state != "open":
                self._mine[number] = outage, True, since_ms
        found = {number: self._finding(engine.lanes[number]) for number in islice(self._mine, BREAKERS_MAX)}
        for lane in engine.open_lanes | engine.retrying:
            outage, is_over, _ = self._mine.get(lane.number, (0, True, 0))
            if (
                lane.breaker.failures >= lane.limits.narrow_failures
                and is_over
                and not lane.is_replay
                and len(found) < BREAKERS_MAX
            ):
                age_ms = max(0, engine.clock.now_ms() - lane.run_started[0])
                found[lane.number] = BreakerFound(outage, "narrow", 0, False, age_ms, lane.breaker.reason)
        return found

    def hear(self, others: Mapping[str, WorkerState]) -> None:
        """Follow what others found."""
        by_lane: dict[int, dict[str, BreakerFound]] = {}
        for worker, state in others.items():
            for number, found in state.breakers.items():
                by_lane.setdefault(number, {})[worker] = found
        self._known = {}
        for number in self._mine.keys() | by_lane.keys():
            lane = self._engine.lanes.get(number)
            if lane is not None and lane.targets and not lane.is_replay:
                self._follow(lane, by_lane.get(number, {}))

    def _note_open(self, lane: Lane) -> None:
        outage, is_over, _ = self._mine.get(lane.number, (0, True, 0))
        if not is_over:
            return
        known, is_known_over = self._known.get(lane.number, (0, True))
        newest = max(outage, known)
        joins = known > outage and not is_known_over
        self._begin(lane, newest if joins else newest + 1, self._engine.clock.now_ms(), 0)

    def _begin(self, lane: Lane, outage: int, since_ms: int, tried: int) -> None:
        self._mine[lane.number] = outage, False, since_ms
        self._probes[lane.number] = 0
        lane.count_tries(tried)

    def _finding(self, lane: Lane) -> BreakerFound:
        outage, is_over, since_ms = self._mine[lane.number]
        age_ms = max(0, self._engine.clock.now_ms() - since_ms)
        if is_over:
            return BreakerFound(outage, "over", lane.tried, False, age_ms, "")
        return BreakerFound(outage, "open", lane.tried, self._can_probe(lane), age_ms, lane.breaker.reason)

    def _can_probe(self, lane: Lane) -> bool:
        if lane.paused or (lane.free() <= 0 and not lane.in_flight):
            return False
        # Rows whose receiver asked for a later time are nothing to probe with: others would wait for it for as long.
        has_rows = lane.retry_count > 0 and not lane.nothing_to_try
        return has_rows or bool(lane.queue) or self._feeder.catch_up.is_behind(lane)

    def _follow(self, lane: Lane, others: Mapping[str, BreakerFound]) -> None:
        outage, is_over, since_ms = self._mine.get(lane.number, (0, True, 0))
        newest = max((found.outage for found in others.values()), default=0)
        newer = [found for found in others.values() if found.outage == newest > 0]
        ended = any(found.state != "open" for found in newer)
        self._known[lane.number] = newest, ended
        if newer and newest >= outage and ended:
            self._end(lane, newest, since_ms)
        elif newer and newest > outage and is_over:
            self._join(lane, newest, newer)
        elif newest > outage and not is_over:
            self._mine[lane.number] = newest, False, since_ms
        elif any(found.state == "narrow" and self._is_news(lane, found) for found in others.values()):
            lane.breaker.warn()
        self._take_turns(lane, others)

    def _end(self, lane: Lane, outage: int, since_ms: int) -> None:
        """Somebody got an event through: begin with one, and ramp up."""
        is_over = self._mine.get(lane.number, (0, True, 0))[1]
        self._mine[lane.number] = outage, True, since_ms
        if is_over or lane.breaker.state != "open":
            return
        lane.half_open()
        self._engine.probing.discard(lane)
        self._log.info("destination_recovered", destination=lane.destination.id, found_by="another process")
        self._engine.on_recovered(lane)
        if not lane.ready:
            self._engine.go_on_with(lane)

    def _join(self, lane: Lane, outage: int, newer: list[BreakerFound]) -> None:
        """Somebody found the receiver down."""
        longest = max(newer, key=lambda found: found.age_ms)
        now_ms = self._engine.clock.now_ms()
        if lane.breaker.state != "open":
            if not self._is_news(lane, longest):
                return
            self._engine.failures.open_too(lane, longest.reason)
        self._begin(lane, outage, now_ms - longest.age_ms, min(found.probes for found in newer))

    def _is_news(self, lane: Lane, found: BreakerFound) -> bool:
        """Return whether this process saw nothing better of the receiver since."""
        return self._engine.clock.now_ms() - lane.succeeded_ms > found.age_ms

    def _take_turns(self, lane: Lane, others: Mapping[str, BreakerFound]) -> None:
        outage, is_over, _ = self._mine.get(lane.number, (0, True, 0))
        lane.leave_probing(0.0)
        if is_over:
            return
        same = {worker: found for worker, found in others.items() if found.outage == outage and found.state == "open"}
        probes = sum(found.probes for found in same.values())
        if probes > self._probes.get(lane.number, 0):
            self._wait_after(lane, lane.tried + probes)
            self._probes[lane.number] = probes
        turns = [(found.probes, worker) for worker, found in same.items() if found.can_probe]
        if turns and not (self._can_probe(lane) and (lane.tried, self._worker) < min(turns)):
            # Only for as long as they are heard of: while the database is away each finds out by itself.
            lane.leave_probing(self._engine.clock.monotonic() + HEARD_SECONDS)

    def _wait_after(self, lane: Lane, probes: int) -> None:
        """Others have probed: the next one is due when it would be after one's own."""
        longest_seconds = self._engine.schedule.max_ms / 1000
        wait_seconds = Breaker.probe_wait_seconds(probes, longest_seconds)
        lane.probe_no_sooner(self._engine.clock.monotonic() + wait_seconds)
        # As after one's own: the first wait was before any probe.
        lane.probe_next(lane.probe_at_seconds, max(lane.probes, probes + 1))
