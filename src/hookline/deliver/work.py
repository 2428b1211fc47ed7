"""What the parts of deliver share: the clocks, what the next checkpoint writes, and which lanes need something done."""

from __future__ import annotations

from collections.abc import Callable

from hookline.deliver.clock import Clock
from hookline.deliver.cluster.fence import Fence
from hookline.deliver.counters import Counters
from hookline.deliver.lane_counts import LaneCounts
from hookline.deliver.lanes.lane import Lane
from hookline.deliver.retry.schedule import RetrySchedule
from hookline.deliver.store.batch import Batch
from hookline.journal.record import Record
from hookline.outcomes.progress import ProgressRing


class Work:
    """The lanes of a process and what is open in them."""

    def __init__(self, clock: Clock, schedule: RetrySchedule, ring: ProgressRing, counters: Counters) -> None:
        self.clock = clock
        self.schedule = schedule
        self.ring = ring
        self.counters = counters
        self.lane_counts = LaneCounts()
        self.batch = Batch()
        self.lanes: dict[int, Lane] = {}
        self.open_lanes: set[Lane] = set()
        """Lanes with work that a checkpoint must know of."""
        self.retrying: set[Lane] = set()
        """Lanes that have retry rows."""
        self.probing: set[Lane] = set()
        """Lanes whose breaker lets through one event at a time."""
        self.recount: set[Lane] = set()
        """Lanes some of whose rows went to other workers: how many are left is asked of the database."""
        self.fence: Fence | None = None
        """Where deliver is many processes: until when this one may send."""
        self.on_lane: Callable[[Lane], None] = lambda lane: None
        """Called with each new lane, before anything is sent."""
        self.on_open: Callable[[Lane], None] = lambda lane: None
        """Called when a lane's breaker has opened."""
        self.keep_record: Callable[[int, int, Record], None] | None = None
        """Where the journal is on brokers: keeps the record at a partition's offset at hand, for it is tried again."""
