"""Sends what the lanes have queued, and takes what comes of it.

This is the hot path. It knows no files and no sockets: readers fill the lanes (``read/``), a sender carries the
requests (``send/port.py``), the checkpoint saves what happened (``checkpointer.py``). One delivery costs no task, timer
or future. All requests of a batch are made first and leave in one go; nearly all results are the success of a first
attempt at a lane's only URL, and those of one turn are taken in one go too. What a failure means is said elsewhere
(``retry/``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, takewhile

from hookline.database.steady_clock import Clock
from hookline.deliver.event import Event
from hookline.deliver.lanes.delivery import REFUSED, Delivery, FailedTry
from hookline.deliver.lanes.lane import Lane, Target
from hookline.deliver.lanes.mapped import (
    RETRIED_TOGETHER,
    Departure,
    Gathering,
    Mapped,
    Outgoing,
    Parcel,
    RequestParcel,
    are_refused_together,
    event_of,
    failure_of,
    failures_of,
    says_too_much,
    unsendable,
)
from hookline.deliver.retry.failures import Failures
from hookline.deliver.retry.policy import RetrySchedule
from hookline.deliver.send.answers import HEAD_KEPT_BYTES
from hookline.deliver.send.port import Answer, Failure, Sink, Successes
from hookline.deliver.send.request import MappedTemplate
from hookline.deliver.work import Counters, Times, Work
from hookline.limits import LIMITS, Limits
from hookline.outcomes.outcome import PARTIAL, to_number
from hookline.outcomes.progress import MILLISECONDS_MAX, POSITION_SHIFT, ProgressRing, pack_entries
from hookline.telemetry.crashpoints import CRASH_POINTS_ARMED, crash_point
from hookline.telemetry.log import logger

REQUEST_BATCH_MAX = 64
"""Requests made before the first of them leaves."""
MADE_BYTES_MAX = 256 * 1024
"""Of events that requests are made of before the clock is looked at again, where they are more than one."""
MAKING_SECONDS_MAX = 0.05
"""Time for making requests in one turn of the event loop: senders choose how long one takes, by a mapping up to ten
milliseconds. The rest leaves in the next turn."""
COUNTED_SECONDS = 0.0005
"""Shortest time with which a turn begins to count; nearly all take less."""
JUDGED_BYTES_PER_TURN = 256 * 1024
JUDGED_BYTES_PER_LANE = 64 * 1024
"""Of answers that say what became of events, or have long heads. To decode what one turn takes needs 30 ms where it is
all brackets."""
OK = 200
UNAUTHORIZED = 401
SLOW_MS = 25
"""A receiver that answers within this is not helped by more requests at once."""

Requests = list[tuple[Delivery, bytes]]
"""Requests for one target: what the sender gives back with the answer, and the bytes."""

_EVENTS = {Event}


class Dispatcher(Work, Sink):
    """Dispatches deliveries and takes their results; the tokens are deliveries, or events that left plainly."""

    def __init__(
        self,
        clock: Clock,
        schedule: RetrySchedule,
        ring: ProgressRing,
        counters: Counters,
        call_soon: Callable[[Callable[[], None]], object],
        limits: Limits = LIMITS,
    ) -> None:
        super().__init__(clock, schedule, ring, counters)
        self.limits = limits
        self.failures = Failures(self, self.next_of_user)
        self.in_flight = 0
        self.unhealthy = 0
        self.held_long = 0
        """Of those in flight, requests to receivers that are slow, or not well."""
        self.stopping = False
        self.is_saturated = False
        """Whether this process has no time left: then answers wait for it, and more requests at once would wait too."""
        self.is_behind: Callable[[], bool] = lambda: False
        """Return whether a shared reader has not come yet to the journal's end."""
        self.on_room: Callable[[Lane], None] = lambda lane: None
        """Called when a lane that was full has room again."""
        self.on_recovered: Callable[[Lane], None] = lambda lane: None
        """Called when a probe succeeded."""
        self._call_soon = call_soon
        self._answered_seconds: float | None = None
        """When the successes that are being noted were answered; None: now."""
        self._retry_rows_max = limits.retry_rows_max
        self._in_flight_max = limits.in_flight_max
        self._unhealthy_in_flight_max = limits.unhealthy_in_flight_max
        self._slow_in_flight_max = limits.slow_in_flight_max
        self._failures_held_max = limits.failures_held_max
        self._lingering_max = limits.lingering_max
        self._steady_ms = clock.steady_ms
        self._now_seconds: Callable[[], float] = lambda: clock.now_ms() / 1000
        self.kept_for_rows = 0
        """Places that streams leave to rows: some that were due found none."""
        self._granted: list[Lane] = []
        """Lanes that get the places that have become free, before those that had them."""
        self._ready: list[Lane] = []
        self._overdue: list[Lane] = []
        """Lanes for which there was no time in a turn: before the others in the next."""
        self._unnoted: list[tuple[Parcel, Target, Answer, int]] = []
        """Answers of lanes apart that wait until a checkpoint has made room for their results."""
        self._with_sinks: dict[Parcel, Target] = {}
        """Parcels of lanes apart that have no result yet: code of a sink may take for ever."""
        self._unjudged: dict[Lane, deque[tuple[object, Target, Answer, float]]] = {}
        """Answers that wait for a later turn of the event loop to be decoded in, and when their requests left; lanes
        take turns."""
        self._judged_bytes = 0
        """Of answers that were decoded in this turn."""
        self._gathering: dict[Lane, list[Delivery]] = {}
        """Attempts begun that leave together in the lane's next turn, or when others of it have made room."""
        self._making_seconds = 0.0
        """Time that making requests took in this turn, as far as it was long."""
        self._owes_first = False
        """Whether no lane was yet the first of this turn of the event loop, for which there is time in any case: so all
        get there, whoever else takes it."""
        self._is_first = False
        """Whether that lane is being dispatched now."""
        self._came_late = False
        """Whether there was no time any more when it came to the lane that is being dispatched now."""
        self._will_turn = False
        """Whether the lanes that are ready will be dispatched in the next turn."""
        self._wanting_slot: deque[Lane] = deque()
        self._paced: set[Lane] = set()
        """Lanes that wait for their rate, or for others that share their limit."""
        self._log = logger()

    @property
    def full(self) -> bool:
        """Return whether sending must wait for a checkpoint: there is no more room for what comes of it."""
        return self.ring.full or len(self.batch.attempts) >= self._failures_held_max

    @property
    def has_work(self) -> bool:
        """Return whether lanes have anything in flight, or that goes on at a time of its own."""
        now_or_later = self.open_lanes, self.retrying, self.probing, self._granted, self._ready, self._overdue
        return self.in_flight > 0 or any(now_or_later) or bool(self._wanting_slot) or bool(self._paced)

    def dispatch(self, lane: Lane) -> None:
        """Send what the lane has queued, as far as its breaker, the slots in flight and the ring allow."""
        if lane.is_replay and lane.live.queue:  # what it leaves of the destination's limits is the replay's
            self.dispatch(lane.live)
        if lane.order is not None:
            if lane.rows_changed and lane.retry_count > 0:
                # An earlier event of a user may be among rows that the order does not know yet: with the next look.
                self.retrying.add(lane)
                return
            if lane.awaits_order:  # each answer looks again
                return
        queue = lane.queue
        may_leave = len(queue) if lane.retry_count < self._retry_rows_max else _leading(lane)
        count = min(may_leave, self.room(lane) - (self.left_for_rows(lane) if lane.reserved or lane.is_replay else 0))
        at_once = REQUEST_BATCH_MAX
        if lane.mapped is not None and count > 0:
            count = self._gathered(lane, count)
            at_once = max(at_once, lane.mapped.size)
        if count > 0:
            now_ms = self._steady_ms()
            is_plain = lane.is_plain
            self.open_lanes.add(lane)
            while count > 0:
                if not self._has_time:
                    if lane.mapped is not None:
                        lane.mapped.hurry()  # what was to leave has waited for others already
                    if not lane.ready:
                        self.go_on_with(lane)
                    break
                if lane.mapped is not None and lane.is_unhindered:
                    sent = self._depart_mapped(lane, min(count, at_once), now_ms)
                else:
                    sent = self._fitting(lane, min(count, at_once))
                    events = lane.take(sent) if lane.order is None else self._whose_turn(lane, sent)
                    began_seconds = self.clock.monotonic()
                    if is_plain:
                        self._depart_plainly(lane, events, now_ms)
                    else:
                        self._depart(lane, [Delivery(lane, event, now_ms) for event in events])
                    if lane.mapped is None:
                        self._count_making(began_seconds)
                if not sent:
                    break
                count -= sent
        if queue and len(lane.in_flight) < lane.allowance and lane not in self._paced:
            self._want_slot(lane)
        if lane.catch_up_rate is not None:
            self.look_at_catch_up(lane)
        if lane.full and not lane.measure():
            self.on_room(lane)

    def _fitting(self, lane: Lane, count: int) -> int:
        """Return how many of so many queued events requests are made of at once: all, unless they are large."""
        records = [event.record for event in lane.first(count)]
        sizes = [len(each.body) + (len(each.envelope) if each.envelope is not None else 0) for each in records]
        if sum(sizes) <= MADE_BYTES_MAX:
            return count
        return max(1, sum(so_far <= MADE_BYTES_MAX for so_far in accumulate(sizes)))

    @property
    def _has_time(self) -> bool:
        return self._making_seconds < MAKING_SECONDS_MAX or self._is_first

    def _count_making(self, began_seconds: float) -> None:
        self._is_first = False
        taken_seconds = self.clock.monotonic() - began_seconds
        if taken_seconds >= COUNTED_SECONDS or self._making_seconds:
            if not self._making_seconds:
                self._call_soon(self._forget_making)
            self._making_seconds += taken_seconds

    def _forget_making(self) -> None:
        self._making_seconds = 0.0
        self._owes_first = True

    def look_at_catch_up(self, lane: Lane) -> None:
        """Have a lane that is level keep no longer to the rate that was chosen for the time after a pause. Until then
        it is saved as one that is not: after a restart it goes on with that rate."""
        if not self.is_behind():  # at the shared readers' places, too, much may wait: they stand where all have enough
            lane.look_at_catch_up(self._steady_ms())
        if lane.catch_up_rate is not None and not lane.closed:
            self.catching_up.add(lane)
        elif lane in self.catching_up:
            self.catching_up.remove(lane)
            self.open_lanes.add(lane)

    def fed(self, lane: Lane, full: set[Lane] | None = None) -> None:
        """Send what a reader has put into a lane; one that has enough is put into ``full``."""
        if not lane.queue:
            return
        self.open_lanes.add(lane)
        if lane.measure() and full is not None:
            full.add(lane)
        self.dispatch(lane)

    def _whose_turn(self, lane: Lane, count: int) -> list[Event]:
        """At most so many queued events that no earlier one of their user holds up."""
        order, queue = lane.order, lane.queue
        found: list[Event] = []
        while order is not None and queue and len(found) < count:
            event = lane.take_first()
            if order.admit(event):
                found.append(event)
            elif order.spill(event.position):
                self.failures.keep_as_row(lane, event.position)
        return found

    def next_of_user(self, lane: Lane, position: int) -> None:
        """An event no longer holds up its user's others (``delivery.order``)."""
        following = lane.order.finished(position) if lane.order is not None else None
        if following is not None and not lane.closed:
            lane.put_first(following)
            if lane.mapped is not None:
                lane.mapped.hurry()  # it has waited for its user's turn, and so would all that follow it
            if not lane.ready:
                self.go_on_with(lane)  # nothing else may happen in the lane: the event before may have expired as a row

    def room(self, lane: Lane, *, is_for_rows: bool = False) -> int:
        """Return how many more requests of the lane may be in flight now; kept places are for rows alone."""
        if self.is_shut or lane.paused:
            return 0
        self.held_long += lane.weigh()
        room = lane.allowance - len(lane.in_flight)
        if not lane.is_apart:
            room = min(room, self.places(lane) - (0 if is_for_rows else self.kept_for_rows))
        if lane.is_sick and not lane.is_apart:
            room = min(room, self._unhealthy_in_flight_max - self.unhealthy)
        if lane.is_replay and (spare := self._spare(lane)) < room:
            room = spare
            if lane.queue:
                self._paced.add(lane)
        elif lane.cap is not None and lane.free() < room:
            room = lane.free()
            if lane.queue:
                self._paced.add(lane)
        if lane.rate is None or room <= 0:
            return room
        available = lane.rate.available(self.clock.monotonic())
        if available < room:
            self._paced.add(lane)
        return min(room, available)

    def places(self, lane: Lane) -> int:
        """Return how many places are free that lanes such as this one may take."""
        free = self._in_flight_max - self.in_flight
        return min(free, self._slow_in_flight_max - self.held_long) if lane.holds_long else free

    def _spare(self, replay: Lane) -> int:
        """Return how many more places a replay may take. Beyond half of those that it shares with lanes that are not
        well it takes few: these would get none to begin again with, nor for a probe."""
        left = self._unhealthy_in_flight_max // 2 - self.unhealthy
        spare = replay.spare(is_busy=left <= 0 or self.in_flight >= self._slow_in_flight_max)
        return min(spare, left) if left > 0 else spare

    def left_for_rows(self, lane: Lane) -> int:
        """Return how much of the user's limits a lane's stream leaves to rows that are due; a replay leaves it to those
        of its live lane too."""
        now_ms = self.clock.steady_ms()
        return max(lane.left_for_rows(now_ms), lane.live.left_for_rows(now_ms))

    def _gathered(self, lane: Lane, room: int) -> int:
        """Return how many of the queued events leave now, where they go together."""
        mapped = lane.mapped
        assert isinstance(mapped, Gathering)
        hurry = lane.drains or lane.breaker.allowance <= 1
        most = mapped.size if lane.rate is None else min(mapped.size, lane.rate.burst)
        count = mapped.gathered(lane.queue, room, most, len(lane.in_flight), self.clock.monotonic(), hurry=hurry)
        if count is None:
            self._paced.add(lane)
        return count or 0

    @property
    def is_shut(self) -> bool:
        """Return whether nothing new may be sent just now."""
        return self.full or self.stopping or self.is_fenced

    @property
    def is_fenced(self) -> bool:
        """Return whether others may own by now what would be sent."""
        return self.fence is not None and self.fence.is_shut

    def start(self, lane: Lane, event: Event, attempt: int, first_at_ms: int, urls: int, from_row: bool) -> None:
        """Begin one attempt by itself."""
        self.open_lanes.add(lane)
        delivery = Delivery(lane, event, first_at_ms, attempt, urls, from_row)
        if lane.mapped is None:
            self._depart(lane, [delivery])
            return
        # Rows that are due come one by one, within a turn; they leave together, and no more than there is time for.
        self._count_departure(lane, [delivery])
        self._gather(lane, [delivery])

    def end_unasked(self, delivery: Delivery) -> None:
        """End a delivery from a row that ``needs_nobody``: what was answered before is all that there is to say."""
        lane, position, now_ms = delivery.lane, delivery.event.position, self.clock.now_ms()
        if lane.to_all and delivery.urls & REFUSED:
            self.failures.bury(delivery, "failed", None, now_ms)
            return
        self.ring.add(position, now_ms, lane.targets[0].tag, OK, 0)
        self.counters.delivered += 1
        self.failures.settle_row(delivery)
        self.next_of_user(lane, position)

    def _gather(self, lane: Lane, deliveries: Sequence[Delivery]) -> None:
        """Have attempts that have begun leave soon."""
        if deliveries:
            self._gathering.setdefault(lane, []).extend(deliveries)
            if not lane.ready:
                self.go_on_with(lane)

    def _depart_gathered(self, lane: Lane) -> None:
        """Send attempts of a lane that have begun, as far as there are time and memory; the rest stays."""
        if self.is_fenced:  # after a checkpoint it is looked at again
            return
        if not self._has_time:
            self.go_on_with(lane)
            return
        mapped = lane.mapped
        assert isinstance(mapped, Gathering)
        left = self._send_mapped(lane, mapped, self._gathering[lane])
        if not left:
            del self._gathering[lane]
            return
        self._gathering[lane] = list(left)
        if not mapped.is_full and not lane.ready:  # else answers say when to go on
            self.go_on_with(lane)

    def take_back(self, lane: Lane) -> None:
        """Have attempts that have begun, and of which nothing was sent yet, wait as if they had not: the settings of
        their lane change, or it has ended."""
        for delivery in self._gathering.pop(lane, ()):
            position = delivery.event.position
            self.release(delivery)
            if lane.closed:
                continue
            if not delivery.from_row:
                self.failures.give_back_untried(lane, delivery.event)
                continue
            lane.look_at_rows(self._steady_ms())
            self.retrying.add(lane)
            if lane.order is not None:
                lane.order.call(position)

    def forget(self, partition: int) -> None:
        """Wait no longer for what sinks have of a partition that others own now, nor for what has not left yet.

        Nobody knows when a sink ends, and until then the partition could not be taken again. The result comes late and
        says nothing: the events are their owner's, who may be this process by then.
        """
        released: list[Delivery] = []
        for lane, gathered in list(self._gathering.items()):
            released += [each for each in gathered if each.event.position >> POSITION_SHIFT == partition]
            self._gathering[lane] = [each for each in gathered if each.event.position >> POSITION_SHIFT != partition]
            if not self._gathering[lane]:
                del self._gathering[lane]
        for parcel, target in self._with_sinks.items():
            tokens = parcel.forget(partition)
            released += [each if isinstance(each, Delivery) else _delivery_of(each, target) for each in tokens]
        for delivery in released:
            self.release(delivery)
        for lane in {delivery.lane for delivery in released}:
            self._look_at(lane)

    def _look_at(self, lane: Lane) -> None:
        """Go on with a lane that may have room without a result of its own."""
        if (lane.queue or lane in self._gathering) and not lane.ready:
            self.go_on_with(lane)

    def release(self, delivery: Delivery) -> None:
        """Give back the slot of a delivery that has ended."""
        lane = delivery.lane
        lane.release(delivery.event.position)
        if self._gathering and lane in self._gathering and not lane.ready:
            self.go_on_with(lane)
        if not lane.is_apart:
            self.in_flight -= 1
        if lane.holds_long:
            self.held_long -= 1
        if delivery.unhealthy:
            self.unhealthy -= 1

    # making and sending a batch of requests

    def _depart(self, lane: Lane, leaving: Sequence[Delivery]) -> None:
        """Begin attempts of one lane. All requests are made first and then sent in one go: made together they cost
        less, and a receiver is woken once for many, not once for each.
        """
        if not leaving:  # where one user's events go one after the other, perhaps nobody's turn has come
            return
        self._count_departure(lane, leaving)
        if isinstance(lane.mapped, Gathering):
            self._gather(lane, self._send_mapped(lane, lane.mapped, leaving))
            return
        targets = lane.targets
        if len(targets) != 1:
            self._depart_to_several(leaving, targets)
            return
        try:
            requests = targets[0].template.requests([delivery.event for delivery in leaving])
        except Exception:  # noqa: BLE001 - an event that cannot be rendered must not stop the others: which is it?
            self._depart_to_several(leaving, targets)
        else:
            targets[0].route.send(targets[0], zip(leaving, requests, strict=True))

    def _depart_plainly(self, lane: Lane, events: Sequence[Event], now_ms: int) -> None:
        """Begin first attempts of a plain lane: nothing but a failure needs to know more than event and target."""
        self._count_leaving(lane, len(events))
        lane.sent(dict.fromkeys([event.position for event in events], now_ms))
        target = lane.targets[0]
        try:
            requests = target.template.requests(events)
        except Exception:  # noqa: BLE001 - as above
            self._depart_to_several([Delivery(lane, event, now_ms) for event in events], lane.targets)
        else:
            target.route.send(target, zip(events, requests, strict=True))

    def _depart_mapped(self, lane: Lane, size: int, now_ms: int) -> int:
        """Begin first attempts of queued events that a mapping makes requests of; return of how many."""
        mapped = lane.mapped
        assert isinstance(mapped, Gathering)
        began_seconds = self.clock.monotonic()
        departure = mapped.departure(lane, lane.first(size), now_ms, self._late())
        self._count_making(began_seconds)
        events = lane.take(departure.taken)
        self._count_leaving(lane, len(events))
        lane.sent(dict.fromkeys([event.position for event in events], now_ms))
        self._leave(departure)
        return len(events)

    def _send_mapped(self, lane: Lane, mapped: Gathering, leaving: Sequence[Delivery]) -> Sequence[Delivery]:
        """Send attempts that have begun; return those that have to wait."""
        began_seconds = self.clock.monotonic()
        departure = mapped.departure(lane, leaving, self._steady_ms(), self._late())
        self._count_making(began_seconds)
        self._leave(departure)
        return leaving[departure.taken :]

    def _late(self) -> Callable[[], bool]:
        """Return what says whether requests were made for long enough in this turn."""
        monotonic = self.clock.monotonic
        until_seconds = monotonic() + MAKING_SECONDS_MAX - self._making_seconds
        return lambda: monotonic() >= until_seconds

    def _leave(self, departure: Departure) -> None:
        for delivery, failure in departure.failed:
            self._unsendable(delivery, failure)
        for outgoing in departure.outgoing:
            self._send_outgoing(outgoing)

    def _send_outgoing(self, outgoing: Outgoing) -> None:
        target, requests, whole = outgoing
        if target.lane.is_apart:
            self._with_sinks.update((parcel, target) for parcel, _ in requests)
        if whole:
            target.route.ask(target, requests, whole)
        else:
            target.route.send(target, requests)

    def _count_departure(self, lane: Lane, leaving: Sequence[Delivery]) -> None:
        self._count_leaving(lane, len(leaving))
        if lane.is_sick:
            self.unhealthy += len(leaving)
            for delivery in leaving:
                delivery.unhealthy = True
        lane.sent({each.event.position: 0 if each.from_row else each.first_at_ms for each in leaving})

    def _count_leaving(self, lane: Lane, leaving: int) -> None:
        if not lane.is_apart:
            self.in_flight += leaving
        if lane.holds_long:
            self.held_long += leaving
        if lane.rate is not None:
            lane.rate.take(leaving)

    def _depart_to_several(self, leaving: Sequence[Delivery], targets: Sequence[Target]) -> None:
        by_target: list[Requests] = [[] for _ in targets]
        for delivery in leaving:
            try:
                self._ask_several(delivery, targets, by_target)
            except Exception as error:  # noqa: BLE001 - as above
                self._log.error("event_unsendable", destination=delivery.lane.destination.id, exc_info=error)
                self._unsendable(delivery, unsendable(error))
        for target, requests in zip(targets, by_target, strict=True):
            if requests:
                target.route.send(target, requests)

    def _ask_several(self, delivery: Delivery, targets: Sequence[Target], by_target: list[Requests]) -> None:
        chosen = delivery.choose(targets)
        delivery.event.shared = True
        fan_out = delivery.lane.options.fan_out
        if fan_out == "any":
            chosen = [target for target in chosen if target.lingering < self._lingering_max] or chosen
        elif fan_out == "fallback":
            chosen = chosen[:1]
        requests = [(target, target.template.request(delivery.event)) for target in chosen]
        delivery.targets = chosen
        delivery.outstanding = len(chosen)
        for target, request in requests:
            by_target[target.index].append((delivery, request))

    def _unsendable(self, delivery: Delivery, failure: Failure) -> None:
        """No request can be made of an event: a dead letter."""
        lane = delivery.lane
        delivery.done = True
        self.release(delivery)
        self.failures.bury(delivery, "failed", failure, self.clock.now_ms())
        if lane.queue and not lane.ready:
            self.go_on_with(lane)

    # taking results

    def succeeded(self, successes: Iterable[Successes], answered_seconds: float | None = None) -> None:
        """Note the successes of one turn; ``go_on`` begins what they made room for."""
        self._answered_seconds = answered_seconds
        now_ms = self.clock.now_ms()
        counters = self.counters
        lanes: dict[Lane, None] = {}
        others: list[Successes] = []
        packed: list[bytes | bytearray] = []
        count = apart = 0
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
                is_batch = lane.mapped is not None and lane.mapped.size > 1
                is_sample = is_batch or (self.is_saturated and lane.breaker.steady)
                for _ in range(1 if is_sample else len(events)):
                    self._note_success(lane, kept_ms)
            positions = [event.position for event in events]
            lane.delivered(positions, now_ms)
            if lane.holds_long:
                self.held_long -= len(positions)
            packed.append(pack_entries(positions, now_ms - kept_ms, target.tag, status, kept_ms))
            counters.durations.add(kept_ms, len(events))
            _add_latencies(counters.latencies, now_ms, [event.record.received_at for event in events])
            count += len(events)
            if lane.is_apart:
                apart += len(events)
            lanes[lane] = None
        self.ring.add_packed(b"".join(packed))
        self.in_flight -= count - apart
        counters.delivered += count
        super().succeeded(others)
        self._answered_seconds = None
        for lane in lanes:
            if (lane.queue or (self._gathering and lane in self._gathering)) and not lane.ready:
                self.go_on_with(lane)
        self.give_slots(count)

    def go_on(self) -> None:
        """Dispatch the lanes that are ready, those first for which there was no time before."""
        if not (self._has_time or self._owes_first):  # the next turn begins with them
            return
        ready = iter([*self._overdue, *self._granted, *self._ready])
        self._overdue, self._granted, self._ready = [], [], []
        self._is_first, self._owes_first = self._owes_first, False
        try:
            for lane in ready:
                lane.ready = False
                self._came_late = not self._has_time
                if self._gathering and lane in self._gathering:
                    self._depart_gathered(lane)
                self.dispatch(lane)
        finally:
            self._is_first = self._came_late = False
            for lane in ready:  # one of which nobody knows why it cannot go on holds up no other
                self.go_on_with(lane)

    def answered(self, token: object, target: Target, result: int, milliseconds: int, failure: Failure | None) -> None:
        """Take the result of one request."""
        if isinstance(token, Parcel):
            if failure is not None:
                self._parcel_failed(token, target, milliseconds, failure)
            return
        delivery = token if isinstance(token, Delivery) else _delivery_of(token, target)
        outstanding = delivery.outstanding = delivery.outstanding - 1
        if failure is not None:
            self._failed(delivery, target, milliseconds, failure)
            return
        if delivery.done:
            target.lingering -= 1
            return
        now_ms = self.clock.now_ms()
        lane, position = delivery.lane, delivery.event.position
        lane.seen_well(now_ms)
        if CRASH_POINTS_ARMED:
            crash_point("deliver.answered_before_mark")
        if lane.to_all and not self._was_the_last(delivery, target, result, milliseconds, now_ms):
            return
        self.ring.add(position, now_ms - milliseconds, target.tag, result, min(milliseconds, MILLISECONDS_MAX))
        self.counters.delivered += 1
        self.counters.durations.add(milliseconds)
        self.counters.latencies.add(now_ms - delivery.event.record.received_at)
        if outstanding or delivery.failures or delivery.from_row:
            delivery.done = True
            self._finish_uncommon_success(delivery, target)
        self.release(delivery)
        if lane.order is not None:
            self.next_of_user(lane, position)
        if milliseconds > SLOW_MS or not lane.breaker.steady:
            self._note_success(lane, milliseconds)
        if lane.queue and not lane.ready:
            self.go_on_with(lane)
        self.give_slots(1)

    def answered_whole(self, token: object, target: Target, answer: Answer, milliseconds: int) -> None:
        """Take a whole answer, and what it says of each of its events; in a later turn, if many have come in this."""
        if answer.body or len(answer.head) > HEAD_KEPT_BYTES:
            if not self._judged_bytes and not self._unjudged:
                self._call_soon(self._judge_on)
            if target.lane in self._unjudged or self._judged_bytes >= JUDGED_BYTES_PER_TURN:
                left_at = self.clock.monotonic() - milliseconds / 1000
                self._unjudged.setdefault(target.lane, deque()).append((token, target, answer, left_at))
                return
            self._judged_bytes += len(answer.body) + len(answer.head)
        self._judge(token, target, answer, milliseconds)

    def _judge_on(self) -> None:
        self._judged_bytes = 0
        try:
            while self._unjudged and self._judged_bytes < JUDGED_BYTES_PER_TURN:
                lane, waiting = next(iter(self._unjudged.items()))
                until_bytes = self._judged_bytes + JUDGED_BYTES_PER_LANE
                while waiting and self._judged_bytes < until_bytes:
                    token, target, answer, left_at = waiting.popleft()
                    self._judged_bytes += len(answer.body) + len(answer.head)
                    self._judge(token, target, answer, round((self.clock.monotonic() - left_at) * 1000))
                del self._unjudged[lane]
                if waiting:
                    self._unjudged[lane] = waiting  # behind the others
        finally:
            if self._judged_bytes:
                self._call_soon(self._judge_on)

    def _judge(self, token: object, target: Target, answer: Answer, milliseconds: int) -> None:
        mapped = target.lane.mapped
        if isinstance(token, Parcel):
            self._parcel_answered(token, target, answer, milliseconds)
            return
        template = target.template
        assert isinstance(template, MappedTemplate) or mapped is None
        verdict = template.judged(answer, 1)[0] if isinstance(template, MappedTemplate) else None
        failure = None if verdict is None else failure_of(verdict, answer, self._now_seconds)
        status = answer.status if failure is not None or 200 <= answer.status < 300 else 200
        self.answered(token, target, status, milliseconds, failure)

    def _parcel_answered(self, parcel: Parcel, target: Target, answer: Answer, milliseconds: int) -> None:
        # The places in flight bound what others add to the ring; of those apart there may be more than it holds.
        if target.lane.is_apart and not self.ring.has_room(len(parcel.tokens)):
            self._unnoted.append((parcel, target, answer, milliseconds))
            return
        self._end_parcel(parcel, target)
        verdicts = parcel.verdicts
        if verdicts is None:
            assert isinstance(target.template, MappedTemplate)
            verdicts = target.template.judged(answer, len(parcel.tokens))
        if (
            isinstance(parcel, RequestParcel)
            and len(parcel.tokens) > 1
            and (
                are_refused_together(verdicts, answer.status)
                or says_too_much(verdicts, answer, parcel.answer_bytes_max)
            )
        ):
            if self._halved(parcel, target):
                return
            verdicts = [RETRIED_TOGETHER] * len(verdicts)
        tokens = parcel.awaited
        if parcel.forgotten:
            said = zip(parcel.tokens, verdicts, strict=True)
            verdicts = [verdict for token, verdict in said if event_of(token).position not in parcel.forgotten]
        accepted = [token for token, verdict in zip(tokens, verdicts, strict=True) if verdict.accepted]
        if accepted:
            status = answer.status if 200 <= answer.status < 300 else 200
            self.succeeded([(accepted, target, status, milliseconds)])
        blamed = False
        failures = failures_of(verdicts, answer, self._now_seconds)
        for token, failure in zip(tokens, failures, strict=True):
            if failure is not None:
                self._answered_alone(token, target, milliseconds, failure, counts=not blamed)
                blamed = blamed or not failure.of_event
        self.go_on()

    def _halved(self, parcel: RequestParcel, target: Target) -> bool:
        """Send the halves of a batch of which a receiver has not said which events it refuses: they show it."""
        lane, mapped = target.lane, target.lane.mapped
        if self.stopping or self.is_fenced or lane.paused or lane.closed or not isinstance(mapped, Mapped):
            return False
        self._send_outgoing(mapped.outgoing(target, parcel.halves()))
        return True

    def _parcel_failed(self, parcel: Parcel, target: Target, milliseconds: int, failure: Failure) -> None:
        """No answer came: it is one failure of the receiver, and one of each event."""
        self._end_parcel(parcel, target)
        for index, token in enumerate(parcel.awaited):
            own = Failure(
                failure.outcome,
                failure.status,
                failure.error,
                failure.retry_after,
                failure.head,
                is_unsent=failure.is_unsent,
            )
            own.of_batch = failure.of_batch
            self._answered_alone(token, target, milliseconds, own, counts=index == 0)
        self.go_on()

    def _end_parcel(self, parcel: Parcel, target: Target) -> None:
        self._with_sinks.pop(parcel, None)
        parcel.end()
        if parcel.forgotten:
            self._look_at(target.lane)

    def _answered_alone(
        self, token: object, target: Target, milliseconds: int, failure: Failure, *, counts: bool
    ) -> None:
        delivery = token if isinstance(token, Delivery) else _delivery_of(token, target)
        delivery.outstanding -= 1
        self._failed(delivery, target, milliseconds, failure, counts=counts)

    def _was_the_last(self, delivery: Delivery, target: Target, result: int, milliseconds: int, now_ms: int) -> bool:
        """Return whether with this success every URL has accepted (fan-out ``all``); if not, what follows is
        done here."""
        refused_before = delivery.urls & REFUSED
        if not (delivery.outstanding or delivery.failures or refused_before):
            return True
        position, duration = delivery.event.position, min(milliseconds, MILLISECONDS_MAX)
        self.ring.add(position, now_ms - milliseconds, target.tag, PARTIAL + result, duration)
        delivery.accepted = True
        self._note_success(delivery.lane, milliseconds)
        if not delivery.outstanding:
            self._end_failed(delivery, now_ms)
        return False

    def _failed(
        self,
        delivery: Delivery,
        target: Target,
        milliseconds: int,
        failure: Failure,
        *,
        counts: bool = True,
    ) -> None:
        now_ms = self.clock.now_ms()
        self.failures.count(delivery.lane, failure)
        failure.hide(target.template.hidden)
        if failure.status == UNAUTHORIZED:
            failure.of_token = target.route.unauthorized(milliseconds)
        failed = FailedTry(target, failure, now_ms - milliseconds, milliseconds)
        if delivery.done:
            target.lingering -= 1
            self._note_try(delivery, failed)
            return
        delivery.failures = [*(delivery.failures or ()), failed]
        if not delivery.outstanding and not self._fell_back(delivery):
            self._end_failed(delivery, now_ms, counts=counts)

    def _fell_back(self, delivery: Delivery) -> bool:
        """Ask the next URL that has not failed (fan-out ``fallback``); False when there is none, or not now."""
        lane = delivery.lane
        if lane.options.fan_out != "fallback" or delivery.accepted:  # accepted: it was asked as ``all`` has it
            return False
        if self.stopping or self.is_fenced or lane.paused or lane.closed:
            return False
        for target in delivery.not_failed():
            delivery.outstanding = 1
            target.route.send(target, [(delivery, target.template.request(delivery.event))])
            return True
        return False

    def _end_failed(self, delivery: Delivery, now_ms: int, *, counts: bool = True) -> None:
        """Every URL has been asked, and not as many have accepted as should."""
        lane = delivery.lane
        self.release(delivery)
        self.failures.decide(delivery, delivery.failures or [], now_ms, counts=counts)
        if lane.queue and not lane.ready:
            self.go_on_with(lane)
        self.give_slots(1)

    def _finish_uncommon_success(self, delivery: Delivery, winner: Target) -> None:
        for target in delivery.targets if delivery.outstanding else ():
            if target is not winner and not delivery.has_failed(target):
                target.lingering += 1
        for failed in delivery.failures or ():
            self._note_try(delivery, failed)
        if delivery.from_row:
            self.failures.settle_row(delivery)
            if delivery.attempt > 1:
                self.lane_counts.of(delivery.lane.number).recovered += 1

    def _note_try(self, delivery: Delivery, failed: FailedTry) -> None:
        """A failure that did not decide the delivery goes into the block of results, not into a row."""
        milliseconds = min(failed.milliseconds, MILLISECONDS_MAX)
        result = to_number(failed.failure.outcome, failed.failure.status)
        self.ring.add(delivery.event.position, failed.at_ms, failed.target.tag, result, milliseconds)

    def _note_success(self, lane: Lane, milliseconds: int) -> None:
        if not lane.targets:
            return  # it was sent before the settings could no longer be used: the breaker stays open until they can
        lane.answers_again()
        was_probing = lane in self.probing
        # Since it was answered its turn may have taken long, and a failure of that turn may have been told.
        answered_seconds = self.clock.monotonic() if self._answered_seconds is None else self._answered_seconds
        sent_seconds = answered_seconds - milliseconds / 1000
        wants_more = milliseconds > SLOW_MS and bool(lane.queue) and not self.is_saturated
        was_open = lane.breaker.succeeded(wants_more, sent_seconds, milliseconds)
        if was_probing:
            self.probing.discard(lane)
            lane.end_probing()
            if was_open:
                self._log.info("destination_recovered", destination=lane.destination.id)
            self.on_recovered(lane)

    # whose turn it is

    def go_on_with(self, lane: Lane, *, is_granted: bool = False) -> None:
        """Dispatch when this turn's other answers are in too, so that what follows them leaves together."""
        lane.ready = True
        (self._overdue if self._came_late else self._granted if is_granted else self._ready).append(lane)
        if not self._will_turn:
            self._turn_soon()

    def turn(self) -> None:
        """Go on with what is ready, in a turn of its own."""
        self._will_turn = False
        self.go_on()
        if (self._overdue or self._granted or self._ready) and not self._will_turn:
            self._turn_soon()

    def _turn_soon(self) -> None:
        self._will_turn = True
        self._call_soon(self.turn)

    def _want_slot(self, lane: Lane) -> None:
        if not lane.wants_slot:
            lane.wants_slot = True
            self._wanting_slot.append(lane)

    def give_slots(self, slots: int) -> None:
        """Give so many freed slots to the lanes that have waited longest."""
        for _ in range(min(slots, len(self._wanting_slot))):
            lane = self._wanting_slot.popleft()
            lane.wants_slot = False
            if not lane.ready:
                self.go_on_with(lane, is_granted=True)

    @property
    def paced(self) -> Iterable[Lane]:
        """Lanes that would send if their rate, or the user's limit, allowed it."""
        return self._paced

    def wake_paced(self) -> None:
        """Let lanes go on whose rate allows it by now; called several times a second."""
        paced, self._paced = self._paced, set()
        for lane in paced:
            if not lane.closed and not lane.ready:
                self.go_on_with(lane)

    def checkpointed(self) -> None:
        """Go on with what waited for a checkpoint."""
        unnoted, self._unnoted = self._unnoted, []
        for parcel, target, answer, milliseconds in unnoted:
            self._parcel_answered(parcel, target, answer, milliseconds)
        for lane in self._gathering:
            if not lane.ready:
                self.go_on_with(lane)
        self.offer_slots()

    def offer_slots(self) -> None:
        """Let every waiting lane try again, after something else than an answer made room."""
        self.give_slots(len(self._wanting_slot))


def _leading(lane: Lane) -> int:
    """Return how many queued events may leave although the lane has as many rows as it may: those that rows
    wait for."""
    order = lane.order
    if order is None:
        return 0
    return sum(1 for _ in takewhile(lambda event: order.holds_up(event.position), lane.queue))


def _delivery_of(token: object, target: Target) -> Delivery:
    """Return the attempt for an event that left plainly."""
    event: Event = token  # type: ignore[assignment]  # the dispatcher's own
    return Delivery(target.lane, event, target.lane.in_flight[event.position])


def _add_latencies(latencies: Times, now_ms: int, received: list[int]) -> None:
    if received.count(received[0]) == len(received):  # those of a batch came at one moment
        latencies.add(now_ms - received[0], len(received))
        return
    for received_at, count in Counter(received).items():
        latencies.add(now_ms - received_at, count)
