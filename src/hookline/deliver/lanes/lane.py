"""A lane: the stream of one destination, with its own queue, position, breaker and retries.

A lane is **attached** in a partition while it takes events from the shared reader. When it fills, or its breaker
opens, it is **detached**: intake stops, the first event never tried is remembered as its position, and a catch-up
reader brings it back. So a lane holds a bounded number of events, whatever its receiver does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol

from hookline.connections.kinds import requests_of
from hookline.connections.model import Destination, LaneConfig, WebhookSettings
from hookline.deliver.event import Event
from hookline.deliver.lanes.breaker import Health
from hookline.deliver.lanes.cursor import LaneCursor
from hookline.deliver.lanes.order import BURST_SECONDS, GATHERED_BURST_SECONDS, Rate, UserOrder
from hookline.deliver.send.port import Route
from hookline.deliver.send.request import Template
from hookline.journal.record import Record
from hookline.kinds.catalog import published_name
from hookline.kinds.model import PER_EVENT_MAX
from hookline.limits import LIMITS, Limits
from hookline.outcomes.progress import OFFSET_MASK, POSITION_SHIFT, URL_BITS
from hookline.route.decision import refusal
from hookline.route.filters import Filters

RECHECK_MS = 1_000
"""From one look at the rows to the next, at most, while some are due."""


class Target:
    """One receiver URL of a lane: how its requests are written, and the way they go."""

    __slots__ = ("index", "lane", "lingering", "route", "tag", "template", "url", "urls")

    lane: Lane
    """Set by the lane that takes it."""

    def __init__(self, template: Template, index: int, lane_number: int, route: Route) -> None:
        self.template = template
        self.url = template.url
        self.index = index
        self.tag = lane_number << URL_BITS | index
        self.route = route
        self.urls: tuple[str, ...] = ()
        """All URLs that the destination had with this one (``urls_of``)."""
        self.lingering = 0
        """Requests still running although another URL has taken their event."""

    def is_as(self, other: Target) -> bool:
        """Return whether the other asks the same URL, perhaps with changed settings."""
        return self.index == other.index if self.urls is other.urls else self.url == other.url


def urls_of(destination: Destination) -> tuple[str, ...]:
    """Return what the URLs of a destination are known by when their list changes: a webhook's by themselves, those of
    a mapping by the names of its requests; none of a sink.

    Where conditions choose among a mapping's requests, an event's are counted among those chosen for it, and with other
    conditions none is surely the one that it was.
    """
    settings = destination.settings
    if isinstance(settings, WebhookSettings):
        return tuple(each.url for each in settings.webhooks)
    requests = requests_of(destination)
    if all(each.condition is None for each in requests):
        return tuple(each.name for each in requests)
    everything = str([(each.name, each.condition) for each in requests])
    return tuple(f"{number} of {everything}" for number in range(PER_EVENT_MAX))


class MappedRequests(Protocol):
    """Hold what a lane whose kind is no webhook asks of what makes its requests (``mapped.py``)."""

    size: int
    """Events in one request, at most."""
    is_apart: bool
    """Whether its requests take none of the places of what goes over the network."""

    has_one_url: bool
    """Whether all its requests go to one URL, whatever the event."""
    has_urls_apart: bool
    """Whether every event becomes all of its requests, each with a URL of its own: then a URL tells which it was."""

    @property
    def is_full(self) -> bool:
        """Return whether nothing more may leave until some of what is in flight is answered."""

    def own(self, lane: Lane) -> None:
        """Belong to a lane."""

    def hurry(self) -> None:
        """Let what is queued leave with the next look."""

    def allowance(self, requests: int) -> int:
        """Return how many events may be in flight where so many requests may."""

    def has_enough(self, queue: Sequence[Event], low: int) -> bool:
        """Return whether so much is queued that readers may wait; ``low`` is where others have enough."""

    def released(self, positions: Iterable[int]) -> None:
        """Note that events are in flight no more."""


class Lane(Health):
    """The stream of one destination."""

    __slots__ = (
        "already_delivered",
        "backfills",
        "cap",
        "catch_up_rate",
        "closed",
        "cursors",
        "destination",
        "drains",
        "filtered",
        "filters",
        "full",
        "granted",
        "holds_long",
        "in_flight",
        "is_apart",
        "is_replay",
        "mapped",
        "name",
        "next_retry_ms",
        "number",
        "options",
        "order",
        "out_of_order",
        "part",
        "passed_over",
        "paused",
        "pending_rows",
        "queue",
        "rate",
        "ready",
        "replays",
        "requeueing",
        "reserved",
        "retry_count",
        "rows",
        "rows_changed",
        "start",
        "starts",
        "targets",
        "to_all",
        "urls",
        "urls_apart",
        "wants_slot",
    )

    def __init__(
        self,
        destination: Destination,
        start: LaneConfig,
        targets: tuple[Target, ...],
        filters: Filters | None = None,
        limits: Limits = LIMITS,
        mapped: MappedRequests | None = None,
    ) -> None:
        self.number = start.number
        super().__init__(destination.delivery.max_concurrency, limits)
        self.start = start
        self.paused = start.paused is not None
        self.catch_up_rate = start.catch_up_rate
        self.rate: Rate | None = None
        self.granted: int | None = None
        """How many of the requests that the destination wants at once are for this process; None is all."""
        self.part = 1.0
        """Which part of the lane's rate is for this process."""
        self.reserved = 0
        """Places of the user's limit that the stream leaves to rows that are due."""
        self.replays: list[Lane] = []
        """Lanes of replays whose requests count as the destination's too."""
        self.order: UserOrder | None = None
        """Set where one user's events go one after the other."""
        self.rows_changed = False
        """Whether retry rows came that the order does not know of."""
        self.queue: deque[Event] = deque()
        self.in_flight: dict[int, int] = {}
        """Places of the events being sent, and when the first attempt began, in ms; 0 for one that has a retry row."""
        self.cursors: dict[int, LaneCursor] = {}
        self.backfills: list[LaneCursor] = []
        self.retry_count = 0
        self.next_retry_ms = 0
        self.pending_rows: set[int] = set()
        """Places whose retry row the database shows as it was before the next checkpoint."""
        self.already_delivered: set[int] = set()
        """Places done before a crash that the last checkpoint did not know of."""
        self.passed_over: set[int] = set()
        """Of these: those that the lane has come by while something before them was queued, and still may be."""
        self.out_of_order: set[int] = set()
        """Places in the queue out of the order of the main cursor: if given back, they become retry rows."""
        self.rows: set[int] = set()
        """Partitions in which the lane has a row of its own."""
        self.is_replay = False
        """Whether it is a ``ReplayLane``: it goes second, and ends."""
        self.holds_long = False
        """Whether its requests are counted as those that hold their places for long (the dispatcher does)."""
        self.full = False
        self.ready = False
        """Whether it will be dispatched at the end of this turn."""
        self.wants_slot = False
        self.closed = False
        self.requeueing = False
        """Whether dead letters are called back to waiting by a checkpoint that is not saved yet."""
        self.filtered = 0
        """Events that were not taken because of a filter."""
        self.to_all = False
        """Whether every URL, or every request of a mapping, has to accept an event."""
        self.urls: tuple[str, ...] = ()
        """Name each of the destination's URLs (``urls_of``)."""
        self.urls_apart: list[str] = []
        """The URLs of its requests as they were when the settings could be used last, in the order of ``urls``, where
        each has one of its own: by it an attempt at one is known from an attempt at another."""
        self.configure(destination, start, targets, filters, mapped)

    def __hash__(self) -> int:
        """Return the number, so that sets of lanes are walked in an order that does not change from run to run."""
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def configure(
        self,
        destination: Destination,
        start: LaneConfig,
        targets: tuple[Target, ...],
        filters: Filters | None = None,
        mapped: MappedRequests | None = None,
    ) -> None:
        """Take new settings; they hold for what the lane takes from now on."""
        self.destination = destination
        self.name = published_name(destination.kind)
        if start.has_resumed(self.start):
            self.catch_up_rate = start.catch_up_rate  # at the end of a pause only: it stays written down for good
        self.start = start
        self.starts = start.sources
        self.paused = start.paused is not None
        self.drains = start.until is not None
        urls = urls_of(destination)
        if targets:
            self.urls_apart = [each.url for each in targets] if mapped is None or mapped.has_urls_apart else []
        elif self.urls_apart:  # they stand as the retry rows have them, in whatever order the unusable settings are
            known = dict(zip(self.urls, self.urls_apart, strict=False))
            self.urls_apart = [known.get(each, "") for each in urls]
        self.urls = urls
        self.targets = targets
        for target in targets:
            target.lane = self
            target.urls = self.urls
        self.mapped = mapped
        """What makes the requests of a kind that is no webhook; None: each target writes its own."""
        self.is_apart = mapped is not None and mapped.is_apart
        """Whether its requests take none of the places of what goes over the network."""
        if mapped is not None:
            mapped.own(self)
        self.filters = filters if filters is not None and filters.stops else None
        """None when no filter keeps events from being sent, so that such a lane pays one look."""
        self.options = options = destination.delivery
        if options.order == "none":
            self.order = None
        elif self.order is None:
            self.order = UserOrder(self.limits.held_events_max, self.in_flight)
        # What is under way while the settings cannot be used has as many requests as it had.
        self.to_all = options.fan_out == "all" or mapped is not None or (self.to_all and not targets)
        self.breaker.limit(options.max_concurrency)
        self.pace()
        self.grant(self.granted, self.part)

    def grant(self, at_once: int | None, part: float) -> None:
        """Keep to this process's share of the destination's own limits from now on."""
        self.granted, self.part = at_once, part
        most = self.options.max_concurrency
        self.cap = most if most is None or at_once is None else min(most, at_once)
        """Requests in flight at once; None is as many as the breaker allows."""
        if self.rate is not None:
            self.rate.share(self.rate_part)

    @property
    def rate_part(self) -> float:
        """Return which part of its rate the lane keeps to."""
        return self.part

    def free(self) -> int:
        """Return how many more requests may be in flight by the user's own limit, which replays share."""
        if self.cap is None:
            return self.limits.in_flight_max
        cap = self.cap if self.mapped is None else self.mapped.allowance(self.cap)
        return cap - len(self.in_flight) - sum(len(replay.in_flight) for replay in self.replays)

    @property
    def allowance(self) -> int:
        """Return how many events the breaker lets be in flight."""
        requests = self.breaker.allowance
        return requests if self.mapped is None else self.mapped.allowance(requests)

    def pace(self) -> None:
        """Take the rate that holds now: the user's, and while catching up after a pause the one chosen for that."""
        rates = [rate for rate in (self.options.max_rate, self.catch_up_rate) if rate is not None]
        if not rates:
            self.rate = None
        elif self.rate is None or not self._is_paced(self.rate, min(rates)):
            self.rate = Rate(min(rates), self.rate_part, self.burst_seconds)

    def _is_paced(self, rate: Rate, per_second: float) -> bool:
        return (rate.per_second, rate.burst_seconds) == (per_second, self.burst_seconds)

    @property
    def burst_seconds(self) -> float:
        """Return how long unused attempts of its rate are kept: events that leave together are begun together."""
        return BURST_SECONDS if self.mapped is None or self.mapped.size == 1 else GATHERED_BURST_SECONDS

    # the cursor

    def enter(self, cursor: LaneCursor) -> None:
        """Stand in a partition. What became of earlier attempts there was its owners' to save, and is no row here."""
        stale = [position for position in self.pending_rows if position >> POSITION_SHIFT == cursor.partition]
        self.pending_rows.difference_update(stale)
        self.cursors[cursor.partition] = cursor

    def backfill(self, backfill: LaneCursor) -> None:
        """Read a stretch of the stream beside the main cursor."""
        self.backfills.append(backfill)

    def end_backfill(self, backfill: LaneCursor) -> None:
        """Be done with a stretch."""
        self.backfills.remove(backfill)

    def freeze(self, partition: int) -> None:
        """Take nothing more of a partition."""
        for each in (self.cursors[partition], *self.backfills):
            if each.partition == partition:
                each.frozen = True

    def note_row(self, partition: int, has_row: bool) -> None:
        """Note whether the lane has a row of its own in a partition."""
        if has_row:
            self.rows.add(partition)
        else:
            self.rows.discard(partition)

    # the backlog: what is queued and what is in flight

    def feed(self, events: Iterable[Event]) -> None:
        """Queue events in the order of the main cursor, none of which is to be skipped."""
        self.queue.extend(events)

    def put(self, event: Event, *, out_of_order: bool = False) -> None:
        """Queue an event, unless it was done before a crash; ``out_of_order``: the main cursor comes by no more."""
        if self.already_delivered and self.was_done(event.position):
            return
        if out_of_order:
            self.out_of_order.add(event.position)
        self.queue.append(event)

    def put_first(self, event: Event) -> None:
        """Queue an event whose turn it is."""
        self.out_of_order.add(event.position)
        self.queue.appendleft(event)

    def skip_done(self, positions: Iterable[int]) -> None:
        """Take events no more that were done before."""
        self.already_delivered.update(positions)

    def was_done(self, position: int) -> bool:
        """Return whether an event was done before: the lane comes by it once, and again with what was queued before."""
        if position not in self.already_delivered:
            return False
        self.already_delivered.discard(position)
        if self.queue:
            self.passed_over.add(position)
        return True

    def first(self, count: int) -> list[Event]:
        """Return so many queued events, which stay."""
        return list(islice(self.queue, count))

    def take(self, count: int) -> list[Event]:
        """Take so many queued events."""
        popleft = self.queue.popleft
        events = [popleft() for _ in range(count)]
        if self.out_of_order:
            self.out_of_order.difference_update([event.position for event in events])
        return events

    def take_first(self) -> Event:
        """Take the first queued event."""
        event = self.queue.popleft()
        self.out_of_order.discard(event.position)
        return event

    def sent(self, first_at_ms: Mapping[int, int]) -> None:
        """Note that events leave, by position; first attempts of those that have no retry row began then, else 0."""
        self.in_flight.update(first_at_ms)

    def delivered(self, positions: Iterable[int], now_ms: int) -> None:
        """Note that receivers have accepted a run of events."""
        in_flight = self.in_flight
        for position in positions:
            del in_flight[position]
        if self.mapped is not None:
            self.mapped.released(positions)
        self.seen_well(now_ms)

    def release(self, position: int) -> None:
        """Note the end of an attempt."""
        del self.in_flight[position]
        if self.mapped is not None:
            self.mapped.released((position,))

    def give_back(self, only: int | None = None) -> tuple[list[Event], list[Event]]:
        """Let go of what is queued, or ``only`` that of a partition: it is in the journal.

        The main cursors stand before the first of it. Return what these will not come to again: those out of order, and
        those that waited for their user's turn, for others behind them have been delivered.
        """
        kept: list[Event] = []
        out_of_order: list[Event] = []
        for event in self.queue:
            partition, offset = event.position >> POSITION_SHIFT, event.position & OFFSET_MASK
            if only is not None and partition != only:
                kept.append(event)
            elif event.position in self.out_of_order:
                out_of_order.append(event)
            else:
                cursor = self.cursors[partition]
                cursor.next_offset = min(cursor.next_offset, offset)
        self.queue.clear()
        self.queue.extend(kept)
        again = {
            each for each in self.passed_over if each & OFFSET_MASK >= self.cursors[each >> POSITION_SHIFT].next_offset
        }
        self.already_delivered |= again
        self.passed_over -= again
        return out_of_order, self.order.let_go(only) if self.order is not None else []

    def measure(self) -> bool:
        """Return whether so much is queued that readers may wait. What waits for its user's turn is not counted: others
        are not to wait for that user."""
        low = self.limits.queue_low
        self.full = len(self.queue) >= low if self.mapped is None else self.mapped.has_enough(self.queue, low)
        return self.full

    def close(self) -> None:
        """End: nothing of it is sent any more."""
        self.closed = True
        self.queue.clear()

    # retry rows

    def keep_row(self, position: int, due_ms: int | None = None, *, is_new: bool = True) -> None:
        """Have an event wait as a retry row from the next checkpoint on; ``due_ms`` None: until it is called."""
        if is_new:
            self.count_rows(self.retry_count + 1)
        self.out_of_order.discard(position)
        self.pending_rows.add(position)
        if due_ms is not None:
            self.row_due(due_ms)

    def close_row(self, position: int) -> None:
        """Need a retry row no more."""
        self.retry_count -= 1
        self.pending_rows.add(position)

    def row_saved(self, position: int) -> None:
        """Note that the database shows a row as it is."""
        self.pending_rows.discard(position)

    def row_due(self, due_ms: int) -> None:
        """Look at the rows at this time at the latest."""
        self.next_retry_ms = min(self.next_retry_ms, due_ms)

    def look_at_rows(self, at_ms: int) -> None:
        """Look at the rows at this time, and not before."""
        self.next_retry_ms = at_ms

    def count_rows(self, rows: int) -> None:
        """Take the number of rows from who has counted them; with more than before there may be one to probe with."""
        if rows > self.retry_count:
            self.probe_found(True)
        self.retry_count = rows

    def reorder_rows(self) -> None:
        """Have the order learn of rows that it does not know of."""
        self.rows_changed = True

    def rows_ordered(self) -> None:
        """Note that the order knows of all rows."""
        self.rows_changed = False

    def requeue(self, is_coming: bool) -> None:
        """Note whether dead letters come back with a checkpoint that is not saved yet."""
        self.requeueing = is_coming

    def left_for_rows(self, now_ms: int) -> int:
        """Return how much of the user's limits is left to rows now."""
        return self.reserved if self.retry_count > 0 and self.next_retry_ms <= now_ms else 0

    def reserve(self, positions: int) -> None:
        """Leave so much of the user's limits to rows, as long as any are due."""
        self.reserved = positions

    def catch_up(self) -> None:
        """Keep to the rate that was chosen for the time after the last pause, if one was."""
        self.catch_up_rate = self.start.catch_up_rate
        self.pace()

    def look_at_catch_up(self, now_ms: int) -> None:
        """End that if nothing waits but what will be due later: while more is due, rows are looked at again soon."""
        has_due = self.retry_count > 0 and self.next_retry_ms <= now_ms + RECHECK_MS
        gives_up = any(cursor.frozen and not cursor.attached for cursor in self.cursors.values())
        goes_on = self.order is not None and self.order.goes_on(self.in_flight, has_rows=self.retry_count > 0)
        if not (self.queue or self.detached or gives_up or has_due or goes_on):
            self.end_catch_up()

    def end_catch_up(self) -> None:
        """Keep to it no longer."""
        if self.catch_up_rate is not None:
            self.catch_up_rate = None
            self.pace()

    # what it takes

    def takes(self, record: Record, partition: int, offset: int) -> bool:
        """Return whether the record is part of this stream and no filter stops it."""
        if not self.routes(record, partition, offset):
            return False
        return self.filters is None or self.passes(record)

    def passes(self, record: Record) -> bool:
        """Return whether no filter stops the record; one that is stopped is counted."""
        if self.filters is None or self.filters.passes(record):
            return True
        self.filtered += 1
        return False

    def routes(self, record: Record, partition: int, offset: int) -> bool:
        """Return whether the record is part of this stream; ``route/decision.py`` is the explained form."""
        if record.to is not None:
            chosen = self.destination.id in record.to
        else:
            start = self.starts.get(record.source)
            chosen = start is not None and offset >= start.get(partition, 0)
        return chosen and (record.selection is None or refusal(record.selection, self.name) is None)

    @property
    def size(self) -> int:
        """Events in memory that have not been sent."""
        return len(self.queue) if self.order is None else len(self.queue) + len(self.order.held)

    @property
    def is_sick(self) -> bool:
        """Return whether it shares the few slots of lanes that are not fully healthy, or go second."""
        return self.is_replay or self.breaker.state != "closed"

    def weigh(self) -> int:
        """Decide anew whether its requests hold their places for long; return by how many more than before do."""
        holds_long = (self.breaker.is_slow or self.is_sick) and not self.is_apart
        if holds_long is self.holds_long:
            return 0
        self.holds_long = holds_long
        return len(self.in_flight) if holds_long else -len(self.in_flight)

    @property
    def awaits_order(self) -> bool:
        """Return whether nothing may be begun yet because what is being sent left before the order began."""
        if self.order is None or not self.order.before:
            return False
        self.order.before &= self.in_flight.keys()
        return bool(self.order.before)

    @property
    def is_plain(self) -> bool:
        """Return whether a first success of an event that leaves now is all there is to it."""
        return len(self.targets) == 1 and self.order is None and not (self.to_all or self.is_sick)

    @property
    def is_unhindered(self) -> bool:
        """Return whether nothing needs to be known of an attempt that begins now but event and time."""
        return self.order is None and not self.is_sick

    @property
    def probe_spacing_seconds(self) -> float:
        """Return how far apart probes are by the rates; replays share their destination's with it and with each other.
        While the breaker is open, processes probe in turn."""
        alone = self.breaker.state == "open"
        seconds = 0.0 if self.rate is None else self.rate.spacing_seconds(alone)
        live = self.live
        if live.rate is None:
            return seconds
        lanes = 1 + sum(not replay.closed for replay in live.replays)
        return max(seconds, lanes * live.rate.spacing_seconds(alone))

    @property
    def halted(self) -> bool:
        """Return whether nothing is sent but single probes, if those."""
        return self.paused or self.breaker.allowance == 0

    @property
    def state(self) -> str:
        """Return the state that the lane's row shows."""
        if self.is_drained:
            return "drained"
        return "paused" if self.paused else "gone" if self.gone else self.breaker.state

    @property
    def is_drained(self) -> bool:
        """Return whether the lane of a disabled destination has nothing left to send."""
        behind = any(cursor.end is not None and cursor.next_offset < cursor.end for cursor in self.cursors.values())
        return self.drains and not (behind or self.backfills or self.busy or self.retry_count or self.requeueing)

    @property
    def detached(self) -> list[LaneCursor]:
        """Return the cursors that a catch-up reader serves: not those that have come to their end."""
        return [
            cursor
            for cursor in self.cursors.values()
            if not (cursor.attached or cursor.frozen) and (cursor.end is None or cursor.next_offset < cursor.end)
        ] + [backfill for backfill in self.backfills if not backfill.frozen]

    def leave(self, partition: int) -> None:
        """Forget a partition that others own now. What is in flight of it ends, and no longer matters."""
        self.cursors.pop(partition, None)
        self.rows.discard(partition)
        self.backfills = [backfill for backfill in self.backfills if backfill.partition != partition]
        for positions in (self.already_delivered, self.passed_over, self.out_of_order, self.pending_rows):
            positions.difference_update([position for position in positions if position >> POSITION_SHIFT == partition])
        if any(event.position >> POSITION_SHIFT == partition for event in self.queue):
            self.queue = deque(event for event in self.queue if event.position >> POSITION_SHIFT != partition)
        if self.order is not None:
            self.order.forget(partition)

    @property
    def live(self) -> Lane:
        """Return the lane of the live stream: itself, or the one that a replay goes beside."""
        return self

    def spare(self, *, is_busy: bool) -> int:
        """Return how many more attempts may be in flight, besides what the breaker says; a replay goes second.

        ``is_busy``: others may want the places.
        """
        return self.limits.in_flight_max

    @property
    def busy(self) -> bool:
        """Return whether anything is queued or in flight."""
        return bool(self.size or self.in_flight)

    def undone(self, partition: int) -> list[int]:
        """Offsets taken and not yet done that have no retry row, ascending."""
        # Ten times a second for every event that waits: one step each, the rest is done by the two that sort and cut.
        positions = [event.position for event in self.queue]
        if self.order is not None:
            positions += [event.position for event in self.order.held.values()]
        positions += [position for position, first_at_ms in self.in_flight.items() if first_at_ms]
        positions.sort()
        base = partition << POSITION_SHIFT
        found = positions[bisect_left(positions, base) : bisect_left(positions, base + (1 << POSITION_SHIFT))]
        return [position - base for position in found] if base else found
