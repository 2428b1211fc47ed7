"""A lane: the stream of one destination, with its own queue, place, breaker and retries.

A lane is **attached** in a partition while it takes events from the shared reader. When it fills, or its breaker
opens, it is **detached**: intake stops, the first event never tried is remembered as its place, and a catch-up reader
brings it back. So a lane holds a bounded number of events, whatever its receiver does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from hookline.connections.catalog.kinds import published_name
from hookline.connections.model import Destination
from hookline.connections.model import Lane as LaneStart
from hookline.deliver.event import Event
from hookline.deliver.lanes.breaker import ALLOWANCE_MAX, Breaker
from hookline.deliver.lanes.order import UserOrder
from hookline.deliver.lanes.rate import Rate
from hookline.deliver.send.port import Route
from hookline.deliver.send.request import Template
from hookline.journal.record import Record
from hookline.outcomes.progress import PLACE_SHIFT, URL_BITS
from hookline.replays.places import Places
from hookline.route.filters import Filters
from hookline.route.selection import refusal

QUEUE_LOW = 128
"""Below this a lane is hungry: its reader goes on. Few, so that events are sent while they are in the cache."""
QUEUE_HIGH = 2_048
"""At this a lane that holds others up is detached. A group may be added above QUEUE_LOW, so a lane holds at most
this plus one group of the journal."""
RETRY_ROWS_MAX = 100_000


class Intake:
    """Where a lane stands in one partition: with the shared reader, or at a place of its own.

    ``end`` and ``source`` are set for a side intake: the part of the stream that a source connected a moment ago had
    before the shared reader knew of it. A replay's intake has an end, and ``places`` when it is of single events.
    """

    __slots__ = ("attached", "end", "frozen", "next_offset", "partition", "places", "source")

    def __init__(
        self,
        partition: int,
        next_offset: int,
        attached: bool,
        end: int | None = None,
        source: str | None = None,
        places: Places | None = None,
    ) -> None:
        self.partition = partition
        self.next_offset = next_offset
        self.attached = attached
        self.end = end
        self.source = source
        self.places = places
        self.frozen = False


class Target:
    """One receiver URL of a lane: how its requests are written, and the way they go."""

    __slots__ = ("index", "lane", "lingering", "route", "tag", "template", "url")

    lane: Lane
    """Set by the lane that takes it."""

    def __init__(self, template: Template, index: int, lane_number: int, route: Route) -> None:
        self.template = template
        self.url = template.url
        self.index = index
        self.tag = lane_number << URL_BITS | index
        self.route = route
        self.lingering = 0
        """Requests still running although another URL has taken their event."""


class Lane:
    """The stream of one destination."""

    __slots__ = (
        "breaker",
        "cap",
        "catch_up_rate",
        "closed",
        "coming_back",
        "destination",
        "drains",
        "filtered",
        "filters",
        "full",
        "gone",
        "granted",
        "in_flight",
        "intakes",
        "is_replay",
        "loose",
        "name",
        "next_retry_ms",
        "nothing_to_try",
        "number",
        "options",
        "order",
        "others_probe_until_seconds",
        "part",
        "paused",
        "probe_at_seconds",
        "probes",
        "queue",
        "rate",
        "ready",
        "refusals_started",
        "replays",
        "reserved",
        "retry_count",
        "rows",
        "rows_changed",
        "run_started",
        "settling",
        "sides",
        "skip",
        "start",
        "starts",
        "starved",
        "succeeded_ms",
        "targets",
        "timeouts",
        "timeouts_logged_seconds",
        "to_all",
        "tried",
    )

    def __init__(
        self, destination: Destination, start: LaneStart, targets: tuple[Target, ...], filters: Filters | None = None
    ) -> None:
        self.number = start.number
        self.breaker = Breaker(destination.delivery.max_concurrency)
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
        self.gone = False
        """Whether every URL has answered 410: control will pause it."""
        self.queue: deque[Event] = deque()
        self.in_flight: dict[int, int] = {}
        """Places of the events being sent, and when the first attempt began, in ms; 0 for one that has a retry row."""
        self.intakes: dict[int, Intake] = {}
        self.sides: list[Intake] = []
        self.retry_count = 0
        self.next_retry_ms = 0
        self.settling: set[int] = set()
        """Places whose retry row the database shows as it was before the next checkpoint."""
        self.skip: set[int] = set()
        """Places done before a crash that the last checkpoint did not know of."""
        self.loose: set[int] = set()
        """Places in the queue out of the order of the main intake: if given back, they become retry rows."""
        self.rows: set[int] = set()
        """Partitions in which the lane has a row of its own."""
        self.is_replay = False
        """Whether it is a ``ReplayLane``: it goes second, and ends."""
        self.full = False
        self.ready = False
        """Whether it will be dispatched at the end of this turn."""
        self.starved = False
        self.closed = False
        self.coming_back = False
        """Whether dead letters are called back to waiting by a checkpoint that is not saved yet."""
        self.nothing_to_try = False
        """Whether the last probe found no event at all: nobody finds out whether the receiver is back."""
        self.probes = 0
        self.probe_at_seconds = 0.0
        self.run_started = self.refusals_started = 0, 0
        """When the runs of failures and of refusals began: by the wall clock, and by the service's own."""
        self.others_probe_until_seconds = 0.0
        """Until when another process is expected to find out whether the receiver is back."""
        self.tried = 0
        """Probes of this process since the breaker opened, where there are others."""
        self.succeeded_ms = 0
        """When the receiver was last seen to be well, by the wall clock."""
        self.timeouts = 0
        self.timeouts_logged_seconds = 0.0
        self.filtered = 0
        """Events that were not taken because of a filter."""
        self.configure(destination, start, targets, filters)

    def __hash__(self) -> int:
        """The number, so that sets of lanes are walked in an order that does not change from run to run."""
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def configure(
        self, destination: Destination, start: LaneStart, targets: tuple[Target, ...], filters: Filters | None = None
    ) -> None:
        """Take new settings; they hold for what the lane takes from now on."""
        self.destination = destination
        self.name = published_name(destination.kind)
        self.start = start
        self.starts = start.sources
        self.paused = start.paused is not None
        self.catch_up_rate = start.catch_up_rate
        self.drains = start.until is not None
        self.targets = targets
        for target in targets:
            target.lane = self
        self.filters = filters if filters is not None and filters.stops else None
        """None when no filter keeps events from being sent, so that such a lane pays one look."""
        self.options = options = destination.delivery
        if options.order == "none":
            self.order = None
        elif self.order is None:
            self.order = UserOrder()
        self.to_all = options.fan_out == "all"
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
        """Which part of its rate the lane keeps to."""
        return self.part

    def free(self) -> int:
        """How many more requests may be in flight by the user's own limit, which replays share."""
        if self.cap is None:
            return ALLOWANCE_MAX
        return self.cap - len(self.in_flight) - sum(len(replay.in_flight) for replay in self.replays)

    def try_now(self) -> None:
        """Let the next probe leave at once, and begin anew with the waits between them: somebody wants to know."""
        self.probe_at_seconds = 0.0
        self.probes = 0

    def pace(self) -> None:
        """Take the rate that holds now: the user's, and while catching up after a pause the one chosen for that."""
        rates = [rate for rate in (self.options.max_rate, self.catch_up_rate) if rate is not None]
        if not rates:
            self.rate = None
        elif self.rate is None or self.rate.per_second != min(rates):
            self.rate = Rate(min(rates), self.rate_part)

    def takes(self, record: Record, partition: int, offset: int) -> bool:
        """Whether the record is part of this stream and no filter stops it."""
        if not self.routes(record, partition, offset):
            return False
        return self.filters is None or self.passes(record)

    def passes(self, record: Record) -> bool:
        """Whether no filter stops the record; one that is stopped is counted."""
        if self.filters is None or self.filters.passes(record):
            return True
        self.filtered += 1
        return False

    def routes(self, record: Record, partition: int, offset: int) -> bool:
        """Whether the record is part of this stream; ``route/decision.py`` is the explained form."""
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
        """Whether it shares the few places of lanes that are not fully healthy, or go second."""
        return self.is_replay or self.breaker.state != "closed"

    @property
    def is_plain(self) -> bool:
        """Whether a first success of an event that leaves now is all there is to it."""
        return len(self.targets) == 1 and self.order is None and not (self.to_all or self.is_sick)

    @property
    def halted(self) -> bool:
        """Whether nothing is sent but single probes, if those."""
        return self.paused or self.breaker.allowance == 0

    @property
    def state(self) -> str:
        """The state that the lane's row shows."""
        if self.is_drained:
            return "drained"
        return "paused" if self.paused else "gone" if self.gone else self.breaker.state

    @property
    def is_drained(self) -> bool:
        """Whether the lane of a disabled destination has nothing left to send."""
        behind = any(intake.end is not None and intake.next_offset < intake.end for intake in self.intakes.values())
        return self.drains and not (behind or self.sides or self.busy or self.retry_count or self.coming_back)

    @property
    def detached(self) -> list[Intake]:
        """The intakes that a catch-up reader serves: not those that have come to their end."""
        return [
            intake
            for intake in self.intakes.values()
            if not (intake.attached or intake.frozen) and (intake.end is None or intake.next_offset < intake.end)
        ] + [side for side in self.sides if not side.frozen]

    def leave(self, partition: int) -> None:
        """Forget a partition that others own now. What is in flight of it ends, and no longer matters."""
        self.intakes.pop(partition, None)
        self.rows.discard(partition)
        self.sides = [side for side in self.sides if side.partition != partition]
        for places in (self.skip, self.loose, self.settling):
            places.difference_update([place for place in places if place >> PLACE_SHIFT == partition])
        if any(event.place >> PLACE_SHIFT == partition for event in self.queue):
            self.queue = deque(event for event in self.queue if event.place >> PLACE_SHIFT != partition)
        if self.order is not None:
            self.order.forget(partition)

    def spare(self) -> int:
        """How many more attempts may be in flight, besides what the breaker says; a replay goes second."""
        return ALLOWANCE_MAX

    @property
    def busy(self) -> bool:
        """Whether anything is queued or in flight."""
        return bool(self.size or self.in_flight)

    def undone(self, partition: int) -> list[int]:
        """Offsets taken and not yet done that have no retry row, ascending."""
        # Ten times a second for every event that waits: one step each, the rest is done by the two that sort and cut.
        places = [event.place for event in self.queue]
        if self.order is not None:
            places += [event.place for event in self.order.held.values()]
        places += [place for place, first_at_ms in self.in_flight.items() if first_at_ms]
        places.sort()
        base = partition << PLACE_SHIFT
        found = places[bisect_left(places, base) : bisect_left(places, base + (1 << PLACE_SHIFT))]
        return [place - base for place in found] if base else found
