"""What the results of requests mean: the receiving half of an engine.

Nearly all are the success of a first attempt at a lane's only URL. Those of one turn are taken in one go, and what is
the same for all of them is done once; any other is looked at by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hookline.deliver.counters import Times
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import ALL_URLS, Delivery, FailedTry
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.send.port import Failure, Sink, Successes
from hookline.outcomes.outcome import PARTIAL
from hookline.outcomes.progress import MILLISECONDS_MAX, pack_entries
from hookline.telemetry.crashpoints import CRASH_POINTS_ARMED, crash_point
from hookline.telemetry.log import logger

if TYPE_CHECKING:
    from hookline.deliver.dispatcher import Engine

SLOW_MS = 25
"""A receiver that answers within this is not helped by more requests at once."""

_EVENTS = {Event}


class Results(Sink):
    """Takes the results of an engine's requests; the tokens are deliveries, or events that left plainly."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._log = logger()

    def succeeded(self, successes: Iterable[Successes]) -> None:
        """Note the successes of one turn; ``go_on`` begins what they made room for."""
        engine = self._engine
        now_ms = engine.clock.now_ms()
        counters = engine.counters
        lanes: dict[Lane, None] = {}
        others: list[Successes] = []
        packed: list[bytes | bytearray] = []
        count = 0
        for run in successes:
            tokens, target, status, milliseconds = run
            lane = target.lane
            if lane.order is not None or set(map(type, tokens)) != _EVENTS:
                others.append(run)
                continue
            if CRASH_POINTS_ARMED:
                crash_point("deliver.answered_before_mark")
            events: list[Event] = tokens
            kept_ms = min(max(0, milliseconds), MILLISECONDS_MAX)
            if kept_ms > SLOW_MS or not lane.breaker.steady:
                for _ in events:
                    self._note_success(lane, kept_ms)
            places = [event.place for event in events]
            for place in places:
                del lane.in_flight[place]
            packed.append(pack_entries(places, now_ms - kept_ms, target.tag, status, kept_ms))
            counters.durations.add(kept_ms, len(events))
            _add_latencies(counters.latencies, now_ms, [event.record.received_at for event in events])
            count += len(events)
            lanes[lane] = None
        engine.ring.add_packed(b"".join(packed))
        engine.flying -= count
        counters.delivered += count
        super().succeeded(others)
        for lane in lanes:
            lane.succeeded_ms = now_ms
            if lane.queue and not lane.ready:
                engine.go_on(lane)
        engine.feed_starved(count)

    def go_on(self) -> None:
        """Send what has room now."""
        self._engine.turn()

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take the result of one request."""
        delivery = token if isinstance(token, Delivery) else _delivery_of(token, target)
        engine = self._engine
        outstanding = delivery.outstanding = delivery.outstanding - 1
        if failure is not None:
            self._failed(delivery, target, result, milliseconds, failure)
            return
        if delivery.done:
            target.lingering -= 1
            return
        now_ms = engine.clock.now_ms()
        lane, place = delivery.lane, delivery.event.place
        lane.succeeded_ms = now_ms
        if CRASH_POINTS_ARMED:
            crash_point("deliver.answered_before_mark")
        if lane.to_all and not self._was_the_last(delivery, target, result, milliseconds, now_ms):
            return
        engine.ring.add(place, now_ms - milliseconds, target.tag, result, min(milliseconds, MILLISECONDS_MAX))
        engine.counters.delivered += 1
        engine.counters.durations.add(milliseconds)
        engine.counters.latencies.add(now_ms - delivery.event.record.received_at)
        if outstanding or delivery.failures or delivery.from_row:
            delivery.done = True
            self._finish_uncommon_success(delivery, target)
        engine.release(delivery)
        if lane.order is not None:
            engine.next_of_user(lane, place)
        if milliseconds > SLOW_MS or not lane.breaker.steady:
            self._note_success(lane, milliseconds)
        if lane.queue and not lane.ready:
            engine.go_on(lane)
        engine.feed_starved(1)

    def _was_the_last(self, delivery: Delivery, target: Target, result: int, milliseconds: int, now_ms: int) -> bool:
        """Whether with this success every URL has accepted (fan-out ``all``); if not, what follows is done here."""
        refused_before = delivery.urls > ALL_URLS
        if not (delivery.outstanding or delivery.failures or refused_before):
            return True
        place, duration = delivery.event.place, min(milliseconds, MILLISECONDS_MAX)
        self._engine.ring.add(place, now_ms - milliseconds, target.tag, PARTIAL + result, duration)
        delivery.accepted = True
        self._note_success(delivery.lane, milliseconds)
        if not delivery.outstanding:
            self._end_failed(delivery, now_ms)
        return False

    def _failed(self, delivery: Delivery, target: Target, result: int, milliseconds: int, failure: Failure) -> None:
        now_ms = self._engine.clock.now_ms()
        self._engine.failures.count(delivery.lane, failure)
        failure.hide(target.template.hidden)
        failed = FailedTry(target, failure, result, now_ms - milliseconds, milliseconds)
        if delivery.done:
            target.lingering -= 1
            self._note_try(delivery, failed)
            return
        delivery.failures = [*(delivery.failures or ()), failed]
        if not delivery.outstanding and not self._fell_back(delivery):
            self._end_failed(delivery, now_ms)

    def _fell_back(self, delivery: Delivery) -> bool:
        """Ask the next URL that has not failed (fan-out ``fallback``); False when there is none, or not now."""
        lane = delivery.lane
        if lane.options.fan_out != "fallback" or self._engine.stopping or lane.paused or lane.closed:
            return False
        for target in delivery.not_failed():
            delivery.outstanding = 1
            target.route.send(target, [(delivery, target.template.request(delivery.event))])
            return True
        return False

    def _end_failed(self, delivery: Delivery, now_ms: int) -> None:
        """Every URL has been asked, and not as many have accepted as should."""
        lane = delivery.lane
        self._engine.release(delivery)
        self._engine.failures.decide(delivery, delivery.failures or [], now_ms)
        if lane.queue and not lane.ready:
            self._engine.go_on(lane)
        self._engine.feed_starved(1)

    def _finish_uncommon_success(self, delivery: Delivery, winner: Target) -> None:
        for target in delivery.targets if delivery.outstanding else ():
            if target is not winner and not delivery.has_failed(target):
                target.lingering += 1
        for failed in delivery.failures or ():
            self._note_try(delivery, failed)
        if delivery.from_row:
            self._engine.failures.settle_row(delivery)
            if delivery.attempt > 1:
                self._engine.tallies.of(delivery.lane.number).recovered += 1

    def _note_try(self, delivery: Delivery, failed: FailedTry) -> None:
        """A failure that did not decide the delivery goes into the block of results, not into a row."""
        milliseconds = min(failed.milliseconds, MILLISECONDS_MAX)
        self._engine.ring.add(delivery.event.place, failed.at_ms, failed.target.tag, failed.result, milliseconds)

    def _note_success(self, lane: Lane, milliseconds: int) -> None:
        lane.gone = False
        was_probing = lane in self._engine.probing
        was_open = lane.breaker.succeeded(wants_more=milliseconds > SLOW_MS and bool(lane.queue))
        if was_probing:
            self._engine.probing.discard(lane)
            lane.probes = 0
            if was_open:
                self._log.info("destination_recovered", destination=lane.destination.id)
            self._engine.on_recovered(lane)


def _delivery_of(token: object, target: Target) -> Delivery:
    """The attempt for an event that left plainly."""
    event: Event = token  # type: ignore[assignment]  # what departures gave
    return Delivery(target.lane, event, target.lane.in_flight[event.place])


def _add_latencies(latencies: Times, now_ms: int, received: list[int]) -> None:
    if received.count(received[0]) == len(received):  # those of a batch came at one moment
        latencies.add(now_ms - received[0], len(received))
        return
    for received_at, count in Counter(received).items():
        latencies.add(now_ms - received_at, count)
